"""Splitting of batches that are too large for their topic; the records keep their order and their deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.interfaces import Columns
from ottla.recordbatch.parse import Record
from ottla.recordbatch.record_limits import MAX_FRAME

_HEADER_FRAME: Final = 10

_NO_LIMIT: Final = 1 << 62


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Splitter:
    """Splits batches down to `target` bytes, or to half of their size if that is less. For the I/O thread."""

    target: int
    columns: Callable[[int], Columns]
    records: Callable[[ProducerBatch], Iterable[Record]]

    def split(self, batch: ProducerBatch, now: float) -> tuple[Sequence[ProducerBatch], int]:
        """Return closed parts, and the maximum of their bytes before compression; only a single record may exceed it.

        They have the age and the attempts of the batch, without the last attempt, which found it too large.
        """
        sealed = batch.sealed
        assert sealed is not None, "only a sealed batch can be too large"
        max_bytes = min(self.target, sealed.plain_size // 2)
        parts: list[ProducerBatch] = []
        free_bytes = 0
        for record in self.records(batch):
            size = _size(record)
            if size > free_bytes:
                parts.append(self._part(batch, now))
                free_bytes = max_bytes
            free_bytes -= size
            index = parts[-1].append(record.key, record.value, record.headers, record.timestamp_ms, None)
            assert index is not None, "what fits is decided here"
        for part in parts:
            part.close()
        return parts, max_bytes

    def _part(self, batch: ProducerBatch, now: float) -> ProducerBatch:
        columns = self.columns(_NO_LIMIT)
        part = ProducerBatch(topic=batch.topic, partition=batch.partition, columns=columns, now=batch.created_at)
        part.inherit(batch)
        part.run_while_waiting = batch.run_while_waiting
        part.keep_try()
        part.attempts -= 1
        part.retry_at = now
        return part


def _size(record: Record) -> int:
    headers = sum(len(name.encode()) + len(content or b"") + _HEADER_FRAME for name, content in record.headers)
    return MAX_FRAME + len(record.key or b"") + len(record.value or b"") + headers
