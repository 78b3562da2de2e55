"""ApiVersions: the request versions that a broker supports, and the finalized features of its cluster.

A response with error 35 has the form of version 0 for any requested version, and some brokers write even that wrong:
read the code with `peek_error_code` before decoding anything.
"""

from __future__ import annotations

import struct
from typing import Annotated

import attrs

from ottla.errors import ProtocolError
from ottla.interfaces import Buffer
from ottla.protocol.message import Message
from ottla.protocol.notation import Bool, Ignorable, In, Int16, Int32, Int64, String, Struct, Tag


@attrs.define(kw_only=True, eq=False, repr=False)
class ApiVersionsRequest(Struct):
    """Brokers check both texts: letters, digits, `.` and `-`, beginning and ending with a letter or digit."""

    client_software_name: Annotated[String, In(3), Ignorable()] = ""
    client_software_version: Annotated[String, In(3), Ignorable()] = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class ApiVersion(Struct):
    """The versions of one request that the broker offers."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class SupportedFeatureKey(Struct):
    """The levels of one feature that the broker supports."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class FinalizedFeatureKey(Struct):
    """The finalized levels of one feature in the whole cluster, such as `transaction.version`."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class ApiVersionsResponse(Struct):
    """`finalized_features` are valid only if their epoch is not negative."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = attrs.Factory(list)
    throttle_time_ms: Annotated[Int32, In(1), Ignorable()] = 0
    supported_features: Annotated[list[SupportedFeatureKey], In(3), Tag(0), Ignorable()] = attrs.Factory(list)
    finalized_features_epoch: Annotated[Int64, In(3), Tag(1), Ignorable()] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], In(3), Tag(2), Ignorable()] = attrs.Factory(list)
    zk_migration_ready: Annotated[Bool, In(3), Tag(3), Ignorable()] = False


API_VERSIONS = Message(
    name="ApiVersions",
    key=18,
    min_version=0,
    max_version=4,
    flexible_from=3,
    # KIP-511: the client does not know the broker's versions yet, so the header must not depend on the version.
    flexible_response_header=False,
    request_type=ApiVersionsRequest,
    response_type=ApiVersionsResponse,
)


def peek_error_code(body: Buffer) -> int:
    """The error code of an ApiVersions response without its header; it is the first field at every version."""
    try:
        [code] = struct.unpack_from(">h", body)
    except struct.error:
        raise ProtocolError(f"an ApiVersions response of {len(body)} bytes is too short for an error code") from None
    return int(code)
