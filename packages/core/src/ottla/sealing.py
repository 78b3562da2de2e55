"""From columns to the records section of a request: encoded in one go, then compressed."""

from __future__ import annotations

from collections.abc import Callable

from ottla.batch import ProducerBatch, Sealed
from ottla.interfaces import Compressor

MAGIC = 2


def sealer(compressor: Compressor | None) -> Callable[[ProducerBatch], Sealed]:
    """A function that seals batches with this codec; None: uncompressed. For the I/O thread."""

    def seal(batch: ProducerBatch) -> Sealed:
        encoded = batch.columns.encode(MAGIC)
        chunks, codec_id = encoded.chunks, 0
        if compressor is not None:
            chunks, codec_id = [compressor.compress(chunks, level=None)], compressor.codec_id
        return Sealed(
            chunks=chunks,
            size=sum(map(len, chunks)),
            codec_id=codec_id,
            first_timestamp=encoded.first_timestamp,
            max_timestamp=encoded.max_timestamp,
            count=encoded.count,
        )

    return seal
