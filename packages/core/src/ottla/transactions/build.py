"""What numbers records, if anything does, and what asks brokers for that: as a configuration asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import attrs

from ottla.accumulator.sequences import Sequences
from ottla.config import Idempotence, TransactionsConfig
from ottla.network.backoff import Backoff
from ottla.transactions.producer_id import Idempotence as IdempotentAgenda
from ottla.transactions.request_source import RequestSource

if TYPE_CHECKING:
    from ottla.transactions.manager import TransactionManager


@attrs.frozen(kw_only=True)
class Numbering:
    """The numbers of records, the requests for them, and who keeps transactions; None: there are none of these."""

    sequences: Sequences | None = None
    request_source: RequestSource | None = None
    manager: TransactionManager | None = None

    @classmethod
    def of(cls, config: TransactionsConfig, backoff: Backoff, client_id: str) -> Self:
        """What a configuration asks for."""
        if config.idempotence is Idempotence.OFF:
            return cls()
        if config.transactional_id is None:
            sequences = Sequences(required=config.idempotence is Idempotence.REQUIRED)
            return cls(
                sequences=sequences,
                request_source=IdempotentAgenda(sequences=sequences, backoff=backoff, client_id=client_id),
            )
        # Here, because the messages of transactions cost every program that has none 10 ms at its start.
        from ottla.transactions.manager import TransactionManager

        sequences = Sequences(transactional=True, required=True)
        manager = TransactionManager(
            transactional_id=config.transactional_id,
            timeout_ms=config.timeout,
            two_phase=config.two_phase,
            sequences=sequences,
            backoff=backoff,
            client_id=client_id,
        )
        return cls(sequences=sequences, request_source=manager, manager=manager)

    @property
    def admit(self) -> Callable[[], object] | None:
        """What raises outside of transactions; None: a record may be queued at any time."""
        return None if self.manager is None else self.manager.check_open
