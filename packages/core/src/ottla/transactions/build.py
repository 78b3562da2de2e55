"""Construction of the parts for sequence numbers and transactions, from a producer's configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from ottla.accumulator.sequences import Sequences
from ottla.concurrency.environment import Environment
from ottla.config import Idempotence, ProducerConfig, RecoveryStrategy
from ottla.network import NetworkClient
from ottla.network.backoff import Backoff
from ottla.network.cluster_ids import ClusterIds
from ottla.network.metadata import Metadata
from ottla.transactions.producer_id_request_source import ProducerIdRequestSource
from ottla.transactions.request_source import RequestSource

if TYPE_CHECKING:
    from ottla.transactions.manager import TransactionManager


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TransactionParts:
    """The parts of a producer for idempotence and transactions. Those that it does not need are None."""

    sequences: Sequences
    request_source: RequestSource | None = None
    manager: TransactionManager | None = None


def build_transactions(
    config: ProducerConfig, backoff: Backoff, client_id: str, cluster_ids: ClusterIds, environment: Environment
) -> TransactionParts:
    """Build the parts that a configuration needs; *cluster_ids* are those of metadata."""
    if config.transactions.idempotence is Idempotence.OFF:
        return TransactionParts(sequences=Sequences(off=True))
    if config.transactions.transactional_id is None:
        sequences = Sequences(required=config.transactions.idempotence is Idempotence.REQUIRED, client_id=client_id)
        return TransactionParts(
            sequences=sequences,
            request_source=ProducerIdRequestSource(sequences=sequences, backoff=backoff, client_id=client_id),
        )
    # Imported late: the messages of transactions cost every program 10 ms at its start, also one without
    # transactions.
    from ottla.transactions.manager import TransactionManager
    from ottla.transactions.transaction_request_source import TransactionRequestSource
    from ottla.transactions.transaction_state import TransactionState

    sequences = Sequences(transactional=True, required=True, client_id=client_id)
    state = TransactionState(
        transactional_id=config.transactions.transactional_id,
        client_id=client_id,
        sequences=sequences,
        cluster_ids=cluster_ids,
        environment=environment,
    )
    requests = TransactionRequestSource(
        state,
        timeout_ms=config.transactions.timeout,
        two_phase=config.transactions.two_phase,
        backoff=backoff,
        delivery_timeout=config.delivery.delivery_timeout,
    )
    return TransactionParts(sequences=sequences, request_source=requests, manager=TransactionManager(state))


def watch_clusters(
    parts: TransactionParts, metadata: Metadata, client: NetworkClient, *, recovery: RecoveryStrategy
) -> None:
    """Have metadata check which cluster brokers belong to, and report another one to these parts.

    A producer id of one cluster means another producer in the next.
    """
    if parts.request_source is not None:
        # Without a rebootstrap, the records would wait for ever for the cluster that they were for.
        metadata.checks_clusters = recovery is RecoveryStrategy.REBOOTSTRAP
    manager = parts.manager
    if isinstance(parts.request_source, ProducerIdRequestSource):
        metadata.on_other_cluster = parts.request_source.begin_in_other_cluster
        metadata.on_other_topics = parts.request_source.begin_with_other_topics
        metadata.on_uncheckable = parts.request_source.renew_unused
        metadata.on_only_new_topics = parts.request_source.renew
    elif manager is not None:
        metadata.on_other_cluster = manager.fail_in_other_cluster
        metadata.on_other_topics = partial(_begin_with_other_topics, client, manager)
        metadata.checks_before_all = True


def _begin_with_other_topics(client: NetworkClient, manager: TransactionManager, _same_since: float) -> bool:
    """Forget the cluster's level of transactions, and abort the open one: the cluster may have been set up again.

    Return that this is to be logged.
    """
    client.forget_features()
    manager.abort_with_other_topics()
    return True
