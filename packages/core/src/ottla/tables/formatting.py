"""Values or keys serialized from a table's columns while it is read, by a serializer that takes whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla.config.wait_limit import WaitLimit
from ottla.errors import (
    InvalidPluginError,
    InvalidRecordError,
    NotPreparedError,
    RowSerializationError,
    SerializationError,
    counted,
)
from ottla.errors.plugin_origin import faults, origin_of
from ottla.interfaces import Header, SupportsPrepare, SupportsSerializeColumn, supports
from ottla.plugins.column_headers import column_headers
from ottla.plugins.serializer_failures import serialization_failure
from ottla.plugins.serializer_lookups import Lookup, LookupWait
from ottla.tables.columns import OTHERS, added_field, given_names, is_bytes
from ottla.tables.no_rows import no_rows
from ottla.tables.private_copy import checked_copy
from ottla.tables.slicing import cut
from ottla.tables.table_waits import TableWaits

MADE: Final = "{} as {}"
"""The name of the column that is added: part of the record, and format."""

_ALL_OTHERS: Final = f", or set value={OTHERS!r} for all other columns"


@attrs.frozen(kw_only=True)
class Formatted:
    """A stream with one more column, `name`, made of `source`, a column, or of several as the fields of a struct.

    `part` is "value" or "key". The stream is read in pieces of about `max_bytes` bytes, because the values may be
    several times as large as the columns.
    """

    stream: Any
    topic: str
    part: str
    format: str
    serializer: SupportsSerializeColumn
    source: str | Sequence[str]
    max_bytes: int
    max_block: float
    waits: TableWaits

    @property
    def name(self) -> str:
        """The name of the added column."""
        return MADE.format(self.part, self.format)

    @cached_property
    def schema(self) -> Any:
        """The stream's columns, and the added one. Raises InvalidRecordError for columns that cannot be used."""
        return self.stream.schema.append(added_field(self.name, self._made_of_no_rows.type))

    @cached_property
    def headers(self) -> Sequence[Header]:
        """The headers that the serializer sets for each row. Raises as `schema` does, and InvalidPluginError."""
        _made = self._made_of_no_rows  # `column_headers` may rely on the lookups of `serialize_column`
        try:
            return column_headers(self.serializer, self.topic, self._no_rows)
        except InvalidPluginError as cause:
            raise InvalidPluginError(f"{self._option}: {cause}") from cause
        except faults() as cause:
            raise self._failed(cause) from cause

    @cached_property
    def _no_rows(self) -> Any:
        try:
            return self.column(self._empty())
        except pa.ArrowException as cause:  # such as run ends in a list
            raise InvalidRecordError(
                f"{self._option}: column {self.source!r} has a type that pyarrow cannot read: {cause}; cast it first"
            ) from cause

    @cached_property
    def _made_of_no_rows(self) -> Any:
        return self._made_of(self._no_rows)

    @property
    def _option(self) -> str:
        return f"{self.part}_format={self.format!r}"

    def __iter__(self) -> Iterator[Any]:
        """The record batches. Raises SerializationError."""
        schema, before = self.schema, 0
        for batch in self.stream:
            for part, _size in cut(batch, self.max_bytes):
                made = self.serialized(self.column(part), before=before)
                yield pa.RecordBatch.from_arrays([*part.columns, made], schema=schema)
                before += part.num_rows

    def column(self, batch: Any) -> Any:
        """The column that the serializer gets for a record batch of the stream: a checked private copy."""
        if isinstance(self.source, str):
            return checked_copy(batch.column(self.source), name=self.source)
        fields = [batch.schema.field(name) for name in self.source]
        return pa.StructArray.from_arrays(
            [checked_copy(batch.column(name), name=name) for name in self.source], fields=fields
        )

    def serialized(self, column: Any, *, before: int = 0) -> Any:
        """The values of these rows, in the type of the added column. Raises SerializationError.

        *before* is the number of rows before them, for the number of a row in an error.
        """
        made, kind = self._made_of(column, before), self.schema.field(self.name).type
        try:
            return made.cast(kind)
        except pa.ArrowException as cause:
            raise self._wrong(
                f"{counted(len(made), 'row')} of {made.type}", f"{kind}, the type that it returned for an empty array"
            ) from cause

    def _empty(self) -> Any:
        schema = self.stream.schema
        names = [self.source] if isinstance(self.source, str) else list(self.source)
        for name in names:
            found = schema.get_all_field_indices(name) if isinstance(name, str) else []
            if len(found) != 1 or names.count(name) > 1:
                problem = (
                    f"column {name!r} occurs more than once"
                    if found
                    else f"the table has no column {name!r}; it has {given_names(schema)}; "
                    f"name those that the {self.part} is made of{_ALL_OTHERS if self.part == 'value' else ''}"
                )
                raise InvalidRecordError(f"{self.part}={self.source!r}: {problem}")
        if not names:
            raise InvalidRecordError(f"{self.part}=[]: a {self.part} needs at least one column; name it")
        return no_rows(pa.schema([schema.field(name) for name in names]))

    def _made_of(self, column: Any, before: int = 0) -> Any:
        made = self._attempt(column, before)
        if not isinstance(made, pa.Array) or len(made) != len(column) or not is_bytes(made.type):
            shown = f"{counted(len(made), 'row')} of {made.type}" if isinstance(made, pa.Array) else type(made).__name__
            raise self._wrong(shown, f"an Arrow array of {len(column)} bytes or texts")
        return made

    def _wrong(self, returned: str, expected: str) -> InvalidPluginError:
        return InvalidPluginError(
            f"{self._option}: serialize_column of the "
            f"{origin_of('serializer', self.serializer).name} returned {returned}, and not {expected}; report it to "
            f"the plugin's authors, or set {self.part}_format to another one"
        )

    def _attempt(self, column: Any, before: int) -> Any:
        """Serialize a column, after lookups. Raises SerializationError if the serializer or a lookup fails."""
        lookups: LookupWait | None = None
        while True:
            try:
                return self.serializer.serialize_column(self.topic, column)
            except NotPreparedError as cause:
                if not supports(self.serializer, SupportsPrepare):
                    raise self._failed(cause) from cause
            except RowSerializationError as cause:
                rows = {before + row: reason for row, reason in cause.rows.items()}
                raise self._failed(RowSerializationError(rows)) from cause
            except faults() as cause:
                raise self._failed(cause) from cause
            if lookups is None:
                limit = WaitLimit.of(self.waits.timeout, max_block=self.max_block)
                lookups = LookupWait(limit, clock=self.waits.clock, waited=self.waits.seconds)
            lookup = self._lookup(self.serializer, column)
            self.waits.of(partial(lookups.wait, lookup))

    def _failed(self, cause: BaseException) -> SerializationError:
        return SerializationError(
            f"{self._option}: column {self.source!r} for topic {self.topic!r} could not be "
            f"serialized: {serialization_failure(self.serializer, cause, option=f'{self.part}_format')}"
        )

    def _lookup(self, serializer: SupportsPrepare, column: Any) -> Lookup:
        what = f"{self._option}: column {self.source!r} for topic {self.topic!r}"
        return Lookup(serializer=serializer, what=what, topic=self.topic, data=column, headers=())
