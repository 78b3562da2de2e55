"""Headers that all rows of a table have: given to `send_table` in place of a column's name, or by a serializer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from ottla.errors import InvalidRecordError
from ottla.interfaces import Header
from ottla.plugins.record_headers import checked_headers
from ottla.protocol.binary_arrays import number
from ottla.tables.columns import ColumnChoice
from ottla.tables.headers import encoded, header_rows, joined_sections
from ottla.tables.private_copy import checked_copy


def take_constant_headers(columns: Mapping[str, Any]) -> tuple[Mapping[str, Any], Sequence[Header]]:
    """Split *columns* into those that name columns, and the headers of all rows. Raises InvalidRecordError."""
    given = columns["headers"]
    if given is None or isinstance(given, str):
        return columns, ()
    if not isinstance(given, Iterable):
        raise InvalidRecordError(
            f"headers={given!r}: name a column, or give the headers of all rows, as a mapping or as pairs of name and "
            "value"
        )
    headers = checked_headers(given)
    try:
        encoded(headers)
    except UnicodeEncodeError as cause:
        raise InvalidRecordError(f"headers={given!r}: a name is no valid text: {cause}") from cause
    return {**columns, "headers": None}, headers


def in_place_of(given: Sequence[Header], headers: Sequence[Header]) -> Sequence[Header]:
    """These headers, after those that are *given* and have none of their names."""
    names = {name for name, _value in headers}
    return (*(header for header in given if header[0] not in names), *headers)


def rows_at_once(headers: Sequence[Header], max_bytes: int) -> int:
    """The number of rows whose copies of these headers take about *max_bytes* bytes, at least one row."""
    return max(1, max_bytes // (len(encoded(headers)) + 1))


def header_column(headers: Sequence[Header], rows: int) -> Any:
    """The same headers for each of *rows* records, in the type of a column of headers."""
    return header_rows([headers]).take(pa.repeat(number(0, pa.int32()), rows))


@attrs.frozen(kw_only=True)
class WithHeaders:
    """A stream with one more column, the last one: the encoded headers of each row.

    Each row gets all `headers`. If `column` is given, it is the index of the stream's own column of headers: those of
    its headers whose names are not in `headers` come first. A batch is cut so that the copies of `headers` in a piece
    take about `max_bytes` bytes.
    """

    stream: Any
    headers: Sequence[Header]
    max_bytes: int
    column: int | None = None

    def choice(self, choice: ColumnChoice) -> ColumnChoice:
        """The columns of the stream that *choice* has, with the added one."""
        return attrs.evolve(choice, headers=len(self.stream.schema))

    def __iter__(self) -> Iterator[Any]:
        """The record batches."""
        schema = self.stream.schema.append(pa.field("headers", pa.binary()))
        step = rows_at_once(self.headers, self.max_bytes)
        for batch in self.stream:
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                section = self._sections(part)
                yield pa.RecordBatch.from_arrays([*part.columns, section], schema=schema)

    def _sections(self, batch: Any) -> Any:
        names = [name for name, _value in self.headers]
        return joined_sections(self._own(batch), self.headers, count=batch.num_rows, replaced=names)

    def _own(self, batch: Any) -> Any | None:
        if self.column is None or pa.types.is_null(batch.column(self.column).type):
            return None
        return checked_copy(batch.column(self.column), name=batch.schema.names[self.column])
