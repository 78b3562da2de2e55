"""A finished batch in an older format, for a broker that does not support the batch's own format.

Keys, values, order, codec and, in v1, timestamps stay. Producer id, epoch and sequence are dropped, so the broker
cannot recognise a duplicate. Records that would lose data are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.errors import CorruptBatchError
from ottla.interfaces import Compressor, Encoded
from ottla.recordbatch.codecs import codec
from ottla.recordbatch.message_sets import NO_TIMESTAMP, message_set
from ottla.recordbatch.old_format_errors import no_headers, no_transactions
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.parsed_batches import RecordBatch
from ottla.recordbatch.sealed_records import SealedRecords, finish, refuse_zstd


def down_converted(
    sealed: SealedRecords, *, magic: int, compressors: Mapping[int, Compressor], level: int | None = None
) -> SealedRecords:
    """The records in format *magic*, 0 or 1; *compressors* by codec id. Unchanged if its format is old enough.

    Raises UnsupportedVersionError, with a remedy, for headers and for zstd.
    """
    if sealed.magic <= magic:
        return sealed
    refuse_zstd(magic, sealed.codec_id)
    whole = b"".join(sealed.wire_chunks())
    batches = parse_batches(whole, compressors=compressors, limit=sealed.plain_size)
    return rewritten(batches, magic=magic, compressors=compressors, level=level)


def rewritten(
    batches: Iterable[RecordBatch], *, magic: int, compressors: Mapping[int, Compressor], level: int | None = None
) -> SealedRecords:
    """The records of *batches*, one batch in v2 or a whole message set, as one message set in format *magic*, 0 or 1.

    Offsets start at 0, as in a Produce request. Raises UnsupportedVersionError for headers, transactions and zstd.
    """
    batches = tuple(batches)
    for batch in batches:
        _refuse_what_is_lost(batch, magic)
    records = [record for batch in batches for record in batch.records]
    codec_ids = {batch.codec_id for batch in batches}
    if not records or len(codec_ids) > 1:
        raise CorruptBatchError(
            "batches without records cannot be converted"
            if not records
            else f"batches with {len(codec_ids)} codecs cannot be converted to one message set"
        )
    timestamps = [record.timestamp_ms if magic else NO_TIMESTAMP for record in records]
    plain = message_set(
        magic,
        keys=[record.key for record in records],
        values=[record.value for record in records],
        timestamps=timestamps,
    )
    encoded = Encoded(chunks=[plain], first_timestamp=timestamps[0], max_timestamp=max(timestamps), count=len(records))
    return finish(encoded, magic=magic, compressor=codec(codec_ids.pop(), compressors), level=level)


def _refuse_what_is_lost(batch: RecordBatch, magic: int) -> None:
    refuse_zstd(magic, batch.codec_id)
    if batch.transactional or batch.control:
        raise no_transactions(magic)
    for index, record in enumerate(batch.records):
        if record.headers:
            raise no_headers(magic, index=index)
