"""Driver decisions: the transaction of each batch, and the next step after each broker response or time-out.

It commits each batch once, whatever fails. It uses neither Spark nor sockets: brokers and the batch's rows are behind
two small interfaces, so that tests can make every step fail.

Two rules make this safe. Before the driver writes a batch, it initializes the transactional id, which gives it a new
epoch, and then reads the marker. The new epoch aborts an open transaction and fences the previous owner, so the marker
cannot change any more. And the broker that the driver asked may have been paused until another one took its place, and
have an earlier marker. So the marker is read once more, from the broker that has taken the next one, before the commit.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Protocol

import attrs

from ottla.errors import OttlaError, ProducerFencedError, TransactionError, TransactionTimeoutError
from ottla.transactions import Ended, SharedTransaction
from ottla_spark.atomic.errors import BatchFailedError, BatchRefusedError
from ottla_spark.atomic.marker import BatchAction, Marker, batch_action, check_rows, with_other_topics

logger = logging.getLogger(__name__)

TXN_V2 = 2
"""From this level of transaction.version on, every partition refuses a late record of an ended transaction."""


class Owner(Protocol):
    """The requests that the driver sends to brokers: the query's transactions and its marker.

    Every method may raise ProducerFencedError and TransactionTimeoutError.
    """

    @property
    def where(self) -> str:
        """The place of the marker, for error messages."""

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        """Begin a transaction with a new epoch. If *after* is None, fence the id's previous owner first."""

    def marker(self) -> Marker | None:
        """Return the last committed marker."""

    def markers_for_other_topics(self) -> Mapping[str, Marker]:
        """Return the markers that the group has for other topics than that of the marker, for an error message."""

    def mark(self, shared: SharedTransaction, marker: Marker, *, read: bool = False) -> Marker | None:
        """Add a marker to the transaction. With *read*, return the committed one, as the same coordinator has it."""

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort the transaction."""


class Rows(Protocol):
    """The rows of one batch."""

    def write(self, shared: SharedTransaction) -> int:
        """Write all rows into the transaction and return their number. Raises the error of any step."""

    def drain(self) -> int:
        """Compute all rows, so that a stateful query keeps its state, and write none; return their number."""

    def is_retriable(self, error: Exception) -> bool:
        """Return whether another attempt to write may succeed."""


@attrs.frozen(kw_only=True)
class BatchWritten:
    """The result of a batch. `records` is None when the batch was in Kafka before.

    `attempts` counts the attempts to write it: it is 1 also if the commit's response was lost, and the marker found.
    """

    batch: int
    records: int | None
    attempts: int


class BatchDriver:
    """Write the batches of one query, one after the other, from one driver."""

    def __init__(
        self,
        owner: Owner,
        *,
        query: str,
        attempts: int,
        begins_with: int | None = None,
        skips: int | None = None,
    ) -> None:
        self._owner = owner
        self.query = query
        self._attempts = attempts
        self._begins_with = begins_with
        self._skips = skips
        self._open: SharedTransaction | None = None  # not passed to any task yet
        self._before: SharedTransaction | None = None  # the last one, if its EndTxn did not return the next epoch
        self._last: Marker | None = None  # as read when the epoch was assigned
        self._certain = False  # the last marker is our own, or a broker that took one of ours has it, too
        self._fenced: ProducerFencedError | None = None

    def write(self, batch: int, rows: Rows) -> BatchWritten:
        """Write a batch to Kafka once.

        Raises BatchRefusedError, BatchFailedError, ProducerFencedError, or an error that a retry cannot fix.
        """
        if self._fenced is not None:
            raise ProducerFencedError(*self._fenced.args)
        try:
            return self._write(batch, rows)
        except ProducerFencedError as fenced:
            self._forget()
            self._fenced = fenced
            raise
        except BatchRefusedError:
            raise  # a transaction that is open has no partition, so no reader waits, and the next call may use it
        except BaseException:
            self._abandon()
            raise

    def _write(self, batch: int, rows: Rows) -> BatchWritten:
        asked = Marker(query=self.query, batch=batch)  # without its rows, which are not known yet
        in_doubt: int | None = None  # the records of the last attempt, if only its commit failed
        tried = 0
        failures: list[Exception] = []
        while len(failures) < self._attempts:
            shared = self._ready()
            if self._action(asked) is BatchAction.SKIP:
                if in_doubt is None:
                    self._compare(rows.drain(), batch=batch)
                return BatchWritten(batch=batch, records=in_doubt, attempts=tried)
            tried += 1
            try:
                in_doubt = None
                in_doubt = rows.write(shared)
            except Exception as error:
                self._abort(shared, error)
                if not rows.is_retriable(error):
                    raise
                logger.warning("batch %d: attempt %d failed, its transaction is aborted: %s", batch, tried, error)
                failures.append(error)
                continue
            problem = self._commit(shared, attrs.evolve(asked, rows=in_doubt))
            if problem is None:
                return BatchWritten(batch=batch, records=in_doubt, attempts=tried)
            logger.warning("batch %d: the commit failed: %s", batch, problem)
            failures.append(problem)
            if isinstance(problem, _OutdatedMarkerError):
                in_doubt = None
        if in_doubt is not None and self._is_in_kafka(asked):
            return BatchWritten(batch=batch, records=in_doubt, attempts=tried)
        raise BatchFailedError(
            f"all {self._attempts} attempts to write batch {batch} failed, and none of its records is visible: "
            f"{failures[-1]}"
        ) from failures[-1]

    def _action(self, asked: Marker) -> BatchAction:
        try:
            return batch_action(self._last, asked, begins_with=self._begins_with, where=self._owner.where)
        except BatchRefusedError as refused:
            if self._last is not None:
                raise
            raise with_other_topics(refused, self._owner.markers_for_other_topics(), asked) from None

    def _compare(self, rows: int, *, batch: int) -> None:
        assert self._last is not None, "a batch is skipped if the marker names it"
        if batch != self._skips:
            check_rows(self._last, rows, where=self._owner.where)

    def _ready(self) -> SharedTransaction:
        """Return this driver's open transaction, after the marker was read."""
        if self._open is not None:
            return self._open
        if self._before is not None:
            self._open, self._before = self._owner.open(self._before), None
        else:
            shared = self._owner.open(None)
            # If this raises, `_open` stays None, and the next call takes the transactional id over again.
            self._last, self._certain = self._owner.marker(), False
            self._open = shared
        return self._open

    def _commit(self, shared: SharedTransaction, marker: Marker) -> Exception | None:
        """Commit. Returns None on success, else the error; after an error the marker must be read again."""
        try:
            committed = self._owner.mark(shared, marker, read=not self._certain)
            if not self._certain and committed != self._last:
                return self._abort_outdated(shared, committed)
            ended = self._owner.end(shared, commit=True)
        except TransactionTimeoutError as unclear:
            self._open = None
            return unclear
        self._open = None
        if not ended.outcome.committed:
            return BatchFailedError(
                f"its transaction was {ended.outcome.value} before the commit: it lasted longer than "
                "transaction.timeout.ms, or another client aborted it"
            )
        self._last, self._certain = marker, True
        self._open = ended.following
        self._before = shared if ended.following is None else None
        return None

    def _abort_outdated(self, shared: SharedTransaction, committed: Marker | None) -> Exception:
        """Abort a transaction that was begun after another marker than the *committed* one; return why."""
        problem = _OutdatedMarkerError(
            f"{self._owner.where} had {_batch_of(self._last)}, and has {_batch_of(committed)}: the broker that was "
            "asked first was no longer its coordinator"
        )
        self._abort(shared, problem)
        self._last, self._certain = committed, True
        return problem

    def _abort(self, shared: SharedTransaction, cause: Exception) -> None:
        """Abort the transaction, which also fences tasks that still write."""
        self._open = None
        try:
            if shared.level < TXN_V2:
                self._ready()  # not by EndTxn, which keeps the epoch: a late record could reopen the transaction
            else:
                self._open = self._owner.end(shared, commit=False).following
        except ProducerFencedError as fenced:
            raise fenced from cause
        except TransactionError as error:  # the next attempt takes the transactional id over, and aborts it, too
            cause.add_note(f"while aborting the batch: {error}")

    def _is_in_kafka(self, asked: Marker) -> bool:
        self._ready()
        return self._last == asked

    def _abandon(self) -> None:
        """Abort the open transaction, so that it does not block readers."""
        shared = self._open
        self._forget()
        if shared is None:
            return
        with contextlib.suppress(OttlaError):  # its time-out or the next driver aborts it
            if shared.level < TXN_V2:
                self._owner.open(None)
            else:
                self._owner.end(shared, commit=False)

    def _forget(self) -> None:
        self._open = self._before = None


class _OutdatedMarkerError(BatchFailedError):
    """The marker by which a batch was written was not the last one."""


def _batch_of(marker: Marker | None) -> str:
    return "no marker" if marker is None else f"the marker of batch {marker.batch}"
