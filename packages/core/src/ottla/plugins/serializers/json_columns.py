"""A column as JSON, one text per row, computed column by column, in the format of Spark's `to_json`.

Fields that are null are left out, times have milliseconds and their zone, bytes are base64, and numbers that JSON lacks
are text. The notation of floating-point numbers may differ from Java's or Python's (1e+10 for 1.0E10).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.plugins.serializers.json_strings import quoted_text
from ottla.plugins.serializers.json_times import dates, times, times_of_day
from ottla.plugins.serializers.packed_columns import texts_of, unpacked, unpacked_type
from ottla.protocol.binary_arrays import list_offsets, null, number, string, strings

_BETWEEN: Final = string("")
_LEAST_PRINTABLE: Final = 0x20
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN: Final = ("boolean", "integer", "floating", "decimal", "time", "date", "timestamp", "null")
_TEXT: Final = ("string", "large_string", "string_view")
_BINARY: Final = ("binary", "large_binary", "fixed_size_binary", "binary_view")
_LISTS: Final = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")


def problem(kind: Any, path: str = "") -> str | None:
    """Return why a column of this type cannot be JSON, with the place of the type that cannot, or None if it can.

    The keys of a map are text, times or numbers.
    """
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        within = [(field.type, f"{path}.{field.name}" if path else field.name) for field in fields]
    elif pa.types.is_map(kind):
        if not _is(kind.key_type, *_PLAIN, *_TEXT):
            return f"{_shown(path)}a map with keys of type {kind.key_type} has no JSON form"
        within = [(kind.item_type, f"{path}.value" if path else "value")]
    elif _is(kind, *_LISTS):
        within = [(kind.value_type, f"{path}[]")]
    elif (packed := unpacked_type(kind)) is not None:
        within = [(packed, path)]
    elif _is(kind, *_PLAIN, *_TEXT, *_BINARY):
        return None
    else:
        return f"{_shown(path)}{kind} has no JSON form"
    return next(filter(None, (problem(inner, where) for inner, where in within)), None)


def _shown(path: str) -> str:
    return f"column {path!r}: " if path else ""


class JsonRows(Protocol):
    """An encoder's ability `json_rows`: the offsets and the bytes of *count* objects of these columns.

    For a column of an unsupported type it calls *text*, which returns a string column and the quotes for its cells.
    """

    def __call__(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]: ...


def texts(column: Any, *, rows: JsonRows | None = None) -> Any:
    """The JSON of each row, null where the row is null. *rows*, an ability of encoders, writes structs faster."""
    text, quote = _bare(column, rows)
    return _between(quote, text, quote) if quote else text


def objects(names: Sequence[str], columns: Sequence[Any], *, count: int, rows: JsonRows | None = None) -> Any:
    """Objects with these fields, without null ones. *rows*, an ability of encoders, writes them faster."""
    if rows is not None:
        offsets, content = rows(names, columns, count=count, text=partial(_bare, rows=rows))
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))
    parts: list[Any] = []
    begun = False  # whether a field certainly precedes the next one
    ending = ""  # of the previous field, written together with the next label
    for name, column in zip(names, columns, strict=True):
        if column.null_count == len(column):
            continue
        text, quote = _bare(column, None)
        label = quoted_text(name) + ":" + quote
        if text.null_count:
            parts += [string(ending), pc.fill_null(_between("," + label, text, quote), _BETWEEN)]
            ending = ""
        else:
            begun = begun or not parts
            parts += [string(ending + ("," if parts or not begun else "{") + label), text]
            ending = quote
    if not parts:
        return pa.repeat(string("{}"), count)
    if begun:
        return pc.binary_join_element_wise(*parts, string(ending + "}"), _BETWEEN)
    joined = pc.binary_join_element_wise(*parts, string(ending), _BETWEEN)
    return _between("{", pc.utf8_replace_slice(joined, 0, 1, ""), "}")  # without the first comma


def _bare(column: Any, rows: JsonRows | None) -> tuple[Any, str]:
    """The JSON of each row without its quotes, and the quotes."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return _null_where(column, objects(names, column.flatten(), count=len(column), rows=rows)), ""
    if pa.types.is_map(kind):
        return _map(column, rows), ""
    if unpacked_type(kind) is not None:
        return _bare(unpacked(column), rows)
    if _is(kind, *_LISTS):
        return _between("[", _joined(column, pc.fill_null(texts(column.flatten(), rows=rows), string("null"))), "]"), ""
    if _is(kind, *_TEXT):
        return _escaped(column.cast(pa.string())), '"'
    if pa.types.is_timestamp(kind):
        return times(column), '"'
    if pa.types.is_date(kind):
        return dates(column), '"'
    if pa.types.is_time(kind):
        return times_of_day(column), '"'
    if _is(kind, *_BINARY):
        return texts_of(column, _base64), '"'  # pyarrow has no base64: an object is made for each row
    text = column.cast(pa.string())
    if pa.types.is_decimal(kind):
        return _without_exponents(text), ""
    return (_with_non_finite_numbers(column, text) if pa.types.is_floating(kind) else text), ""


def _base64(cell: bytes) -> str:
    return b64encode(cell).decode()


def _map(column: Any, rows: JsonRows | None) -> Any:
    pairs = _pairs(column)
    keys, values = pairs.flatten().flatten()
    name, quote = _bare(keys, None)
    if not quote:  # a number that JSON lacks already has quotes
        name = pc.replace_substring(name, '"', "")
    each = pc.binary_join_element_wise(
        _between('"', name, '"'), pc.fill_null(texts(values, rows=rows), string("null")), string(":")
    )
    return _between("{", _joined(pairs, each), "}")


def _pairs(column: Any) -> Any:
    """A map's column as lists of its keys and values. pyarrow's cast gives children of type null wrong lengths.

    With a slice of such a map, a check of pyarrow then ended the process.
    """
    children = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    validity, offsets = column.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(children.type), len(column), [validity, offsets], offset=column.offset, children=[children]
    )


def _joined(lists: Any, elements: Any) -> Any:
    """The texts of each list's elements, joined by commas, null where the list is."""
    lengths = pc.list_value_length(lists)
    counts = pc.fill_null(lengths, number(0, lengths.type)).cast(pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(list_offsets(counts), elements), string(","))
    return _null_where(lists, joined)


def _null_where(column: Any, text: Any) -> Any:
    return pc.if_else(column.is_valid(), text, null(pa.string())) if column.null_count else text


def _between(before: str, text: Any, after: str) -> Any:
    return pc.binary_join_element_wise(string(before), text, string(after), _BETWEEN)


def _escaped(text: Any) -> Any:
    """The text with JSON's escapes; special characters are rare, so the bytes of all rows are searched at once."""
    content = text.buffers()[2]
    if content is None or not len(text):
        return text
    offsets = pa.Array.from_buffers(pa.int32(), text.offset + len(text) + 1, [None, text.buffers()[1]])
    start, stop = offsets[text.offset].as_py(), offsets[-1].as_py()
    codes = pa.Array.from_buffers(pa.uint8(), stop - start, [None, content.slice(start, stop - start)])
    for mark in ("\\", '"'):
        if pc.any(pc.equal(codes, number(ord(mark), pa.uint8()))).as_py():
            text = pc.replace_substring(text, mark, "\\" + mark)
    if pc.min(codes).as_py() is None or pc.min(codes).as_py() >= _LEAST_PRINTABLE:
        return text
    for code in pc.unique(codes.filter(pc.less(codes, number(_LEAST_PRINTABLE, pa.uint8())))).to_pylist():
        text = pc.replace_substring(text, chr(code), _ESCAPES.get(chr(code), f"\\u{code:04X}"))
    return text


def _without_exponents(text: Any) -> Any:
    """The texts of decimals with all their digits, as of Python's in `send`: pyarrow writes 0E-10, and -1E-7."""
    short = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(short, min_count=0).as_py():
        return text
    each = text.filter(short).dictionary_encode()  # most are zeros
    plain = strings([format(Decimal(one), "f") for one in each.dictionary.to_pylist()])
    return pc.replace_with_mask(text, short, plain.take(each.indices))


def _with_non_finite_numbers(column: Any, text: Any) -> Any:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())  # pyarrow compares no others
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return text
    infinite = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_finite(column), text, pc.if_else(pc.is_nan(column), '"NaN"', infinite))


def _is(kind: Any, *names: str) -> bool:
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)
