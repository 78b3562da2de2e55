"""Offsets that are being added to a transaction: the queue of groups, and what is not written yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import OttlaError
from ottla.transactions.offsets import OffsetsToSend, TopicPartition
from ottla.transactions.pending_result import TransactionalRequestResult


@attrs.define(eq=False)
class PendingOffsetCommit:
    """A group's offsets: `unwritten` partitions, and `group_added` once the coordinator has added the group.

    `last_error` is why they had to be sent again.
    """

    sending: OffsetsToSend
    pending: TransactionalRequestResult
    unwritten: dict[TopicPartition, None]
    created_at: float
    group_added: bool = False
    last_error: OttlaError | None = None


class PendingOffsetCommits:
    """Calls of `send_offsets_to_transaction` in order; one at a time is in progress."""

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self._environment = environment
        self._waiting: deque[PendingOffsetCommit] = deque()

    def __bool__(self) -> bool:
        """Return whether any offsets are not written yet."""
        return bool(self._waiting)

    @property
    def first(self) -> PendingOffsetCommit:
        """The commit in progress."""
        return self._waiting[0]

    def expire_at(self, timeout: float) -> float:
        """The time by which the first commit has to be written, within *timeout* seconds; infinite without one."""
        return self.first.created_at + timeout if self._waiting else float("inf")

    def add(self, sending: OffsetsToSend) -> TransactionalRequestResult:
        """Queue a group's offsets; a repeated call after a timeout does not queue them twice."""
        for other in self._waiting:
            if other.sending == sending:
                return other.pending
        pending = TransactionalRequestResult("send_offsets_to_transaction", self._environment)
        if sending.offsets:
            now = self._environment.clock()
            self._waiting.append(PendingOffsetCommit(sending, pending, dict.fromkeys(sending.offsets), now))
        else:
            pending.end()
        return pending

    def note_written(self, partitions: Iterable[TopicPartition]) -> None:
        """Note offsets of the first commit that are written."""
        for partition in partitions:
            self.first.unwritten.pop(partition, None)

    def complete_first(self) -> None:
        """Complete the first commit."""
        self.first.pending.end()
        self._waiting.popleft()

    def recover(self) -> None:
        """Complete commits that are written but not marked as done, after an exception in a round."""
        while self._waiting and not self.first.unwritten:
            self.complete_first()

    def drop(self, error: OttlaError) -> None:
        """Fail all commits."""
        while self._waiting:
            self.first.pending.end(error)
            self._waiting.popleft()
