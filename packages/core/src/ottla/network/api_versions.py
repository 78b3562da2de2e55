"""The first exchange on a connection: the request versions that a broker supports (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ottla.errors import BrokerError, ErrorCode, ProtocolError, error_code
from ottla.network.request import Request
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE, ApiVersionsRequest, peek_error_code
from ottla.results.value_methods import ValueMethods
from ottla.version import __version__


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Features(ValueMethods):
    """Finalized levels of the cluster's features; `epoch` increases with each change, -1: none is known."""

    levels: Mapping[str, int] = attrs.Factory(dict)
    epoch: int = -1

    def newer(self, other: Features) -> Features:
        """Return the features with the later epoch."""
        return other if other.epoch > self.epoch else self


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NodeApiVersions(ValueMethods):
    """The content of an ApiVersions response: the request versions that a broker supports.

    `version` is the version of the response. `ask_again_with`: the version with which to repeat the request, or None.
    """

    version: int
    versions: Mapping[int, tuple[int, int]]
    features: Features = attrs.Factory(Features)
    throttle_ms: int = 0
    ask_again_with: int | None = None


def api_versions_request() -> Request:
    """The first request of every connection; the client itself handles its response."""
    return Request(
        message=API_VERSIONS,
        body=lambda version: [
            API_VERSIONS.request(version).encode(
                ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
            )
        ],
        on_complete=lambda _completion: None,
    )


def read_api_versions(version: int, body: memoryview) -> NodeApiVersions:
    """Parse an ApiVersions response to a request of *version*.

    Raises ProtocolError if the response cannot be parsed, or has an error that another version of the request cannot
    fix.
    """
    code = error_code(peek_error_code(body))
    if code is ErrorCode.UNSUPPORTED_VERSION and version > 0:
        return NodeApiVersions(version=version, versions={}, ask_again_with=_highest_offered(version, body))
    if code is not ErrorCode.NONE:
        raise ProtocolError(f"the broker refused the ApiVersions request: {BrokerError(code)}")
    try:
        response = API_VERSIONS.response(version).decode(body)
    except ProtocolError:
        if version == 0:
            raise
        # librdkafka's mock cluster garbles the flexible versions.
        return NodeApiVersions(version=version, versions={}, ask_again_with=0)
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    _check_ranges(versions)
    return NodeApiVersions(
        version=version,
        versions=versions,
        features=Features(
            levels={feature.name: feature.max_version_level for feature in response.finalized_features},
            epoch=response.finalized_features_epoch,
        ),
        throttle_ms=response.throttle_time_ms,
    )


def _check_ranges(versions: Mapping[int, tuple[int, int]]) -> None:
    """Raise ProtocolError if a range that a producer cannot do without is inverted: the response was garbled.

    Believed, it would refuse every record as long as the connection lives. Proxies may disable other requests so.
    """
    for message in (METADATA, PRODUCE):
        lowest, highest = versions.get(message.key, (0, 0))
        if lowest > highest:
            raise ProtocolError(f"the ApiVersions response offers versions {lowest} to {highest} of {message.name}")


def _highest_offered(version: int, body: memoryview) -> int:
    """The version of ApiVersions to try after *version*: the broker's highest if the response has it, else 0."""
    try:
        # KIP-511: the response to an unsupported version has the format of version 0. From Kafka 2.4 on it has the
        # supported range of ApiVersions. Older brokers send no range, and some send only a part of the format.
        response = API_VERSIONS.response(0).decode(body, exact=False)
    except ProtocolError:
        return 0
    highest = next((api.max_version for api in response.api_keys if api.api_key == API_VERSIONS.key), 0)
    return highest if 0 < highest < version else 0
