"""Python's values as MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md.

Each value has one form, the shortest one; floats always have 64 bits. The values inside a list or a mapping may be
None, which is nil. A datetime with a zone is the specification's extension type for timestamps.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

NIL: Final = b"\xc0"

_DEEPEST: Final = 100
"""How deep lists and mappings may be in each other; what holds itself is deeper than any number."""
_LONGEST: Final = 2**32 - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def pack(data: Any) -> bytes:
    """Return the bytes. TypeError and ValueError say what has no form in MessagePack."""
    parts: list[bytes] = []
    _pack(data, parts.append, 0)
    return b"".join(parts)


def pack_int(number: int) -> bytes:
    """A number from -2**63 to 2**64 - 1, in its shortest form."""
    if 0 <= number < 128 or -32 <= number < 0:
        return struct.pack("b" if number < 0 else "B", number)
    forms = "\xd0b \xd1h \xd2i \xd3q" if number < 0 else "\xccB \xcdH \xceI \xcfQ"
    for form in forms.split():
        try:
            return form[0].encode("latin-1") + struct.pack(">" + form[1], number)
        except struct.error:
            continue
    raise ValueError("an int of more than 64 bits has no form in MessagePack")


def pack_float(number: float) -> bytes:
    """A number with 64 bits, also NaN and the infinities."""
    return struct.pack(">Bd", 0xCB, number)


def pack_bool(truth: bool) -> bytes:
    """One byte."""
    return b"\xc3" if truth else b"\xc2"


def pack_str(text: str) -> bytes:
    """The text in UTF-8, after its length."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a str with half a surrogate pair, at {error.start}, has no form in UTF-8") from None
    size = len(encoded)
    if size < 32:
        return bytes((0xA0 | size,)) + encoded
    return _head(size, (0xD9, 0xDA, 0xDB)) + encoded


def pack_bytes(data: bytes) -> bytes:
    """The bytes, after their length."""
    return _head(len(data), (0xC4, 0xC5, 0xC6)) + data


def list_head(size: int) -> bytes:
    """What comes before the items of a list."""
    return bytes((0x90 | size,)) if size < 16 else _head(size, (None, 0xDC, 0xDD))


def map_head(size: int) -> bytes:
    """What comes before the keys and values of a mapping."""
    return bytes((0x80 | size,)) if size < 16 else _head(size, (None, 0xDE, 0xDF))


def pack_timestamp(seconds: int, nanoseconds: int) -> bytes:
    """The extension type -1, for *seconds* since 1970, with *nanoseconds* from 0 to 999,999,999."""
    if 0 <= seconds < 2**34:
        if not nanoseconds and seconds < 2**32:
            return struct.pack(">BbI", 0xD6, -1, seconds)
        return struct.pack(">BbQ", 0xD7, -1, nanoseconds << 34 | seconds)
    return struct.pack(">BBbIq", 0xC7, 12, -1, nanoseconds, seconds)


def _pack(data: Any, add: Callable[[bytes], None], depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"lists and mappings are more than {_DEEPEST} deep in each other")
    match data:
        case None:
            add(NIL)
        case bool():
            add(pack_bool(data))
        case int():
            add(pack_int(data))
        case float():
            add(pack_float(data))
        case str():
            add(pack_str(data))
        case bytes() | bytearray() | memoryview():
            add(pack_bytes(bytes(data)))
        case list() | tuple():
            items = list(data)
            add(list_head(len(items)))
            for item in items:
                _pack(item, add, depth + 1)
        case Mapping():
            add(map_head(len(data)))
            _pack_pairs(data.items(), add, depth + 1)
        case datetime.datetime():
            add(_pack_datetime(data))
        case _:
            raise TypeError(f"{type(data).__name__} has no form in MessagePack")


def _pack_pairs(pairs: Iterable[tuple[Any, Any]], add: Callable[[bytes], None], depth: int) -> None:
    for key, value in pairs:
        if isinstance(key, bool) or not isinstance(key, str | bytes | int):
            raise TypeError(f"a key of a mapping must be str, bytes or int, not {type(key).__name__}")
        _pack(key, add, depth)
        _pack(value, add, depth)


def _pack_datetime(moment: datetime.datetime) -> bytes:
    if moment.utcoffset() is None:
        raise ValueError("a datetime without a zone is no moment; give it one, such as datetime.UTC")
    since = moment - _EPOCH
    # pandas.Timestamp is a datetime with nanoseconds beyond its microseconds.
    beyond = getattr(moment, "nanosecond", 0)
    return pack_timestamp(since.days * 86_400 + since.seconds, since.microseconds * 1000 + beyond)


def _head(size: int, codes: tuple[int | None, int, int]) -> bytes:
    of_byte, of_short, of_long = codes
    if of_byte is not None and size < 2**8:
        return struct.pack(">BB", of_byte, size)
    if size < 2**16:
        return struct.pack(">BH", of_short, size)
    if size <= _LONGEST:
        return struct.pack(">BI", of_long, size)
    raise ValueError(f"{size} bytes or items are more than MessagePack can count")
