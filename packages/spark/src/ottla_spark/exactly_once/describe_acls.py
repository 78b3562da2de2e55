"""DescribeAcls: the ACLs of a topic or a transactional id (KIP-140, patterns since KIP-290)."""

from __future__ import annotations

from typing import Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Int8, Int16, Int32, String

TOPIC: Final = 2
TRANSACTIONAL_ID: Final = 5
MATCH: Final = 2
"""All patterns that match a name: the name itself, prefixes of it, and `*`."""
ANY: Final = 1
ALL: Final = 2
WRITE: Final = 4
ALLOW: Final = 3


@attrs.define(kw_only=True)
class DescribeAclsRequest:
    """Filter for ACLs; None matches any value."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = MATCH
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = ANY
    permission_type: Int8 = ANY


@attrs.define(kw_only=True)
class AclDescription:
    """One ACL."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@attrs.define(kw_only=True)
class DescribeAclsResource:
    """The ACLs of one pattern."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = attrs.Factory(list)


@attrs.define(kw_only=True)
class DescribeAclsResponse:
    """All ACLs that match the filter, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = attrs.Factory(list)


DESCRIBE_ACLS = Message(
    name="DescribeAcls",
    key=29,
    min_version=1,
    max_version=3,
    flexible_from=2,
    request_type=DescribeAclsRequest,
    response_type=DescribeAclsResponse,
)
