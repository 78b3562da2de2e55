"""The driver's part: which batch is written in which transaction, and what follows each answer, or none.

Sees to it that a batch is committed once, whatever is lost. Knows neither Spark nor sockets: brokers and the batch's
rows are behind two small interfaces, so that every step can be made to fail.

The rule that everything follows from: before a batch is written, the driver holds an epoch that nobody else has, and
has read the marker since it got it. So what was open before is aborted, who had the id before can write nothing more,
and the marker tells all.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Protocol

import attrs

from ottla.errors import OttlaError, ProducerFencedError, TransactionTimeoutError
from ottla.transactions import Ended, SharedTransaction
from ottla_spark.atomic.errors import BatchFailedError, BatchRefusedError
from ottla_spark.atomic.marker import Due, Marker, due

logger = logging.getLogger(__name__)

NEW_GENERATION = 2
"""From this level of transaction.version on, a late record of an ended transaction is refused by every partition."""


class Owner(Protocol):
    """The brokers, as the owner of the transactions sees them. All may raise ProducerFencedError and
    TransactionTimeoutError."""

    @property
    def where(self) -> str:
        """How people call the place of the marker."""

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        """A transaction with a new epoch; without *after* the id is taken over."""

    def marker(self) -> Marker | None:
        """The last one that was committed."""

    def mark(self, shared: SharedTransaction, marker: Marker) -> None:
        """Make a marker part of the transaction."""

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort it."""


class Rows(Protocol):
    """The rows of one batch."""

    def write(self, shared: SharedTransaction) -> int:
        """Have all of them written into the transaction, and count them. Raises whatever went wrong."""

    def drain(self) -> None:
        """Have them computed, for what the query keeps besides, and written nowhere."""

    def is_retriable(self, error: Exception) -> bool:
        """Whether writing may come through when it is tried again."""


@attrs.frozen(kw_only=True)
class BatchWritten:
    """What became of a batch. `records` is None when it was in Kafka before."""

    batch: int
    records: int | None
    attempts: int


class BatchDriver:
    """The batches of one query, one after the other, by one driver."""

    def __init__(self, owner: Owner, *, query: str, attempts: int, begins_with: int | None = None) -> None:
        self._owner = owner
        self.query = query
        self._attempts = attempts
        self._begins_with = begins_with
        self._open: SharedTransaction | None = None  # nobody was told of it yet
        self._before: SharedTransaction | None = None  # ended, and the id still ours
        self._last: Marker | None = None  # as it was when the epoch was got
        self._fenced: ProducerFencedError | None = None

    def write(self, batch: int, rows: Rows) -> BatchWritten:
        """Have a batch in Kafka, once. Raises BatchRefusedError, BatchFailedError, ProducerFencedError, or what cannot
        be mended."""
        if self._fenced is not None:
            raise ProducerFencedError(*self._fenced.args)
        try:
            return self._write(batch, rows)
        except ProducerFencedError as fenced:
            self._forget()
            self._fenced = fenced
            raise
        except BatchRefusedError:
            raise
        except BaseException:
            self._abandon()
            raise

    def _write(self, batch: int, rows: Rows) -> BatchWritten:
        asked = Marker(query=self.query, batch=batch)
        written: int | None = None
        failures: list[Exception] = []
        while len(failures) < self._attempts:
            shared = self._ready()
            if due(self._last, asked, begins_with=self._begins_with, where=self._owner.where) is Due.SKIP:
                if written is None:
                    rows.drain()
                return BatchWritten(batch=batch, records=written, attempts=len(failures) + (written is not None))
            try:
                written = None
                written = rows.write(shared)
            except Exception as error:
                self._give_up(shared, error)
                if not rows.is_retriable(error):
                    raise
                logger.warning(
                    "batch %d: attempt %d failed, its transaction is aborted: %s", batch, len(failures) + 1, error
                )
                failures.append(error)
                continue
            problem = self._commit(shared, asked)
            if problem is None:
                return BatchWritten(batch=batch, records=written, attempts=len(failures) + 1)
            logger.warning("batch %d: the commit failed: %s", batch, problem)
            failures.append(problem)
        if written is not None and self._is_in_kafka(asked):
            return BatchWritten(batch=batch, records=written, attempts=len(failures))
        raise BatchFailedError(
            f"batch {batch} was tried {self._attempts} times, and nothing of it is visible: {failures[-1]}"
        ) from failures[-1]

    def _ready(self) -> SharedTransaction:
        """An open transaction of ours, with the marker known."""
        if self._open is not None:
            return self._open
        if self._before is not None:
            self._open, self._before = self._owner.open(self._before), None
        else:
            shared = self._owner.open(None)
            self._last = self._owner.marker()  # before it counts as ours
            self._open = shared
        return self._open

    def _commit(self, shared: SharedTransaction, marker: Marker) -> Exception | None:
        """Commit; None: it is. Else the marker has to be read again before anything else."""
        try:
            self._owner.mark(shared, marker)
            ended = self._owner.end(shared, commit=True)
        except TransactionTimeoutError as unclear:
            self._open = None
            return unclear
        self._open = None
        if not ended.outcome.committed:
            return BatchFailedError(
                f"its transaction was {ended.outcome.value} before the commit: it lasted longer than "
                "transaction.timeout.ms, or somebody aborted it"
            )
        self._last = marker
        self._open = ended.following
        self._before = shared if ended.following is None else None
        return None

    def _give_up(self, shared: SharedTransaction, cause: Exception) -> None:
        """Abort; whoever still writes is fenced with it."""
        self._open = None
        try:
            if shared.level < NEW_GENERATION:
                self._ready()  # EndTxn would leave the epoch, and late records of this attempt could open it again
            else:
                self._open = self._owner.end(shared, commit=False).following
        except TransactionTimeoutError as unclear:
            cause.add_note(f"while aborting the batch: {unclear}")
        except ProducerFencedError as fenced:
            raise fenced from cause

    def _is_in_kafka(self, asked: Marker) -> bool:
        self._ready()
        return self._last == asked

    def _abandon(self) -> None:
        """Keep no reader waiting for what this driver does not go on with."""
        shared = self._open
        self._forget()
        if shared is None:
            return
        with contextlib.suppress(OttlaError):  # it ends with its time-out, or with the next driver
            if shared.level < NEW_GENERATION:
                self._owner.open(None)
            else:
                self._owner.end(shared, commit=False)

    def _forget(self) -> None:
        self._open = self._before = None
