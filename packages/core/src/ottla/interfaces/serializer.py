"""Serializers of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ottla.interfaces.encoder import RecordEncoder
from ottla.interfaces.records import Header


@runtime_checkable
class Serializer(Protocol):
    """Converts the caller's keys or values to bytes. Called by many threads at the same time.

    Optional abilities: `SupportsSetsHeaders`, `SupportsPrepare`, `SupportsSerializeColumn`, `SupportsColumnHeaders`,
    `SupportsUseEncoder`, `SupportsClose`.
    """

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """Return the bytes of a key or value; None stays None. TypeError or ValueError reach the caller of `send`.

        It never waits. A record's value is serialized before its key.
        """


class SupportsSetsHeaders(Protocol):
    """An optional ability of serializers: set headers of the record, such as the id of a schema.

    For rows of tables there is `SupportsColumnHeaders`.
    """

    sets_headers: bool
    """Whether the *headers* that `serialize` gets are a list, which it may change."""


class SupportsPrepare(Protocol):
    """An optional ability of serializers: wait for a lookup that is needed once, such as that of a schema's id.

    `serialize` and `serialize_column` raise `ottla.errors.NotPreparedError` while they need it. They are called again
    with the same arguments after `prepare` has returned, at most five times in a row.
    """

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        """Do the lookup that serializing this key, value or column needs; raise after *timeout* seconds.

        *timeout* is what is left of `max.block.ms`. Called by the thread that sends, or by a helper thread if the
        sending thread must not block; never on the I/O thread, where `send` raises instead. Several threads may wait
        for the same lookup. What it raises reaches the caller of `send` as the cause of a SerializationError.
        """


class SupportsSerializeColumn(Protocol):
    """An optional ability of serializers: the values of an Arrow array at once, for `send_table(value_format=...)`."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        """Return the bytes of each row of *column*, null where it is null: a `pyarrow.Array` of the same length.

        *column* is a `pyarrow.Array`, checked in full, of any type that Arrow has: also dictionaries, views, extension
        types and run ends, at any depth. It is a `pyarrow.StructArray` if the value is made of several columns, and may
        be a slice, with an `offset`. The result is of type binary, large_binary, string or large_string, always the
        same for one type of column.
        Raises TypeError for a column's type that it does not accept, also if the column is empty: it is called with no
        rows first, for the type of its result. Raises `ottla.errors.RowSerializationError` for rows that it cannot
        serialize.
        """


class SupportsColumnHeaders(Protocol):
    """An optional ability of serializers of columns: headers for the rows, such as the id of their schema."""

    def column_headers(self, topic: str, column: Any) -> Sequence[Header]:
        """Return the headers that all rows of this type of column get, in place of others with the same names.

        *column* has no rows. `serialize_column` took it before, so that nothing has to be looked up any more.
        """


class SupportsUseEncoder(Protocol):
    """An optional ability of serializers: use abilities of the record encoder, such as `SupportsJsonRows`."""

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Take the producer's record encoder. Called once, before keys or values are serialized."""
