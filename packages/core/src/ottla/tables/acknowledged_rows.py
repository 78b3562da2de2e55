"""Rows whose batches are acknowledged, as columns of numbers: without an object for each batch.

A table with keys for thousands of partitions has a batch for each dozen rows, and a batch takes up to 3 kB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Final, Self

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.interfaces import Facts
from ottla.recordbatch.number_columns import Constant
from ottla.results import RecordMetadata
from ottla.tables.batch_rows import BatchRows

_SMALL_TYPES: Final = tuple(
    (code, kind, range(lowest, highest + 1))
    for code, kind, lowest, highest in (
        ("b", pa.int8(), -(2**7), 2**7 - 1),
        ("B", pa.uint8(), 0, 2**8 - 1),
        ("h", pa.int16(), -(2**15), 2**15 - 1),
        ("H", pa.uint16(), 0, 2**16 - 1),
        ("i", pa.int32(), -(2**31), 2**31 - 1),
    )
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AcknowledgedRows:
    """Rows of one chunk in the order of their batches: row `offset + rows[place]` is the record at *place*.

    The other columns of records are as long as `rows`; those of batches have an entry for each batch.
    """

    offset: int
    slowest: ProducerBatch | None
    """The batch that took longest, for its story."""
    _topics: Sequence[str]
    _partitions: Sequence[int]
    _base_offsets: Sequence[int]
    _append_times_ms: Sequence[int]
    _ends: Sequence[int]
    """The places behind the last record of each batch."""
    _rows: Sequence[int]
    _timestamps_ms: Sequence[int]
    _key_sizes: Sequence[int]
    _value_sizes: Sequence[int]

    @classmethod
    def of(cls, pieces: Sequence[BatchRows]) -> Self:
        """The rows of these batches of one chunk, all of them acknowledged and not split."""
        batches = [piece.batch for piece in pieces]
        outcomes = [_acknowledged(batch) for batch in batches]
        facts = [batch.columns.facts() for batch in batches]
        return cls(
            offset=pieces[0].offset,
            slowest=max(batches, key=_seconds),
            topics=[batch.topic for batch in batches],
            partitions=_smallest(array("q", [batch.partition for batch in batches])),
            base_offsets=_smallest(array("q", [outcome.base_offset for outcome in outcomes])),
            append_times_ms=_smallest(array("q", [outcome.log_append_time_ms for outcome in outcomes])),
            ends=_smallest(array("q", accumulate(len(piece.rows) for piece in pieces))),
            rows=_joined_rows([piece.rows for piece in pieces]),
            timestamps_ms=_joined([each.timestamps_ms for each in facts]),
            key_sizes=_joined([_key_sizes(each) for each in facts]),
            value_sizes=_joined([each.value_sizes for each in facts]),
        )

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def metadata(self, row: int) -> RecordMetadata | None:
        """A row's metadata, or None if it is not one of these rows."""
        try:
            place = self._rows.index(row - self.offset)
        except ValueError:
            return None
        number = bisect_right(self._ends, place)
        append_time_ms, base_offset = self._append_times_ms[number], self._base_offsets[number]
        start = self._ends[number - 1] if number else 0
        return RecordMetadata(
            topic=self._topics[number],
            partition=self._partitions[number],
            offset=base_offset + place - start if base_offset >= 0 else -1,
            timestamp_ms=self._timestamps_ms[place] if append_time_ms < 0 else append_time_ms,
            serialized_key_size=self._key_sizes[place],
            serialized_value_size=self._value_sizes[place],
        )

    def batches(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, base offset and number of rows of each batch."""
        counts = (end - start for start, end in pairwise(chain((0,), self._ends)))
        return zip(self._topics, self._partitions, self._base_offsets, counts, strict=True)

    def by_topic(self) -> dict[str, AcknowledgedRows]:
        """The rows of each topic, numbered from 0 batch by batch."""
        bounds: dict[str, list[tuple[int, range]]] = {}
        for number, (start, end) in enumerate(pairwise(chain((0,), self._ends))):
            bounds.setdefault(self._topics[number], []).append((number, range(start, end)))
        return {topic: self._some(found) for topic, found in bounds.items()}

    def _some(self, batches: Sequence[tuple[int, range]]) -> AcknowledgedRows:
        """The rows of some batches, each given by its number and the places of its records."""
        numbers = [number for number, _places in batches]

        def of_batches(column: Sequence[int]) -> Sequence[int]:
            return [column[number] for number in numbers]

        def of_records(column: Sequence[int]) -> Sequence[int]:
            return _joined([column[places.start : places.stop] for _number, places in batches])

        ends = list(accumulate(len(places) for _number, places in batches))
        topics = [self._topics[number] for number in numbers]
        return AcknowledgedRows(
            offset=0,
            slowest=self.slowest if self.slowest is not None and self.slowest.topic == topics[0] else None,
            topics=topics,
            partitions=of_batches(self._partitions),
            base_offsets=of_batches(self._base_offsets),
            append_times_ms=of_batches(self._append_times_ms),
            ends=ends,
            rows=range(ends[-1]),
            timestamps_ms=of_records(self._timestamps_ms),
            key_sizes=of_records(self._key_sizes),
            value_sizes=of_records(self._value_sizes),
        )


def _acknowledged(batch: ProducerBatch) -> Acknowledged:
    outcome = batch.outcome
    assert isinstance(outcome, Acknowledged), "others are kept as they are"
    return outcome


def _seconds(batch: ProducerBatch) -> float:
    """What `RecordStory.seconds` is for a completed batch, without making its story."""
    assert batch.completed_at is not None
    return batch.completed_at - batch.created_at + sum(batch.waited or (0.0, 0.0))


def _key_sizes(facts: Facts) -> Sequence[int]:
    return Constant(-1, len(facts.value_sizes)) if facts.key_sizes is None else facts.key_sizes


def _joined_rows(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """The rows of all batches; a range if they follow each other, as they do without keys."""
    ranges = [part for part in parts if isinstance(part, range) and part.step == 1]
    if len(ranges) == len(parts) and all(one.stop == next_one.start for one, next_one in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    return _joined(parts)


def _joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """All numbers in one sequence."""
    if all(isinstance(part, Constant) for part in parts):
        numbers = {part[0] for part in parts}
        if len(numbers) == 1:
            return Constant(numbers.pop(), sum(map(len, parts)))
    if all(isinstance(part, array) and part.typecode == "i" for part in parts):
        return _smallest(array("i", b"".join(parts)))  # type: ignore[arg-type]  # in a tenth of the time
    return _smallest(array("q", chain.from_iterable(parts)))


def _smallest(numbers: array[int]) -> Sequence[int]:
    """The same numbers in an array of the smallest type for them, or a `Constant` if all are equal."""
    kind = pa.int32() if numbers.typecode == "i" else pa.int64()
    column = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
    span: dict[str, Any] = pc.min_max(column).as_py()
    if span["min"] == span["max"]:
        return Constant(span["min"], len(numbers))
    for code, small, held in _SMALL_TYPES:
        if span["min"] in held and span["max"] in held:
            return array(code, column.cast(small).buffers()[1].to_pybytes())
    return numbers
