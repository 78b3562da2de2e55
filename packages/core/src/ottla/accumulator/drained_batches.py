"""Sealing and numbering of drained batches; a batch for which one of these fails is completed as failed."""

from __future__ import annotations

from collections.abc import Callable

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.sequences import Sequences
from ottla.errors.robust_logger import robust_logger
from ottla.recordbatch.header_v2 import MAGIC as FIRST_WITH_SEQUENCE
from ottla.recordbatch.old_format_errors import no_producer_ids
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.results.stories.waits import SHORTEST, Journal, WaitKind

logger = robust_logger(__name__)


class DrainedBatches:
    """Seals drained batches and gives them sequence numbers. For the I/O thread, without the lock."""

    def __init__(
        self,
        *,
        seal: Callable[[ProducerBatch, int], SealedRecords],
        sequences: Sequences,
        pool: BufferPool,
        completion: BatchCompletion,
        journal: Journal,
    ) -> None:
        self.seal = seal
        self._sequences = sequences
        self._pool = pool
        self._completion = completion
        self._journal = journal
        self._clock = journal.clock

    def seal_or_fail(self, batch: ProducerBatch, node: int) -> SealedRecords | None:
        """Seal a batch for this broker, and release the memory that it no longer needs. Return None if it failed."""
        started_at = self._clock()
        first = batch.drained_at is None
        if first:
            batch.drained_at = started_at
        try:
            sealed = batch.sealed = self.seal(batch, node)
        except Exception as cause:  # a faulty codec or encoder must not stop other batches
            logger.debug("a batch for %s could not be encoded", batch, exc_info=True)
            # Without its traceback: its frames hold the batch, and lost records are logged only when the batch is
            # dropped (`DropNotice`).
            self._completion.fail(batch, cause.with_traceback(None), why=f"it could not be encoded: {cause}")
            return None
        ended_at = self._clock()
        if first:
            batch.sealed_at = ended_at
        if ended_at - started_at > SHORTEST:
            self._journal.add(WaitKind.OTHER_COMPRESSION, started_at, ended_at)
        surplus = batch.held_bytes - sealed.size
        if surplus > 0:
            self._pool.release(surplus)
            batch.held_bytes -= surplus
        return sealed

    def assign_sequence_or_fail(self, batch: ProducerBatch, sealed: SealedRecords) -> bool:
        """Assign a sequence to a batch. Return False if it has failed, because its format cannot hold a sequence."""
        sequences = self._sequences
        if sealed.magic >= FIRST_WITH_SEQUENCE:
            sequences.assign(batch)
        elif batch.sequence is not None or (sequences.required and not sequences.off):
            self._completion.fail(batch, no_producer_ids(sealed.magic))
            return False
        return True


def alike(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Return whether two sealed batches fit into one request, which carries one record format."""
    assert one.sealed is not None
    assert other.sealed is not None
    return one.sealed.magic == other.sealed.magic
