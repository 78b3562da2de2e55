"""Integers of variable length, as Kafka writes them in flexible messages and in record batches.

Unsigned ones are for messages; zigzag ones (small negative numbers stay short) for records. Read functions take a
buffer and an offset and return the value and the offset after it; they raise ProtocolError for invalid bytes. The
tables are for hot loops and save a call.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import ProtocolError
from ottla.interfaces import Buffer

UVARINT: Final[tuple[bytes, ...]] = tuple(bytes((n,)) for n in range(0x80))
"""`UVARINT[n] == uvarint(n)` for every n that takes one byte."""

VARINT: Final[tuple[bytes, ...]] = (
    *(bytes((n << 1,)) for n in range(0x40)),
    *(bytes((low, high)) for high in range(1, 0x80) for low in range(0x80, 0x100, 2)),
)
"""`VARINT[n] == varint(n)` for every n >= 0 that takes at most two bytes, 0 to 8191."""

_UINT32_BITS: Final = 32
_UINT64_BITS: Final = 64


def uvarint(value: int) -> bytes:
    """An unsigned integer, seven bits a byte, lowest first."""
    if value < 0x80:
        return UVARINT[value]
    if value < 0x4000:  # most lengths are in this range: 1.4x over the loop, CPython 3.11
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A signed integer of 32 or 64 bits in zigzag form; both sizes have the same bytes."""
    if 0 <= value < 0x2000:
        return VARINT[value]
    return uvarint(value << 1 if value >= 0 else (~value << 1) | 1)


def varint_size(value: int) -> int:
    """The number of bytes of `varint(value)`."""
    zigzag = value << 1 if value >= 0 else (~value << 1) | 1
    return (zigzag.bit_length() + 6) // 7 or 1


def read_uvarint(buffer: Buffer, offset: int) -> tuple[int, int]:
    """An unsigned integer of at most 32 bits."""
    return _read(buffer, offset, _UINT32_BITS)


def read_varint(buffer: Buffer, offset: int) -> tuple[int, int]:
    """A zigzag integer of 32 bits."""
    value, offset = _read(buffer, offset, _UINT32_BITS)
    return (value >> 1) ^ -(value & 1), offset


def read_varlong(buffer: Buffer, offset: int) -> tuple[int, int]:
    """A zigzag integer of 64 bits."""
    value, offset = _read(buffer, offset, _UINT64_BITS)
    return (value >> 1) ^ -(value & 1), offset


def _read(buffer: Buffer, offset: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while shift < bits:
            byte = buffer[offset]
            offset += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise ProtocolError(f"a variable-length integer does not fit in {bits} bits")
                return value, offset
            shift += 7
    except IndexError:
        raise ProtocolError("the bytes end inside a variable-length integer") from None
    raise ProtocolError(f"a variable-length integer of {bits} bits continues after {shift // 7} bytes")


def skip_tagged_fields(buffer: Buffer, offset: int) -> int:
    """The offset after a block of tagged fields, all of which are ignored (KIP-482)."""
    count, offset = read_uvarint(buffer, offset)
    end = len(buffer)
    for _ in range(count):
        _tag, offset = read_uvarint(buffer, offset)
        size, offset = read_uvarint(buffer, offset)
        offset += size
        if offset > end:
            raise ProtocolError(f"a tagged field of {size} bytes ends {offset - end} bytes behind the buffer")
    return offset
