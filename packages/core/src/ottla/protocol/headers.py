"""The header of a request, and the header of its response.

Request headers have version 1, or 2 from a message's first flexible version on, with a block of tagged fields at the
end. Response headers have version 0, or 1 with tagged fields; ApiVersions responses always have version 0.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

from ottla.errors import ProtocolError
from ottla.interfaces import Buffer
from ottla.protocol.message import Message
from ottla.protocol.primitives import skip_tagged_fields

_REQUEST: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")


def request_header(message: Message[Any, Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, without the length before it."""
    rest = _client_id_and_tags(client_id, message.flexible(version))
    return _REQUEST.pack(message.key, version, correlation_id) + rest


@functools.lru_cache(maxsize=64)
def _client_id_and_tags(client_id: str | None, flexible: bool) -> bytes:
    # Header 2 keeps the client id's 2-byte length, so that an old broker can read any ApiVersions request.
    client = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(client)
    return _SIZE.pack(size) + client + (b"\0" if flexible else b"")


def read_response_header(message: Message[Any, Any], version: int, buffer: Buffer) -> tuple[int, int]:
    """The correlation id of a response, and the offset of its body. Raises ProtocolError."""
    try:
        [correlation_id] = _CORRELATION_ID.unpack_from(buffer)
    except struct.error:
        raise ProtocolError(f"a response of {len(buffer)} bytes has no correlation id") from None
    offset = _CORRELATION_ID.size
    if message.flexible_response_header and message.flexible(version):
        # Usually one byte says that there are none.
        tagged = len(buffer) == offset or buffer[offset]
        offset = skip_tagged_fields(buffer, offset) if tagged else offset + 1
    return correlation_id, offset
