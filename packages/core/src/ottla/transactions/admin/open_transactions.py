"""Open transactions by the prefix of their ids, and how to abort one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ottla.protocol.messages.describe_transactions import TransactionState
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, BlockingClient, blocking_client
from ottla.transactions.admin.completion import Outcome, outcome_of
from ottla.transactions.admin.descriptions import ONGOING, described_everywhere, partitions_of
from ottla.transactions.admin.found_transactions import FoundTransactions, log_missing
from ottla.transactions.coordinator_request import InitProducerId
from ottla.transactions.current_transaction import TXN_V2
from ottla.transactions.transaction_requests import EndTxn


@attrs.frozen(kw_only=True)
class OpenTransaction:
    """An open transaction: its id, its start (ms since 1970), its timeout, its partitions, and its cluster's id.

    `abort` compares the `cluster_id`, unless it is None.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    started_ms: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    cluster_id: str | None = None


def find_open_transactions(
    config: Mapping[str, Any], /, prefix: str, *, timeout: float = DEFAULT_TIMEOUT
) -> FoundTransactions[OpenTransaction]:
    """The open transactions whose ids begin with *prefix*, oldest first, including those of running producers.

    Every broker is asked; all have to be 3.0 or later. Those that do not answer in half of the time are in `missing`
    of the result, and in the log. Raises UnsupportedVersionError, TransactionTimeoutError if no broker answers, or
    TransactionError when the cluster refuses.
    """
    with blocking_client(config, timeout=timeout) as client:
        return log_missing(find_with(client, prefix))


def find_with(client: BlockingClient, prefix: str) -> FoundTransactions[OpenTransaction]:
    """`find_open_transactions` over existing connections."""
    client.brokers()  # metadata, which has the cluster's id
    cluster_id = client.known_cluster_id()
    described = described_everywhere(client, prefix, only_open=True)
    still = [_transaction(state, cluster_id) for state in described.states if state.transaction_state == ONGOING]
    return FoundTransactions(sorted(still, key=lambda transaction: transaction.started_ms), described.missing)


def abort(config: Mapping[str, Any], /, transaction: OpenTransaction, *, timeout: float = DEFAULT_TIMEOUT) -> Outcome:
    """Abort exactly this transaction, and fence its producer; a later transaction of the same id is not aborted.

    Raises TransactionTimeoutError, or TransactionError when the cluster refuses, or is not the transaction's.
    """
    with blocking_client(config, timeout=timeout) as client:
        return abort_with(client, transaction)


def abort_with(client: BlockingClient, transaction: OpenTransaction) -> Outcome:
    """`abort` over existing connections."""
    with client.only_in_cluster_of(transaction):
        return _abort(client, transaction)


def _abort(client: BlockingClient, transaction: OpenTransaction) -> Outcome:
    producer_id_and_epoch = ProducerIdAndEpoch(id=transaction.producer_id, epoch=transaction.epoch)
    client.coordinator(transaction.transactional_id)
    txn_v2 = client.level() >= TXN_V2
    end = EndTxn(
        transactional_id=transaction.transactional_id,
        producer_id_and_epoch=producer_id_and_epoch,
        commit=False,
        txn_v2=txn_v2,
    )
    outcome = outcome_of(client.run(end, transaction.transactional_id), commit=False, open_before=True)
    if outcome is Outcome.ABORTED and not txn_v2:
        # EndTxn left the epoch as it was, so the producer that has this epoch could write again.
        next_epoch = InitProducerId(
            transactional_id=transaction.transactional_id,
            timeout_ms=transaction.timeout_ms,
            current=producer_id_and_epoch,
        )
        client.run(next_epoch, transaction.transactional_id)
    return outcome


def _transaction(state: TransactionState, cluster_id: str | None) -> OpenTransaction:
    return OpenTransaction(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        started_ms=state.transaction_start_time_ms,
        timeout_ms=state.transaction_timeout_ms,
        partitions=partitions_of(state),
        cluster_id=cluster_id,
    )
