"""The last step before the wire: from encoded columns to a partition's part of a Produce request.

Compresses, and in formats v0 and v1 wraps. The header of v2 is written later and any number of times, because producer
id, epoch and sequence may change between two attempts.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ottla.interfaces import Buffer, Compressor, Encoded
from ottla.recordbatch.batch_sequence import BatchSequence
from ottla.recordbatch.codecs import NONE, ZSTD, compressed
from ottla.recordbatch.header_v2 import HEADER_SIZE, batch_header
from ottla.recordbatch.message_sets import OVERHEADS, wrapper
from ottla.recordbatch.old_format_errors import no_producer_ids, no_transactions, no_zstd


@attrs.define(kw_only=True)  # frozen takes more than twice as long to make, for each batch
class SealedRecords:
    """The records of one batch as they are sent: in v2 everything but the header, in v0 and v1 everything.

    `plain_size` is the size of the records before compression.
    """

    magic: int
    codec_id: int
    chunks: Sequence[Buffer] = attrs.field(repr=False)
    first_timestamp: int
    max_timestamp: int
    count: int
    size: int
    plain_size: int

    @property
    def ratio(self) -> float:
        """Compressed size divided by uncompressed size, without header or wrapper; for `CompressionRatios`."""
        if self.codec_id == NONE:
            return 1.0
        around = 0 if self.magic == 2 else OVERHEADS[self.magic]
        return (self.size - around) / self.plain_size

    @property
    def wire_size(self) -> int:
        """The size of `wire_chunks` in a request."""
        return self.size + (HEADER_SIZE if self.magic == 2 else 0)

    def wire_chunks_for(self, sequence: BatchSequence | None) -> Sequence[Buffer]:
        """`wire_chunks` with the producer's fields of *sequence*, or without them if it is None."""
        if sequence is None:
            return self.wire_chunks()
        return self.wire_chunks(
            producer_id=sequence.producer_id_and_epoch.id,
            epoch=sequence.producer_id_and_epoch.epoch,
            sequence=sequence.base_sequence,
            transactional=sequence.transactional,
        )

    def wire_chunks(
        self, *, producer_id: int = -1, epoch: int = -1, sequence: int = -1, transactional: bool = False
    ) -> Sequence[Buffer]:
        """The batch for the wire, without copying its records.

        Raises UnsupportedVersionError for these fields in v0 or v1, which have no place for them.
        """
        if self.magic == 2:
            header = batch_header(
                self.chunks,
                codec_id=self.codec_id,
                first_timestamp=self.first_timestamp,
                max_timestamp=self.max_timestamp,
                count=self.count,
                producer_id=producer_id,
                epoch=epoch,
                sequence=sequence,
                transactional=transactional,
            )
            return [header, *self.chunks]
        if transactional:
            raise no_transactions(self.magic)
        if producer_id >= 0:
            raise no_producer_ids(self.magic)
        return self.chunks


@attrs.frozen(kw_only=True, eq=False)
class SealedBatch:
    """Records of one partition, encoded for sending, perhaps by a process other than the one that sends them."""

    topic: str
    partition: int
    sealed: SealedRecords


def finish(encoded: Encoded, *, magic: int, compressor: Compressor | None, level: int | None = None) -> SealedRecords:
    """Encoded records of format *magic*, compressed and, before v2, wrapped; not compressed if *compressor* is None.

    *level* None: the compressor's own default.
    Raises UnsupportedVersionError for zstd before v2.
    """
    chunks, codec_id = encoded.chunks, NONE
    size = plain_size = sum(map(len, chunks))
    if compressor is not None:
        codec_id = compressor.codec_id
        refuse_zstd(magic, codec_id)
        packed = compressed(compressor, chunks, level=level)
        if magic < 2:
            packed = wrapper(magic, packed, codec_id=codec_id, count=encoded.count, max_timestamp=encoded.max_timestamp)
        chunks, size = [packed], len(packed)
    return SealedRecords(
        magic=magic,
        codec_id=codec_id,
        chunks=chunks,
        first_timestamp=encoded.first_timestamp,
        max_timestamp=encoded.max_timestamp,
        count=encoded.count,
        size=size,
        plain_size=plain_size,
    )


def refuse_zstd(magic: int, codec_id: int) -> None:
    """Raise UnsupportedVersionError for zstd in a format before v2."""
    if magic < 2 and codec_id == ZSTD:
        raise no_zstd(magic)
