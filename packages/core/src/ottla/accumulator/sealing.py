"""Sealing of batches: columns encoded and compressed as a partition's part of a request; and back, to split a batch.

A drained batch is sealed and then gets its sequence number; one for which either fails is completed as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.sequences import Sequences
from ottla.errors import IllegalStateError
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import Columns, Compressor
from ottla.recordbatch.codecs import ZSTD
from ottla.recordbatch.compression_ratio import ESTIMATION_FACTOR, CompressionRatios
from ottla.recordbatch.down_conversion import down_converted
from ottla.recordbatch.encoder_faults import encoded_by
from ottla.recordbatch.header_v2 import MAGIC as NEWEST_MAGIC
from ottla.recordbatch.old_format_errors import no_producer_ids, zstd_is_newer
from ottla.recordbatch.parse import Record, parse_batches
from ottla.recordbatch.sealed_records import SealedRecords, finish
from ottla.results.stories.waits import SHORTEST, Journal, WaitKind
from ottla.results.value_methods import ValueMethods

logger = robust_logger(__name__)

FIRST_WITH_SEQUENCE: Final = 2
"""The first record format with sequence numbers."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SupportedFormats(ValueMethods):
    """The formats that a broker takes: its newest record format, and whether it knows zstd."""

    magic: int = 2
    zstd: bool = True


def _everything(_node: int) -> SupportedFormats:
    return SupportedFormats()


class Sealer:
    """Seals batches in the newest format that their broker takes, with one codec or, if it is None, uncompressed.

    For the I/O thread, except `ratio` and `seal_columns`. *formats_of* returns the formats of a broker. *level* is the
    compression level, or None for the codec's own default.
    """

    def __init__(
        self,
        compressor: Compressor | None,
        *,
        level: int | None = None,
        formats_of: Callable[[int], SupportedFormats] = _everything,
    ) -> None:
        self._compressor = compressor
        self._level = level
        self._formats_of = formats_of
        self.codec_id = 0 if compressor is None else compressor.codec_id
        self._compressors: Mapping[int, Compressor] = {} if compressor is None else {self.codec_id: compressor}
        self._ratios = CompressionRatios()

    def seal(self, batch: ProducerBatch, node: int) -> SealedRecords:
        """Encode and compress the batch's records for this broker; its columns keep only what deliveries need.

        A batch that was sealed before, for a broker that takes a newer format, is converted. Raises
        UnsupportedVersionError for what the older format cannot hold.
        """
        formats = self._formats_of(node)
        magic = formats.magic
        if self.codec_id == ZSTD and magic == NEWEST_MAGIC and not formats.zstd:
            raise zstd_is_newer()
        if batch.sealed is not None:
            return down_converted(batch.sealed, magic=magic, compressors=self._compressors, level=self._level)
        sealed = finish(encoded_by(batch.columns, magic), magic=magic, compressor=self._compressor, level=self._level)
        if sealed.codec_id:
            self._ratios.observe(batch.topic, codec_id=sealed.codec_id, ratio=sealed.ratio)
        return sealed

    def seal_columns(self, columns: Columns) -> SealedRecords:
        """Encode and compress records in the newest format, before their broker is known; for any thread."""
        return finish(
            encoded_by(columns, NEWEST_MAGIC), magic=NEWEST_MAGIC, compressor=self._compressor, level=self._level
        )

    def ratio(self, topic: str) -> float:
        """The expected ratio of compressed to plain size of a topic's records, on the safe side."""
        return self._ratios.ratio(topic, codec_id=self.codec_id) * ESTIMATION_FACTOR if self.codec_id else 1.0

    def records(self, batch: ProducerBatch) -> Sequence[Record]:
        """The records of a sealed batch that was too large; restarts the estimate of its topic's ratio."""
        sealed = batch.sealed
        assert sealed is not None, "only a sealed batch can be too large"
        self._ratios.start_over(batch.topic, codec_id=sealed.codec_id, ratio=sealed.ratio)
        whole = b"".join(sealed.wire_chunks())
        return [record for part in parse_batches(whole, compressors=self._compressors) for record in part.records]


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
        clock: Callable[[], float],
    ) -> None:
        self.seal = seal
        self._sequences = sequences
        self._pool = pool
        self._completion = completion
        self._journal = journal
        self._clock = clock

    def seal_or_fail(self, batch: ProducerBatch, node: int) -> SealedRecords | None:
        """Seal a batch for this broker, and release the memory that it no longer needs. Return None if it failed."""
        started_at = self._clock()
        first = batch.drained_at is None
        if first:
            batch.drained_at = started_at
        try:
            sealed = batch.sealed = self.seal(batch, node)
        except Exception as cause:  # a faulty codec or encoder must not stop other batches
            self._fail(batch, cause, why=str(cause) or type(cause).__name__)
            return None
        except BaseException as cause:  # of a signal handler; another attempt could find the columns released
            why = f"interrupted by {cause!r}"
            self._fail(batch, IllegalStateError(why), why=why)
            raise
        ended_at = self._clock()
        if first:
            batch.sealed_at = ended_at
        if ended_at - started_at > SHORTEST:
            self._journal.add(WaitKind.OTHER_COMPRESSION, started_at, ended_at)
        surplus = batch.held_bytes - sealed.size - batch.overhead
        if surplus > 0:
            self._pool.release(surplus)
            batch.held_bytes -= surplus
        return sealed

    def _fail(self, batch: ProducerBatch, cause: Exception, *, why: str) -> None:
        logger.debug("a batch for %s could not be encoded", batch, exc_info=True)
        # Without its traceback: its frames hold the batch, and lost records are logged only when the batch is dropped
        # (`DropNotice`).
        self._completion.fail(batch, cause.with_traceback(None), why=f"it could not be encoded: {why}")

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
