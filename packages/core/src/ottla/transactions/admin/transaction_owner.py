"""The owner's side of a shared transaction: one process opens it, adds offsets and ends it, many producers write.

The producers join with `Producer.join_transaction`. Their records and the owner's offsets become visible together. So
an offset of the owner's own shows later, even after a crash, whether the transaction was committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, ProducerFencedError, TransactionError, error_code, quoted
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.acl_hints import needed
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, BlockingClient, blocking_client
from ottla.transactions.admin.completion import FENCED, Outcome, outcome_of
from ottla.transactions.admin.descriptions import COMPLETE, EMPTY, described
from ottla.transactions.coordinator_request import CoordinatorRequest, InitProducerId
from ottla.transactions.current_transaction import TXN_V2
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.shared_transaction import SharedTransaction
from ottla.transactions.transaction_error_actions import TRANSACTION_ERROR_ACTIONS, TransactionErrorAction
from ottla.transactions.transaction_requests import AddOffsetsToTxn, EndTxn, TxnOffsetCommit

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class Ended:
    """The result of ending a shared transaction. `following`: the next one, if the response has assigned its epoch."""

    outcome: Outcome
    following: SharedTransaction | None


@contextmanager
def sharing(config: Mapping[str, Any], /, *, timeout: float = DEFAULT_TIMEOUT) -> Iterator[Sharing]:
    """A context manager with a client that begins and ends shared transactions: a `Sharing`.

    Each of its calls takes at most *timeout* seconds, however long the block lasts; *config* is a producer's
    configuration.
    """
    with blocking_client(config, timeout=timeout) as client:
        yield Sharing(client)


class Sharing:
    """Opens and ends shared transactions. Made by `sharing`.

    All methods raise TransactionTimeoutError when time runs out, after which the operation may have happened or not;
    ProducerFencedError when another owner has the id; TransactionError when the cluster refuses, or is not the one in
    which the transaction was opened.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def open(
        self,
        transactional_id: str,
        *,
        after: SharedTransaction | None = None,
        transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
    ) -> SharedTransaction:
        """Open a transaction for producers to join.

        This takes the transactional id over: it fences the previous producer and aborts its open transaction.

        With *after*, an earlier transaction that was ended, the id is kept and not taken over. Raises
        ProducerFencedError if another owner has the id now.
        """
        self._client.restart()
        current = None if after is None else ProducerIdAndEpoch(id=after.producer_id, epoch=after.epoch)
        request = InitProducerId(transactional_id=transactional_id, timeout_ms=transaction_timeout_ms, current=current)
        response = self._run(request, transactional_id, of=after)
        return SharedTransaction(
            transactional_id=transactional_id,
            producer_id=response.producer_id,
            epoch=response.producer_epoch,
            level=self._client.level(),
            cluster_id=self._client.known_cluster_id(),
        )

    def commit_offsets(self, shared: SharedTransaction, offsets: Mapping[Any, Any], group_metadata: Any) -> None:
        """Add offsets by (topic, partition) to the transaction; the partitions have to exist."""
        self._client.restart()
        sending = OffsetsToSend.checked(offsets, group_metadata)
        group, producer_id_and_epoch = sending.group.group_id, _producer_id_and_epoch(shared)
        txn_v2 = shared.level >= TXN_V2
        if not txn_v2:
            adding = AddOffsetsToTxn(shared.transactional_id, producer_id_and_epoch, group)
            self._run(adding, shared.transactional_id, of=shared)
        request = TxnOffsetCommit(
            transactional_id=shared.transactional_id,
            producer_id_and_epoch=producer_id_and_epoch,
            sending=sending,
            partitions=list(sending.offsets),
            txn_v2=txn_v2,
        )

        def one() -> TxnOffsetCommitResponse:
            node = self._client.coordinator(group, group=True)
            response: TxnOffsetCommitResponse = self._client.send(node, request)
            return response

        with self._client.only_in_cluster_of(shared):
            code = _deciding_code(self._client.until_answered(group, one, _deciding_code))
        right = needed(code, group=group, read=sorted({topic for topic, _partition in sending.offsets}))
        self._check(request, code, shared.transactional_id, right=right)

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort the transaction. Safe to repeat until the id is used again.

        The outcome of a commit is ALREADY_ABORTED if the transaction had timed out. If it was committed before, the
        outcome of an abort is ALREADY_COMMITTED. If nothing was written in it, the outcome is the one that was asked
        for; but brokers before 3.0 cannot distinguish such a transaction from one that has ended the other way.
        """
        self._client.restart()
        request = EndTxn(
            transactional_id=shared.transactional_id,
            producer_id_and_epoch=_producer_id_and_epoch(shared),
            commit=commit,
            txn_v2=shared.level >= TXN_V2,
        )
        with self._client.only_in_cluster_of(shared):
            last = self._client.run(request, shared.transactional_id)
        if last.code in FENCED:
            may_be = "; the transaction may have been committed before" if commit and last.in_doubt else ""
            raise _fenced(last.code, shared.transactional_id, may_be)
        if last.code is ErrorCode.INVALID_TXN_STATE and self._is_empty(shared):
            outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        else:
            outcome = outcome_of(last, commit=commit, open_before=True)
        following = None
        if last.code is ErrorCode.NONE and last.response.producer_id >= 0:
            following = attrs.evolve(shared, producer_id=last.response.producer_id, epoch=last.response.producer_epoch)
        return Ended(outcome=outcome, following=following)

    def _is_empty(self, shared: SharedTransaction) -> bool:
        """Return whether nothing was written; False for brokers before 3.0, which cannot say."""
        with self._client.only_in_cluster_of(shared):
            found = described(self._client, shared.transactional_id)
        if found is None or (found.producer_id, found.producer_epoch) != (shared.producer_id, shared.epoch):
            return False
        # From KIP-890 on, the end of a transaction gives the next one its epoch, and leaves the state of that end.
        return found.transaction_state == EMPTY or (shared.level >= TXN_V2 and found.transaction_state in COMPLETE)

    def _run(self, request: CoordinatorRequest, transactional_id: str, *, of: SharedTransaction | None) -> Any:
        with self._client.only_in_cluster_of(of):
            last = self._client.run(request, transactional_id)
        self._check(request, last.code, transactional_id)
        return last.response

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


def _producer_id_and_epoch(shared: SharedTransaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(id=shared.producer_id, epoch=shared.epoch)


def _deciding_code(response: TxnOffsetCommitResponse) -> ErrorCode:
    """The error code that decides: the first that is not retriable, else the first that is not NONE."""
    codes = [error_code(each.error_code) for topic in response.topics for each in topic.partitions]
    wrong = [code for code in codes if code is not ErrorCode.NONE]
    return next((code for code in wrong if not code.retriable), wrong[0] if wrong else ErrorCode.NONE)


def _fenced(code: ErrorCode, transactional_id: str, more: str = "") -> ProducerFencedError:
    error = BrokerError(code)
    fenced = ProducerFencedError(
        f"transactional id {quoted(transactional_id)} has another owner, or the coordinator fenced this one: "
        f"{error}{more}; stop, unless this process is meant to be the owner"
    )
    fenced.__cause__ = error
    return fenced
