"""The plugin: its key, and a serializer of keys and values, also of columns of tables."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Header, PluginConfig, Serializer

from ottla_serializer_msgpack.packing import pack

ottla_conformance = "ottla_serializer_msgpack.conformance:MsgpackConformance"

CONTENT_TYPE: Final = "msgpack.content.type"
DEFAULT_CONTENT_TYPE: Final = "application/vnd.msgpack"
HEADER: Final = "content-type"


class MsgpackSerializer:
    """MessagePack in its shortest form. It keeps nothing between calls, so many threads may call it at once."""

    def __init__(self, *, part: str, content_type: str) -> None:
        self._part = part
        self._content_type = content_type.encode()
        self.sets_headers = bool(content_type)

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """Return the bytes; None stays None. TypeError and ValueError reach the caller of `send`."""
        if data is None:
            return None
        try:
            packed = pack(data)
        except TypeError as error:
            raise TypeError(f"a {self._part} for topic {topic!r}: {error}") from None
        except ValueError as error:
            raise ValueError(f"a {self._part} for topic {topic!r}: {error}") from None
        # A content type that the program has set itself is kept.
        if self.sets_headers and isinstance(headers, MutableSequence) and not _names_a_type(headers):
            headers.append((HEADER, self._content_type))
        return packed

    def serialize_column(self, topic: str, column: Any) -> Any:
        """Return a large_binary array; a null row stays null. TypeError refuses a type."""
        from ottla_serializer_msgpack.columns import pack_column  # needs pyarrow, as tables do

        return pack_column(column)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the header."""
    return [
        ConfigKey(
            name=CONTENT_TYPE,
            type=_header_value,
            default=DEFAULT_CONTENT_TYPE,
            meaning=f"the header {HEADER} of records with such a value; empty: no header",
        )
    ]


@hookimpl
def ottla_serializer(config: PluginConfig, is_key: bool) -> Serializer:
    """The serializer named `msgpack`. The header names the type of the value, so a key sets none."""
    if is_key:
        return MsgpackSerializer(part="key", content_type="")
    return MsgpackSerializer(part="value", content_type=config[CONTENT_TYPE])


def _names_a_type(headers: Sequence[Header]) -> bool:
    return any(name.lower() == HEADER for name, _value in headers)


def _header_value(written: Any) -> str:
    if not isinstance(written, str):
        raise TypeError("it must be a string")
    if not (written.isascii() and written.isprintable()):
        raise ValueError("it must be printable ASCII, such as application/msgpack")
    return written.strip()
