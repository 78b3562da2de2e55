"""The owner's side of a transaction that many producers write into: opened, given offsets, and ended, by one process.

The producers join with `Producer.join_transaction`. What they wrote and the owner's offsets become visible together,
so an offset of the owner's own can tell later, even after a crash, whether the transaction was committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, ProducerFencedError, TransactionError, error_code, quoted
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from ottla.recordbatch.stamp import ProducerId
from ottla.transactions.admin.acl_hints import needed
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, Asking, asking
from ottla.transactions.admin.completion import Outcome, outcome_of
from ottla.transactions.error_actions import TRANSACTION_ERROR_ACTIONS, TransactionErrorAction
from ottla.transactions.manager import NEW_GENERATION
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.requests import CoordinatorRequest, initialize
from ottla.transactions.shared import SharedTransaction
from ottla.transactions.transactional_requests import add_offsets, commit_offsets, end

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class Ended:
    """How a shared transaction ended. `following` is the next one, where the answer brought an epoch for it."""

    outcome: Outcome
    following: SharedTransaction | None


@contextmanager
def sharing(config: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT) -> Iterator[Sharing]:
    """An owner's conversation with the brokers, of at most *timeout* seconds; *config* is as for a producer."""
    with asking(config, timeout=timeout) as asked:
        yield Sharing(asked)


class Sharing:
    """Opens and ends shared transactions. Made by `sharing`.

    Everything raises TransactionTimeoutError when time runs out, after which it may have been done or not;
    ProducerFencedError when the id is in other hands; TransactionError when the cluster refuses.
    """

    def __init__(self, asked: Asking) -> None:
        self._asked = asked

    def open(
        self,
        transactional_id: str,
        *,
        after: SharedTransaction | None = None,
        transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
    ) -> SharedTransaction:
        """A transaction to join. It takes the id over: whoever had it is fenced, and what was open there is aborted.

        With *after*, which was ended before, the id is only kept: ProducerFencedError says that another owner has it
        now.
        """
        current = None if after is None else ProducerId(id=after.producer_id, epoch=after.epoch)
        request = initialize(transactional_id=transactional_id, timeout_ms=transaction_timeout_ms, current=current)
        answer = self._run(request, transactional_id)
        return SharedTransaction(
            transactional_id=transactional_id,
            producer_id=answer.producer_id,
            epoch=answer.producer_epoch,
            level=self._asked.level(),
        )

    def commit_offsets(self, shared: SharedTransaction, offsets: Mapping[Any, Any], group_metadata: Any) -> None:
        """Make offsets part of the transaction, by (topic, partition); the partitions have to exist."""
        sending = OffsetsToSend.checked(offsets, group_metadata)
        group, owner = sending.group.group_id, _owner(shared)
        txn_v2 = shared.level >= NEW_GENERATION
        if not txn_v2:
            self._run(add_offsets(shared.transactional_id, owner, group), shared.transactional_id)
        request = commit_offsets(shared.transactional_id, owner, sending, sending.offsets, txn_v2=txn_v2)

        def one() -> TxnOffsetCommitResponse:
            node = self._asked.coordinator(group, group=True)
            answer: TxnOffsetCommitResponse = self._asked.ask(
                node, request.message, request.content, floor=request.floor, ceiling=request.ceiling
            )
            return answer

        code = _worst(self._asked.until_answered(group, one, _worst))
        right = needed(code, group=group, read=sorted({topic for topic, _partition in offsets}))
        self._check(request, code, shared.transactional_id, right=right)

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort it; harmless to repeat until the id is used again. An abort asked for too late is no error.

        The outcome of a commit may be ALREADY_ABORTED: its time was over.
        """
        request = end(shared.transactional_id, _owner(shared), commit=commit, txn_v2=shared.level >= NEW_GENERATION)
        answer, code = self._asked.run(request, shared.transactional_id)
        outcome = outcome_of(code, commit=commit, open_before=True)
        if outcome is Outcome.FENCED:
            raise _fenced(code, shared.transactional_id)
        following = None
        if code is ErrorCode.NONE and answer.producer_id >= 0:
            following = attrs.evolve(shared, producer_id=answer.producer_id, epoch=answer.producer_epoch)
        return Ended(outcome=outcome, following=following)

    def _run(self, request: CoordinatorRequest, transactional_id: str) -> Any:
        answer, code = self._asked.run(request, transactional_id)
        self._check(request, code, transactional_id)
        return answer

    def _check(self, request: CoordinatorRequest, code: ErrorCode, transactional_id: str, *, right: str = "") -> None:
        if code is ErrorCode.NONE:
            return
        if TRANSACTION_ERROR_ACTIONS[request.kind][code] is TransactionErrorAction.FENCED:
            raise _fenced(code, transactional_id)
        error = BrokerError(code)
        if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise TransactionError(
                f"transactional id {quoted(transactional_id)}: {error} Lower transaction.timeout.ms, or have the "
                "brokers' transaction.max.timeout.ms raised"
            ) from error
        right = right or needed(code, transactional_id=transactional_id)
        what = f"{request.message.name} for transactional id {quoted(transactional_id)}"
        raise TransactionError(f"{what}: {error}{right}") from error


def _owner(shared: SharedTransaction) -> ProducerId:
    return ProducerId(id=shared.producer_id, epoch=shared.epoch)


def _worst(answer: TxnOffsetCommitResponse) -> ErrorCode:
    """What to go by: the first code that asking again does not mend, else the first that is not NONE."""
    codes = [error_code(each.error_code) for topic in answer.topics for each in topic.partitions]
    wrong = [code for code in codes if code is not ErrorCode.NONE]
    return next((code for code in wrong if not code.retriable), wrong[0] if wrong else ErrorCode.NONE)


def _fenced(code: ErrorCode, transactional_id: str) -> ProducerFencedError:
    error = BrokerError(code)
    fenced = ProducerFencedError(
        f"transactional id {quoted(transactional_id)} is in other hands, or its coordinator gave it up: {error}; stop, "
        "unless this process is meant to be the owner"
    )
    fenced.__cause__ = error
    return fenced
