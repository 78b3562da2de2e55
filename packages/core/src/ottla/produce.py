"""Produce requests and answers: from batches to gathered bytes, from bytes to one answer for each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from ottla.batch import ProducerBatch
from ottla.errors import ErrorCode, error_code
from ottla.interfaces import Buffer
from ottla.network_client import Completion, Request
from ottla.protocol import PRODUCE, ProduceResponse
from ottla.protocol import produce_request as encode_request
from ottla.recordbatch.v2 import batch_header

NO_ID: Final = bytes(16)
FIRST_WITH_V2_RECORDS: Final = 3
FIRST_WITH_ZSTD: Final = 7
LAST_WITH_NAMES: Final = 12
ZSTD: Final = 4


@attrs.frozen(kw_only=True)
class PartitionAnswer:
    """What a broker says of one partition's batch; `record_errors` are the records that it names."""

    code: ErrorCode
    base_offset: int
    log_append_time_ms: int
    message: str | None
    record_errors: Mapping[int, str | None]


def produce_request(
    batches: Sequence[ProducerBatch],
    *,
    acks: int,
    timeout: float,
    topic_ids: Mapping[str, bytes],
    on_complete: Callable[[Completion], object],
) -> Request:
    """A request that carries sealed batches, at most one of a partition, without copying their records."""
    by_topic: dict[str, list[tuple[int, Sequence[Buffer]]]] = {}
    zstd = False
    for batch in batches:
        sealed = batch.sealed
        assert sealed is not None, "only sealed batches are sent"
        zstd |= sealed.codec_id == ZSTD
        header = batch_header(
            sealed.chunks,
            codec_id=sealed.codec_id,
            first_timestamp=sealed.first_timestamp,
            max_timestamp=sealed.max_timestamp,
            count=sealed.count,
        )
        by_topic.setdefault(batch.topic, []).append((batch.partition, [header, *sealed.chunks]))
    ids = {topic: topic_ids.get(topic, NO_ID) for topic in by_topic}

    def body(version: int) -> Sequence[Buffer]:
        return encode_request(
            version,
            transactional_id=None,
            acks=acks,
            timeout_ms=int(timeout * 1000),
            topics=[(topic, ids[topic], partitions) for topic, partitions in by_topic.items()],
        )

    return Request(
        message=PRODUCE,
        body=body,
        on_complete=on_complete,
        floor=FIRST_WITH_ZSTD if zstd else FIRST_WITH_V2_RECORDS,
        ceiling=LAST_WITH_NAMES if NO_ID in ids.values() else PRODUCE.max_version,
        answered=acks != 0,
    )


def read_answer(
    answer: ProduceResponse, batches: Sequence[ProducerBatch], topic_ids: Mapping[str, bytes]
) -> Mapping[tuple[str, int], PartitionAnswer]:
    """The answers by topic and partition; from version 13 on the wire has ids in place of names."""
    names = {topic_ids.get(batch.topic, NO_ID): batch.topic for batch in batches}
    return {
        (topic.name or names.get(topic.topic_id, ""), partition.index): PartitionAnswer(
            code=error_code(partition.error_code),
            base_offset=partition.base_offset,
            log_append_time_ms=partition.log_append_time_ms,
            message=partition.error_message,
            record_errors={record.batch_index: record.batch_index_error_message for record in partition.record_errors},
        )
        for topic in answer.responses
        for partition in topic.partition_responses
    }
