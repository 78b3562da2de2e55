"""From columns to the records section of a request, encoded in one go and compressed; and back, to split a batch."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.batch import ProducerBatch, Sealed
from ottla.interfaces import Compressor
from ottla.recordbatch.parse import Record, parse_batches
from ottla.recordbatch.v2 import batch_header

MAGIC = 2


class Sealer:
    """Seals batches with one codec; None: uncompressed. For the I/O thread."""

    def __init__(self, compressor: Compressor | None) -> None:
        self._compressor = compressor

    def seal(self, batch: ProducerBatch) -> Sealed:
        """The batch's records as they go over the wire; its columns keep only what deliveries need."""
        compressor = self._compressor
        encoded = batch.columns.encode(MAGIC)
        chunks, codec_id = encoded.chunks, 0
        plain_size = size = sum(map(len, chunks))
        if compressor is not None:
            chunks, codec_id = [compressor.compress(chunks, level=None)], compressor.codec_id
            size = len(chunks[0])
        return Sealed(
            chunks=chunks,
            size=size,
            plain_size=plain_size,
            codec_id=codec_id,
            first_timestamp=encoded.first_timestamp,
            max_timestamp=encoded.max_timestamp,
            count=encoded.count,
        )

    def records(self, sealed: Sealed) -> Sequence[Record]:
        """What was sealed, read back."""
        header = batch_header(
            sealed.chunks,
            codec_id=sealed.codec_id,
            first_timestamp=sealed.first_timestamp,
            max_timestamp=sealed.max_timestamp,
            count=sealed.count,
        )
        compressors = {self._compressor.codec_id: self._compressor} if self._compressor else {}
        [batch] = parse_batches(b"".join((header, *sealed.chunks)), compressors=compressors)
        return batch.records
