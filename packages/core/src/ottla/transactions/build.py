"""Construction of the parts for sequence numbers and transactions, from a producer's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ottla.accumulator.sequences import Sequences
from ottla.concurrency.environment import Environment
from ottla.config import Idempotence, ProducerConfig
from ottla.network.backoff import Backoff
from ottla.network.cluster_ids import ClusterIds
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
