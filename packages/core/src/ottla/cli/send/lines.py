"""Lines of text as records, and lines of JSON (NDJSON), whose fields may be parts of the record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.json

from ottla.cli.send.columns import HEADERS, InputError, Parts, as_numbers, as_times
from ottla.protocol.binary_arrays import binary_array

_LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a line; `max.request.size` is far less."""
_NAMES: Final = 20
_LONGEST_NAME: Final = 60
"""Of the fields that a message names: how many, and the characters of each."""
_begins_an_object: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r]*\{").match


def line_blocks(stream: BinaryIO, *, max_bytes: int, read: Callable[[int], bytes] | None = None) -> Iterator[bytes]:
    """Yield the stream in blocks of whole lines, each of about *max_bytes*, without the newline of its last line.

    *read*, such as `BufferedReader.read1`, gets the maximum of bytes to return; it returns fewer instead of waiting
    for more. Without it, all blocks but the last one are read up to the maximum, and the last one has all that remains.
    """
    fill, read = read is None, read or partial(_filled, stream)
    rest: list[bytes] = []
    size = 0
    while data := read(max_bytes):
        if fill and len(data) < max_bytes:
            yield b"".join((*rest, data.removesuffix(b"\n")))
            return
        end = data.rfind(b"\n")
        if end < 0:
            rest.append(data)
            size += len(data)
            if size > _LONGEST:
                raise InputError(f"a line is longer than {_LONGEST} bytes")
            continue
        yield b"".join((*rest, data[:end]))
        rest, size = [data[end + 1 :]], len(data) - end - 1
    if last := b"".join(rest):
        yield last


def _filled(stream: BinaryIO, size: int) -> bytes:
    """Read that many bytes, fewer only at the end: a raw file may return fewer at any time."""
    parts: list[bytes] = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def split(block: bytes, *, blank: bool) -> list[bytes]:
    """Return the lines of a block; *blank* lines are lines, too, or are left out."""
    if b"\r\n" in block or block.endswith(b"\r"):
        block = (block + b"\n").replace(b"\r\n", b"\n")[:-1]
    lines = block.split(b"\n")
    return lines if blank else [line for line in lines if line and not line.isspace()]


def line_table(lines: Sequence[bytes], separator: bytes | None, first: int) -> Any:
    """A table of lines as values; with a *separator*, a key stands before the first one of each line."""
    if separator is None:
        return pa.Table.from_arrays([binary_array(lines)], ["value"])
    keys, values = [], []
    for number, line in enumerate(lines, start=first):
        key, found, value = line.partition(separator)
        if not found:
            raise InputError(f"record {number} has no {separator.decode(errors='replace')!r} after its key")
        keys.append(key)
        values.append(value)
    return pa.Table.from_arrays([binary_array(keys), binary_array(values)], ["key", "value"])


def json_table(lines: Sequence[bytes], parts: Parts, first: int) -> Any:
    """A table of lines of JSON: the value is the line as it is, or a field; other parts are fields.

    The result's columns are named as the parts. Raises InputError with the number of a record that is no object.
    """
    fields = parts.named
    columns: dict[str, Any] = {}
    if "value" not in fields:
        columns["value"] = binary_array(lines)
    for part, name in fields.items():
        columns[part] = _CONVERSIONS[part](lines, name, first)
    return pa.Table.from_arrays([*columns.values()], [*columns])


def absent_field(lines: Sequence[bytes], parts: Parts, table: Any) -> str | None:
    """A sentence about a field that *parts* name and none of the lines has; None if there is no such field.

    *table* is what `json_table` has made of the lines. A field that is null is there.
    """
    for part, name in parts.named.items():
        if table[part].null_count == len(lines) and not any(name in fields for fields in map(_names, lines)):
            names = ", ".join(repr(each)[:_LONGEST_NAME] for each in _names(lines[0])[:_NAMES]) or "none"
            return f"no record has the field {name!r} that --{part} names; fields of the first one: {names}"
    return None


def _names(line: bytes) -> list[str]:
    """The names of an object's fields, which pyarrow has read; none if Python's json cannot: pyarrow takes more."""
    try:
        return list(json.loads(line.decode(errors="replace").removeprefix("\ufeff"), parse_int=str, strict=False))
    except (RecursionError, ValueError):
        return []


def _text(lines: Sequence[bytes], name: str, first: int) -> Any:
    """A field as text. Numbers are the text that the line has, as exactly as pyarrow or Python's json read it."""
    for kind in (pa.string(), pa.int64()):
        column = _parsed(lines, name, kind)
        if column is not None:
            return column.cast(pa.string())
    return pa.array(list(_fields(lines, name, first, _scalar, parse_int=str, parse_float=str)), pa.string())


def _value(lines: Sequence[bytes], name: str, first: int) -> Any:
    column = _parsed(lines, name, pa.string())
    return column if column is not None else pa.array(list(_fields(lines, name, first, _document)), pa.string())


def _headers(lines: Sequence[bytes], name: str, first: int) -> Any:
    return pa.array(list(_fields(lines, name, first, _header_pairs)), HEADERS)


def _number(lines: Sequence[bytes], name: str, first: int) -> Any:
    column = _parsed(lines, name, pa.int64())
    return column if column is not None else as_numbers(_text(lines, name, first), name)


def _time(lines: Sequence[bytes], name: str, first: int) -> Any:
    column = _parsed(lines, name, pa.int64())
    return column if column is not None else as_times(_text(lines, name, first), name)


_CONVERSIONS: Final = {
    "key": _text,
    "value": _value,
    "headers": _headers,
    "partition": _number,
    "timestamp": _time,
}


def _parsed(lines: Sequence[bytes], name: str, kind: Any) -> Any | None:
    """A field as pyarrow parses it; None if a line does not fit, which Python's json then decides."""
    # pyarrow crashes if the first line is `null`, and takes others for {}. The first comparison is five times as fast.
    if {line[:1] for line in lines} != {b"{"} and not all(map(_begins_an_object, lines)):
        return None
    data = b"\n".join(lines)
    try:
        table = pa.json.read_json(
            pa.BufferReader(data),
            read_options=pa.json.ReadOptions(block_size=len(data) + 1, use_threads=False),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema([(name, kind)]), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    return table[name] if table.num_rows == len(lines) else None


def _fields(
    lines: Sequence[bytes], name: str, first: int, convert: Callable[[Any], Any], **options: Any
) -> Iterator[Any]:
    for number, line in enumerate(lines, start=first):
        try:
            document = json.loads(line, parse_constant=_refuse_constant, **options)
        except RecursionError:
            raise InputError(f"record {number} is nested too deeply") from None
        except ValueError as error:
            raise InputError(f"record {number} is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise InputError(f"record {number} is not a JSON object, so it has no field {name!r}")
        try:
            yield convert(document.get(name))
        except RecursionError:
            raise InputError(f"field {name!r} of record {number} is nested too deeply") from None
        except UnicodeEncodeError:  # JSON may have half of a surrogate pair, as \ud800
            raise InputError(
                f"field {name!r} of record {number} has half of a surrogate pair, which is no text"
            ) from None
        except TypeError as error:
            raise InputError(f"field {name!r} of record {number}: {error}") from None


def _refuse_constant(name: str) -> None:
    """Raise ValueError: Python's json takes NaN and Infinity, which are no JSON, and would write them, too."""
    raise ValueError(f"{name} is no JSON value")


def _scalar(field: Any) -> str | None:
    if isinstance(field, bool):
        return str(field).lower()
    if field is None or isinstance(field, str):
        return encodable(field)
    raise TypeError("a key must be text or a number")


def _document(field: Any) -> str | None:
    if field is None or isinstance(field, str):
        return encodable(field)
    return encodable(json.dumps(field, ensure_ascii=False, separators=(",", ":")))


def encodable(text: str | None) -> str | None:
    """The text. Raises UnicodeEncodeError if it has half of a surrogate pair."""
    if text is not None:
        text.encode()
    return text


def _header_pairs(field: Any) -> list[tuple[str, bytes | None]] | None:
    if field is None:
        return None
    if not isinstance(field, dict) or not all(value is None or isinstance(value, str) for value in field.values()):
        raise TypeError("headers must be an object whose values are text or null")
    for name in field:
        encodable(name)
    return [(name, None if value is None else value.encode()) for name, value in field.items()]
