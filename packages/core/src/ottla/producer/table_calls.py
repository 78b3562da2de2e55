"""The calls that queue tables and sealed batches, for threads and tasks.

Their parts need pyarrow, and are imported by the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack

import attrs

from ottla.concurrency.cancellation import Cancellation
from ottla.errors import PluginNotFoundError
from ottla.producer.components import Engine
from ottla.results import TableProgress

if TYPE_CHECKING:
    from ottla.recordbatch.sealed_records import SealedBatch
    from ottla.tables.sending import FindRoute
    from ottla.tables.table_delivery import TableDelivery


class TableOptions(TypedDict):
    """Options of `TableCalls.send`. `transaction` is the number of the one that was open as the call began."""

    topic_column: NotRequired[str | None]
    value_format: str | None
    key_format: NotRequired[str | None]
    on_progress: NotRequired[Callable[[TableProgress], object] | None]
    timeout: float | None
    transaction: int
    delivery: NotRequired[TableDelivery]
    cancellation: NotRequired[Cancellation]
    invalid_rows_count: NotRequired[bool]


@attrs.frozen(eq=False, repr=False)
class TableCalls:
    """The calls of one producer."""

    engine: Engine
    find_route: FindRoute

    @property
    def transaction(self) -> int:
        """The number of the transaction that a call that begins now belongs to."""
        return self.engine.queueing.accumulator.permission.transaction

    def send(
        self, topic: str | None, table: Any, columns: Mapping[str, Any], **options: Unpack[TableOptions]
    ) -> TableDelivery:
        """`Producer.send_table`, which another thread may cancel; *columns* are the names that the caller gave."""
        if self.engine.interceptors is not None:
            self.engine.interceptors.check_tables()
        with _importing_tables("send_table"):
            from ottla.producer.tables import send_table
        return send_table(self.engine, self.find_route, topic, table, columns, **options)

    def send_tolerantly(self, topic: str, table: Any, columns: Mapping[str, Any]) -> TableDelivery:
        """`send`, but rows that cannot be records do not fail the transaction: the caller refuses them."""
        return self.send(
            topic,
            table,
            columns,
            value_format=None,
            timeout=None,
            transaction=self.transaction,
            invalid_rows_count=False,
        )

    def send_sealed(self, batch: SealedBatch) -> TableDelivery:
        """`Producer.send_sealed`."""
        if self.engine.interceptors is not None:
            self.engine.interceptors.refuse_sealed()
        transaction = self.transaction  # before the import, which may take a second
        with _importing_tables("send_sealed"):
            from ottla.producer.tables import send_sealed
        return send_sealed(self.engine, self.find_route, batch, transaction=transaction)


@contextmanager
def _importing_tables(method: str) -> Iterator[None]:
    """Import what needs pyarrow in this block. Raises if pyarrow is missing."""
    try:
        yield
    except ImportError as cause:
        if (cause.name or "").partition(".")[0] != "pyarrow":
            raise
        raise PluginNotFoundError(f"{method} needs pyarrow; try: pip install 'ottla[arrow]'") from cause
