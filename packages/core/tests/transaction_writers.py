"""The programs of histories whose threads send in transactions that another thread begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import history_tables

from history_plans import Call, Send, Table
from invariants import Sent, Violation
from ottla.errors import (
    AbortableTransactionError,
    BufferExhaustedError,
    FatalTransactionError,
    IllegalStateError,
    ProducerClosedError,
    TopicUnavailableError,
)
from ottla.tables.table_delivery import TableDelivery

if TYPE_CHECKING:
    from histories import Run


class TransactionWriters:
    """What the threads of one history share: a record belongs to the transaction that is open when it is sent.

    It may be refused, if that ends meanwhile, but it must not be in a later one. Another transaction that begins in the
    same moment is no later one: no time has passed, so either of two threads may have been first.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begun: list[tuple[float, list[Sent]]] = []
        self._sent: list[tuple[int, Sequence[Sent]]] = []
        self.over = False
        """Whether no further transaction begins."""

    def wait(self) -> None:
        """Wait for the first transaction."""
        self._run.simulation.wait_for(lambda: self._begun or self.over)

    def begin(self, records: list[Sent]) -> None:
        """Note that a transaction was begun, to whose *records* those of other threads are added."""
        self._begun.append((self._run.simulation.clock(), records))

    def call(self, program: int, call: Call) -> None:
        """Make a call from another thread than the one that ends transactions."""
        number = len(self._begun)
        match call:
            case Send():
                with suppress(IllegalStateError, AbortableTransactionError):
                    self._sent.append((number, [self._run.send(program, call)]))
            case Table() if history_tables.ARROW:
                self._table(program, call, number)

    def _table(self, program: int, call: Table, number: int) -> None:
        run = self._run
        rows = history_tables.new_rows(run, program, run.numbers(program), call)
        delivery: TableDelivery | None = None
        try:
            delivery = run.producer.send_table(
                call.topic,
                history_tables.batches(run, rows, call),
                key="key" if call.keys else None,
                timestamp="timestamp",
                timeout=call.timeout,
            )
        except (IllegalStateError, AbortableTransactionError, BufferExhaustedError, TopicUnavailableError) as error:
            run.note(f"{history_tables.title(rows)} is refused: {error}")
            delivery = error.delivery if isinstance(error.delivery, TableDelivery) else None
        except (KeyboardInterrupt, ProducerClosedError, FatalTransactionError) as error:
            delivery = getattr(error, "delivery", None)
            raise
        finally:
            history_tables.expect(run, rows, delivery)
            self._sent.append((number, rows))

    def join(self) -> None:
        """Make records a part of their transactions.

        At the end, as a transaction may be noted later than it begins: then other threads have sent in it before.
        """
        for number, records in self._sent:
            self._join(number, records)

    def _join(self, number: int, records: Sequence[Sent]) -> None:
        """Make records a part of the transaction of this number, so many were begun before they were sent."""
        queued = [record for record in records if record in self._run.sent and record.delivery is not None]
        later = self._begun[number:]
        if not queued or (later and later[0][0] <= queued[0].sent_at):
            return
        if not number:
            raise Violation(f"{queued[0]} was queued, and no transaction had begun")
        self._begun[number - 1][1].extend(queued)
