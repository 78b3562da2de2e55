"""LZ4 inside messages of format v0: the frame's header checksum has to be wrong.

Kafka's first LZ4 writer included the frame's magic number in the checksum; the LZ4 specification does not. Brokers of
that time require the wrong checksum, so v0 keeps it; from v1 on frames are right (KIP-57). Newer readers ignore the
byte in v0, since other writers wrote it right even then; here it is corrected before a library reads the frame.
"""

from __future__ import annotations

from typing import Final

from ottla.interfaces import Buffer

_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS: Final = len(_MAGIC)
_SIZED: Final = 0x08
"""The flag of a frame that states its content size in 8 more bytes of the header."""

_UINT32: Final = 0xFFFFFFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def with_v0_checksum(frame: bytes) -> bytes:
    """The frame with the checksum of messages of format v0."""
    place = _checksum_place(frame)
    return frame if place is None else _replaced(frame, place, frame[:place])


def with_right_checksum(frame: Buffer) -> Buffer:
    """The frame with the specified checksum, whatever it was; anything but a frame is returned unchanged."""
    place = _checksum_place(frame)
    return frame if place is None else _replaced(frame, place, frame[_FLAGS:place])


def _checksum_place(frame: Buffer) -> int | None:
    if len(frame) <= _FLAGS or frame[:_FLAGS] != _MAGIC:
        return None
    place = _FLAGS + 2 + (8 if frame[_FLAGS] & _SIZED else 0)
    return place if place < len(frame) else None


def _replaced(frame: Buffer, place: int, covered: Buffer) -> bytes:
    return b"".join((frame[:place], bytes((_xxh32(covered) >> 8 & 0xFF,)), frame[place + 1 :]))


def _xxh32(few: Buffer) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which have no stripes."""
    one, two, three, four, five = _PRIMES
    digest = five + len(few)
    words = len(few) // 4 * 4
    for start in range(0, words, 4):
        digest += int.from_bytes(few[start : start + 4], "little") * three
        digest = _rotated(digest, 17) * four
    for byte in few[words:]:
        digest = _rotated(digest + byte * five, 11) * one
    digest &= _UINT32
    digest = (digest ^ digest >> 15) * two & _UINT32
    digest = (digest ^ digest >> 13) * three & _UINT32
    return digest ^ digest >> 16


def _rotated(number: int, by: int) -> int:
    number &= _UINT32
    return (number << by | number >> 32 - by) & _UINT32
