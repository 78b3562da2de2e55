"""The next epoch of a producer without transactions, which the producer chooses itself (KIP-360).

`ottla.accumulator.sequences` decides when it is needed, and sets it.

A transactional producer requests its next epoch from the coordinator: `transactions.current_transaction` decides when,
`transactions.transaction_request_source` makes the request.
"""

from __future__ import annotations

from ottla.errors.robust_logger import robust_logger
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch

logger = robust_logger(__name__)

LAST_EPOCH = 32_767


def bump_epoch(
    used: ProducerIdAndEpoch, partition: tuple[str, int], *, batch_lost: bool, outdated: bool, client_id: str
) -> ProducerIdAndEpoch | None:
    """Return the producer id with its next epoch, or None if a new id is needed: its epochs are used up, or *outdated*.

    It logs the reason: the leader of *partition* lacks a batch (*batch_lost*), a failed batch of it may have been
    written, or the leader knows a later epoch, which another producer uses: in the next epoch, both would be one.
    """
    if outdated:
        logger.info(
            "%s: %s-%d: the leader knows a later producer epoch; sequence numbers restart at 0 with a new producer id",
            client_id,
            *partition,
        )
        return None
    if batch_lost:
        logger.info(
            "%s: %s-%d: the leader lacks a batch; sequence numbers restart at 0 in the next producer epoch",
            client_id,
            *partition,
        )
    else:
        logger.info(
            "%s: %s-%d: a failed batch may have been written; sequence numbers restart at 0 in the next producer epoch",
            client_id,
            *partition,
        )
    return None if used.epoch >= LAST_EPOCH else ProducerIdAndEpoch(id=used.id, epoch=used.epoch + 1)
