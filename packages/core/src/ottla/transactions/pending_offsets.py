"""Positions on their way into a transaction: which group's are next, and which of them are written."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from ottla.errors import ErrorCode, OttlaError, error_code
from ottla.transactions.offsets import OffsetsToSend, TopicPartition
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.requests import CoordinatorRequest


@attrs.define(eq=False)
class PendingOffsetCommit:
    """A group's positions: `announced` to the transaction's coordinator, `left` to be written."""

    sending: OffsetsToSend
    pending: TransactionalRequestResult
    unwritten: dict[TopicPartition, None]
    announced: bool = False


class PendingOffsetCommits:
    """What `send_offsets_to_transaction` was called with, in that order; one at a time is under way."""

    def __init__(self) -> None:
        self._waiting: deque[PendingOffsetCommit] = deque()

    def __bool__(self) -> bool:
        """Whether any is not written yet."""
        return bool(self._waiting)

    @property
    def first(self) -> PendingOffsetCommit:
        """The one whose turn it is."""
        return self._waiting[0]

    def add(self, sending: OffsetsToSend) -> TransactionalRequestResult:
        """Queue a group's positions; the same ones again, after a time-out, are not queued twice."""
        for other in self._waiting:
            if other.sending == sending:
                return other.pending
        pending = TransactionalRequestResult("send_offsets_to_transaction")
        if sending.offsets:
            self._waiting.append(PendingOffsetCommit(sending, pending, dict.fromkeys(sending.offsets)))
        else:
            pending.end()
        return pending

    def on_response(self, request: CoordinatorRequest, answer: Any) -> list[ErrorCode]:
        """Note what an answer to TxnOffsetCommit says is written; its code for each partition that was asked for."""
        results = {
            (topic.name, each.partition_index): error_code(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        codes = [results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in request.partitions]
        for partition, code in zip(request.partitions, codes, strict=True):
            if code is ErrorCode.NONE:
                self.first.unwritten.pop(partition, None)
        return codes

    def done(self) -> None:
        """All of the first one is written."""
        self.first.pending.end()
        self._waiting.popleft()

    def recover(self) -> None:
        """After a round that failed: end what was written, and not noted as done."""
        while self._waiting and not self.first.unwritten:
            self.done()

    def drop(self, error: OttlaError) -> None:
        """None of them will be written any more."""
        while self._waiting:
            self.first.pending.end(error)
            self._waiting.popleft()
