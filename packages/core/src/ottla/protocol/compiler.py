"""The codec of one struct at one version, compiled to Python source from its declaration on first use.

Only codecs that are used are compiled: a producer never compiles the encoder of a response.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.errors import ProtocolError
from ottla.interfaces import Buffer
from ottla.protocol.decoding import compile_decoder
from ottla.protocol.encoding import compile_encoder

T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes and decodes values at one version. `label` names the struct in errors and tracebacks."""

    def __init__(self, kind: type[T], *, label: str, version: int, flexible: bool) -> None:
        self.label = label
        self._kind = kind
        self._version = version
        self._flexible = flexible

    def encode(self, value: T) -> bytes:
        """The body, without header and length.

        Raises UnsupportedVersionError for a None, or for a field's value, that this version cannot express.
        """
        chunks: list[bytes] = []
        self._encoder(value, chunks.append)
        return b"".join(chunks)

    def decode(self, buffer: Buffer, *, exact: bool = True) -> T:
        """The value of a whole body. Raises ProtocolError for anything else.

        Trailing bytes are an error if *exact*, else ignored.
        """
        data = bytes(buffer)
        try:
            value, end = self._decoder(data)
        except ProtocolError as error:
            raise ProtocolError(f"{self.label} cannot be read: {error}") from None
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ProtocolError(f"{self.label} of {len(data)} bytes cannot be read: {error}") from error
        if exact and end != len(data):
            raise ProtocolError(f"{self.label} ends after {end} bytes, but {len(data)} came")
        decoded: T = value
        return decoded

    @functools.cached_property
    def _encoder(self) -> Callable[[Any, Callable[[bytes], object]], None]:
        return compile_encoder(self._kind, label=self.label, version=self._version, flexible=self._flexible)

    @functools.cached_property
    def _decoder(self) -> Callable[[bytes], tuple[Any, int]]:
        return compile_decoder(self._kind, label=self.label, version=self._version, flexible=self._flexible)
