"""The rule that decides whether new records may be queued. It never waits: a record is refused or it is not."""

from __future__ import annotations

from typing import Protocol

from ottla.errors import OttlaError
from ottla.errors.notes import unshared


class OpenTransaction(Protocol):
    """The transaction that records are queued in; a producer's `TransactionManager` is one."""

    @property
    def begun(self) -> int:
        """How many transactions were begun: equal numbers are the same transaction."""

    def check_open(self, begun: int | None = None) -> None:
        """Raise if no transaction is open, or another one than that of the number *begun*."""

    def has_ended(self, begun: int) -> bool:
        """Return whether the end of the transaction of the number *begun* has begun, or it is over."""


class CheckSendable(Protocol):
    """A function that raises if a producer takes no records, or none in this *transaction*; see `AppendPermission`."""

    def __call__(self, transaction: int | None = None) -> object: ...


class AppendPermission:
    """Refuses records once the producer is closed, or outside of a transaction, if it has *transactions*.

    A call that may wait reads `transaction` first, and passes the number to `check` after the wait: another transaction
    may be open by then, to which its records do not belong.
    """

    def __init__(self, transactions: OpenTransaction | None) -> None:
        self._transactions = transactions
        self.refusal: OttlaError | None = None
        """The error to raise for new records, or None while the producer is not closed."""

    @property
    def transaction(self) -> int:
        """The number of the last transaction that was begun; 0 without transactions."""
        return 0 if self._transactions is None else self._transactions.begun

    def check(self, transaction: int | None = None) -> None:
        """Raise if no record may be queued, or none in this *transaction*."""
        if self.refusal is not None:
            raise unshared(self.refusal)
        if self._transactions is not None:
            self._transactions.check_open(transaction)

    def has_ended(self, transaction: int) -> bool:
        """Return whether this transaction ends, or is over: records that are refused now are in none."""
        return self._transactions is not None and self._transactions.has_ended(transaction)
