"""The programs of histories whose threads send in transactions that another thread begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_plans import Send
from invariants import Sent, Violation
from ottla.errors import AbortableTransactionError, IllegalStateError

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
        self.over = False
        """Whether no further transaction begins."""

    def wait(self) -> None:
        """Wait for the first transaction."""
        self._run.simulation.wait_for(lambda: self._begun or self.over)

    def begin(self, records: list[Sent]) -> None:
        """Note that a transaction was begun, to whose *records* those of other threads are added."""
        self._begun.append((self._run.simulation.clock(), records))

    def send(self, program: int, call: Send) -> None:
        """Send a record from another thread."""
        number = len(self._begun)
        try:
            record = self._run.send(program, call)
        except (IllegalStateError, AbortableTransactionError):
            return
        if record not in self._run.sent:
            return  # it was refused
        later = self._begun[number:]
        if later and later[0][0] <= record.sent_at:
            return
        if not number:
            raise Violation(f"{record} was queued, and no transaction had begun")
        self._begun[number - 1][1].append(record)
