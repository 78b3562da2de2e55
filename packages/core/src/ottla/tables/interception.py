"""The rows of a table as interceptors get them, the check of what they return, and the stream of the result.

Which interceptors there are, and how an error of one is handled, is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import counted
from ottla.interfaces import Header, ProducerRows
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.tables.columns import BYTES, HEADERS, INTEGERS, TIMES, ColumnChoice, ColumnTypes
from ottla.tables.constant_headers import header_column, in_place_of, rows_at_once
from ottla.tables.conversion import checked, to_bytes, to_int64, to_milliseconds
from ottla.tables.formatting import Formatted
from ottla.tables.headers import header_lists, joined_sections, nameless
from ottla.tables.private_copy import checked_copy, private_copy
from ottla.tables.slicing import cut

INTERCEPTED: Final = ColumnChoice(value=0, key=1, headers=2, partition=3, timestamp=4)
"""The columns of an `Intercepted` stream. One that no row has is of Arrow's type null."""

_NAMES: Final = ("value", "key", "headers", "partition", "timestamp")
_HEADERS: Final = _NAMES.index("headers")


@attrs.frozen(kw_only=True)
class Intercepted:
    """The rows of a stream as `intercept` returns them, in pieces of about `max_bytes` bytes.

    `choice` names the columns of the stream, or those of `formatted`, whose serializer runs after the interceptors. All
    rows have the `headers`, if there are any, and afterwards `set_headers` in place of others with their names.
    """

    stream: Any
    topic: str
    choice: ColumnChoice
    formatted: Formatted | None
    headers: Sequence[Header] = ()
    set_headers: Sequence[Header] = ()
    intercept: Callable[[ProducerRows], ProducerRows]
    max_bytes: int

    def __iter__(self) -> Iterator[Any]:
        """The record batches. Raises SerializationError."""
        step = rows_at_once(self.headers, self.max_bytes)
        for batch in self.stream:
            start = 0
            for measured, _size in cut(self._measured(batch), self.max_bytes):
                part = batch.slice(start, measured.num_rows)
                start += measured.num_rows
                for first in range(0, part.num_rows, step):
                    yield from self._batches(self.intercept(self._rows(part.slice(first, step))))

    def _measured(self, batch: Any) -> Any:
        """The columns whose size decides where a batch is cut."""
        if self.formatted is not None:
            return batch
        return batch.select([place for place in attrs.astuple(self.choice, recurse=False) if place is not None])

    def _rows(self, batch: Any) -> ProducerRows:
        def column(place: int | None) -> Any | None:
            if place is None or pa.types.is_null(batch.column(place).type):
                return None
            return private_copy(batch.column(place))

        choice = self.choice
        headers = (
            header_column(self.headers, batch.num_rows) if self.headers else checked(column(choice.headers), "headers")
        )
        partitions = checked(column(choice.partition), "partitions")
        times = checked(column(choice.timestamp), "timestamps")
        return ProducerRows(
            topic=self.topic,
            count=batch.num_rows,
            keys=to_bytes(column(choice.key)),
            values=to_bytes(column(choice.value)) if self.formatted is None else self.formatted.column(batch),
            headers=None if headers is None else header_lists(headers),
            partitions=None if partitions is None else to_int64(partitions),
            timestamps_ms=None if times is None else _times(times),
        )

    def _batches(self, rows: ProducerRows) -> Iterator[Any]:
        """The rows as record batches: several, if the headers that were added are large."""
        values = rows.values
        if self.formatted is not None and values is not None:
            values = self.formatted.serialized(values)
        columns = (values, rows.keys, rows.headers, rows.partitions, rows.timestamps_ms)
        added = in_place_of(rows.added_headers, self.set_headers)
        replaced = [name for name, _value in self.set_headers]
        step = rows_at_once(added, self.max_bytes)
        for start in range(0, rows.count, step):
            count = min(step, rows.count - start)
            part: list[Any] = [None if column is None else column.slice(start, count) for column in columns]
            if added or part[_HEADERS] is not None:
                part[_HEADERS] = joined_sections(part[_HEADERS], added, count=count, replaced=replaced)
            yield pa.RecordBatch.from_arrays([pa.nulls(count) if each is None else each for each in part], _NAMES)


def checked_rows(made: ProducerRows, given: ProducerRows, *, formatted: bool) -> ProducerRows:
    """Check the rows that an interceptor returned, and convert them to encoders' types. Raises TypeError or ValueError.

    *formatted*: values are serialized later, and keep their type. Neither `added_headers` nor `context` is checked.
    """
    if made.topic != given.topic:
        raise ValueError("on_send_table returned another topic, which cannot be changed")
    if made.count != given.count:
        raise ValueError(f"on_send_table returned a count of {made.count!r} for {counted(given.count, 'row')}")
    parts = _PARTS
    if formatted:
        kept = ColumnTypes(given.values.type.equals, f"{given.values.type}, which the serializer has accepted")
        parts = {**_PARTS, "values": _Part(kept, lambda column, _before: column)}
    columns: Any = {name: _checked_column(name, part, made, given) for name, part in parts.items()}
    return attrs.evolve(made, **columns)


@attrs.frozen
class _Part:
    """The types that a part of the rows may be returned in, and its conversion, given the column before.

    `wrong` finds rows that no interceptor may make; `fault` names them.
    """

    types: ColumnTypes
    convert: Callable[[Any, Any | None], Any]
    wrong: Callable[[Any], Any | None] = lambda _column: None
    fault: str = ""


def _checked_column(name: str, part: _Part, made: ProducerRows, given: ProducerRows) -> Any | None:
    found, before = getattr(made, name), getattr(given, name)
    if found is before or found is None:
        return found
    if not isinstance(found, pa.Array):
        raise TypeError(f"on_send_table returned {name} as {type(found).__name__}, not as a pyarrow.Array")
    if len(found) != given.count:
        raise ValueError(
            f"on_send_table returned {name} of {counted(len(found), 'row')} for {counted(given.count, 'row')}"
        )
    if not part.types.fit(found.type):
        raise TypeError(f"on_send_table returned {name} of type {found.type}; it must be {part.types.names}")
    if pa.types.is_null(found.type):
        return None
    column = part.convert(checked_copy(found, name=name), before)
    wrong = part.wrong(column)
    if wrong is not None and before is not None and (known := part.wrong(before)) is not None:
        wrong = pc.and_not(wrong, known)  # those that the caller of `send_table` gave
    if wrong is not None and pc.any(wrong).as_py():
        raise ValueError(f"on_send_table returned {name} with {part.fault}")
    return column


def _bytes_like(column: Any, before: Any | None) -> Any:
    """Convert to one type for all rows of the table, because small batches are joined."""
    made: Any = to_bytes(column)
    return made.cast(pa.binary() if before is None else before.type)


def _times(column: Any) -> Any:
    """Convert times to milliseconds, invalid ones to -1."""
    times, bad = to_milliseconds(column)
    return times if bad is None else pc.if_else(bad, -1, times)


def _negative(column: Any) -> Any | None:
    """Mark the negative numbers. Return None if there are none."""
    lowest = pc.min(column).as_py()
    return None if lowest is None or lowest >= 0 else pc.fill_null(pc.less(column, 0), False)


_PARTS: Final = {
    "keys": _Part(BYTES, _bytes_like),
    "values": _Part(BYTES, _bytes_like),
    "headers": _Part(HEADERS, lambda column, _before: header_lists(column), nameless, "a header that has no name"),
    "partitions": _Part(INTEGERS, lambda column, _before: to_int64(column), _negative, "a negative number"),
    "timestamps_ms": _Part(
        TIMES, lambda column, _before: _times(column), _negative, f"a time that is not from 0 to {TIMESTAMP_MAX} ms"
    ),
}
