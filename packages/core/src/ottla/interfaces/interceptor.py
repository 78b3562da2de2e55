"""Interceptors, and what passes them: records, and rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from ottla.interfaces.records import Header
from ottla.results import RecordMetadata, TableResult
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProducerRecord(ValueMethods):
    """A record on its way through the interceptors: the arguments of `send`, before the serializers.

    *partition* None: the partitioner chooses; *timestamp_ms* None: now. *context* is any object that the interceptor
    gets back with the outcome of this record; each interceptor has its own, and sees no other's.
    """

    topic: str
    key: Any
    value: Any
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None
    context: Any = None


@runtime_checkable
class Interceptor(Protocol):
    """Called with every record before it is queued, and with every outcome. This is generation 2 of the contract.

    Its exceptions are logged, and the record is sent without it.

    Optional abilities: `SupportsOnSendTable`, without which a producer refuses tables, `SupportsOnTableAcknowledgement`
    and `SupportsClose`.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to go on with, such as `attrs.evolve(record, value=...)`; its topic cannot be changed.

        Called by many threads at once, before the serializers, with the result of the interceptor before this one. It
        must not change the objects that it gets.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """Note the outcome of a record. Called once for each, in partition order, on the I/O thread, which waits.

        With an *error* the record failed, and *metadata* has only the topic and, if the record had one, the
        partition. For a record that `send` refuses, it is called by the thread that sends. *context* is that of the
        record which this interceptor returned from `on_send`; None if it set none, failed, or was not called.
        """


@attrs.frozen(kw_only=True, eq=False)
class ProducerRows:
    """Rows of a table on their way through the interceptors: the columns of `send_table`, before the serializers.

    Each column is a `pyarrow.Array` of *count* rows, or None if no row has such a part:

    - *keys* and *values*: binary or large_binary, text as UTF-8. With `value_format`, *values* is the column that the
      serializer gets, of any type. It is a struct if the value is made of several columns.
    - *headers*: `list<struct<key: string, value: binary>>`.
    - *partitions*: int64; for a null the partitioner chooses. *timestamps_ms*: int64; a null means the time of sending.

    *added_headers* are headers that each of these rows gets after those of its own column. *context* is what this
    interceptor has set for earlier rows of the same table, None for the first ones. No interceptor sees another's
    context. Rows that cannot be sent, such as one with a negative timestamp, are here as well, and fail later.
    """

    topic: str
    count: int
    keys: Any = attrs.field(repr=False)
    values: Any = attrs.field(repr=False)
    headers: Any = attrs.field(repr=False)
    partitions: Any = attrs.field(repr=False)
    timestamps_ms: Any = attrs.field(repr=False)
    added_headers: Sequence[Header] = ()
    context: Any = None


class SupportsOnSendTable(Protocol):
    """An optional ability of interceptors: the rows of tables. Without it a producer refuses `send_table`.

    `on_send` is not called for rows of tables, and `on_acknowledgement` neither.
    """

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        """Return the rows to go on with, such as `attrs.evolve(rows, added_headers=...)`.

        Called by the thread that sends the table, once for each of its record batches, or for each part of a batch
        that is larger than some megabytes, in order and before any of these rows is queued; for several tables, by
        many threads at once. It must not wait.

        The result has the same topic and *count*. A column may have any type that `send_table` takes for it; with
        `value_format`, *values* keeps its type. Anything else is a fault like an exception: it is logged, and these
        rows are sent without the change.
        """


class SupportsOnTableAcknowledgement(Protocol):
    """An optional ability of interceptors with `on_send_table`: the outcome of a table, in one call for all rows."""

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        """Note the outcome of a table. Called once for each call of `send_table`, when all of its rows have an outcome.

        With a column of topics it is called once for each topic, with the counts of its rows.

        Called on the I/O thread, which waits for it; or on the sending thread, if no row is pending when `send_table`
        ends. Without an *error* all rows were acknowledged. It is TableDeliveryError if rows have failed, or the
        exception that `send_table` raised, or TableReadError if an interrupt ended it; then *result* counts the rows
        that were taken from the table before.
        *context* is the one that this interceptor returned last; None if it set none, or was not called.
        """
