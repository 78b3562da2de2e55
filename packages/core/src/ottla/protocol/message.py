"""One API of Kafka: its key, its versions, its two structs, and the choice of a version for a broker."""

from __future__ import annotations

import functools
from typing import Any, Generic, TypeVar

import attrs

from ottla.errors import UnsupportedVersionError
from ottla.protocol.compiler import Codec

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Message(Generic[RequestT, ResponseT]):
    """The declaration of an API. From `flexible_from` on it has compact lengths and tagged fields."""

    name: str
    key: int
    min_version: int
    max_version: int
    flexible_from: int | None
    request_type: type[RequestT]
    response_type: type[ResponseT]
    flexible_response_header: bool = True
    _codecs: dict[tuple[str, int], Codec[Any]] = attrs.field(factory=dict, init=False, repr=False)

    def request(self, version: int) -> Codec[RequestT]:
        """The codec of the request's body. Raises UnsupportedVersionError."""
        return self._codec("request", version, self.request_type)

    def response(self, version: int) -> Codec[ResponseT]:
        """The codec of the response's body. Raises UnsupportedVersionError."""
        return self._codec("response", version, self.response_type)

    def flexible(self, version: int) -> bool:
        """Return whether this version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from

    def _codec(self, kind: str, version: int, struct: type[Any]) -> Codec[Any]:
        codec = self._codecs.get((kind, version))
        if codec is None:
            label = f"{self.name} {kind} v{version}"
            if not self.min_version <= version <= self.max_version:
                raise UnsupportedVersionError(
                    f"{label} is not declared, only versions {self.min_version} to {self.max_version}"
                )
            codec = Codec(struct, label=label, version=version, flexible=self.flexible(version))
            self._codecs[kind, version] = codec
        return codec


@functools.lru_cache(maxsize=1_024)  # asked for each request, with the same few arguments
def choose_version(
    message: Message[Any, Any],
    broker_min: int,
    broker_max: int,
    *,
    floor: int = 0,
    ceiling: int | None = None,
) -> int:
    """The highest version in both the broker's range and ours, from *floor* to *ceiling*.

    Raises UnsupportedVersionError when there is none.
    """
    lowest = max(message.min_version, floor)
    highest = message.max_version if ceiling is None else min(message.max_version, ceiling)
    version = min(highest, broker_max)
    if version < max(lowest, broker_min):
        raise UnsupportedVersionError(
            f"no version of {message.name} fits: the broker takes {broker_min} to {broker_max}, "
            f"and this request needs {lowest} to {highest}"
        )
    return version
