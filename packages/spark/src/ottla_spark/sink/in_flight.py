"""Tables that a task has sent, and their results.

Results are read as they complete, so that a task keeps no state of acknowledged rows, however many it sends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TypeAlias

import attrs

from ottla import DeliveryError, TableDelivery, TableResult
from ottla_spark.errors import WriteError

Names: TypeAlias = Callable[[int], str]
"""The name of a row of a delivery, for messages."""

Refuse: TypeAlias = Callable[[int, DeliveryError], bool]
"""Takes a row that failed, and its error; returns False if it fails the task."""


class InFlightTables:
    """The deliveries of one task. Raises WriteError as soon as one of its rows is known to have failed."""

    def __init__(self, *, task: str) -> None:
        self._task = task
        self._sent: deque[_Sent] = deque()
        self.records = 0
        """Number of acknowledged records."""
        self.partitions: Counter[tuple[str, int]] = Counter()
        """Acknowledged records by topic and partition."""
        self.first_offsets: dict[tuple[str, int], int] = {}
        """The lowest offset of each partition, -1 where a broker returned none."""
        self.first_at: float | None = None
        """When the first rows had been sent, by `perf_counter`."""

    def put(self, delivery: TableDelivery, names: Names, *, refuse: Refuse | None = None) -> None:
        """Add a delivery of rows. *refuse* gets each row that failed; without it, any of them fails the task."""
        if self.first_at is None:
            self.first_at = perf_counter()
        self._sent.append(_Sent(delivery=delivery, names=names, refuse=refuse))

    def check_completed(self) -> None:
        """Take the results of completed deliveries; never blocks."""
        failed = _Failures()
        while self._sent and self._sent[0].delivery.done():
            self._take_outcome(self._sent.popleft(), failed)
        self._raise(failed)

    def wait(self) -> None:
        """Wait for the results of all deliveries."""
        failed = _Failures()
        for sent in self._sent:
            self._take_outcome(sent, failed)
        self._sent.clear()
        self._raise(failed)

    def _take_outcome(self, sent: _Sent, failed: _Failures) -> None:
        error = sent.delivery.exception()
        if error is None:
            self._count(sent, sent.delivery.result())
        elif sent.refuse is not None and all(
            sent.refuse(row, failure) for row, failure in sent.delivery.failed_rows().items()
        ):
            self._count(sent, error.result)
        else:
            failed.add(sent)

    def _count(self, sent: _Sent, result: TableResult) -> None:
        self.records += result.acknowledged
        for partition, found in result.partitions.items():
            place = (sent.delivery.topic, partition)
            self.partitions[place] += found.rows
            self.first_offsets[place] = min(found.first_offset, self.first_offsets.get(place, found.first_offset))

    def _raise(self, failed: _Failures) -> None:
        if failed.first is not None:
            raise WriteError(f"{self._task}: {failed}") from failed.first


@attrs.frozen(kw_only=True)
class _Sent:
    delivery: TableDelivery
    names: Names
    refuse: Refuse | None


class _Failures:
    """Rows that failed after they were queued, for an error message."""

    def __init__(self) -> None:
        self.first: DeliveryError | None = None
        self._name = ""
        self._rows = 0
        self._counts: Counter[str] = Counter()
        self._doubtful: Counter[str] = Counter()

    def add(self, sent: _Sent) -> None:
        topic = sent.delivery.topic
        self._rows += sent.delivery.rows
        failed = sent.delivery.failed_rows()
        if self.first is None:
            row, self.first = _first_named(failed)
            self._name = sent.names(row)
        for error in failed.values():
            self._counts[topic] += 1
            self._doubtful[topic] += error.possibly_persisted

    def __str__(self) -> str:
        assert self.first is not None
        counts = ", ".join(
            f"{count} for topic {topic!r} ({self._doubtful[topic]} of them possibly in Kafka)"
            for topic, count in self._counts.items()
        )
        return (
            f"of {self._rows} records these failed: {counts}; the first, {self._name}: "
            f"topic {self.first.topic!r}, partition {self.first.partition}: {self.first}"
        )


def _first_named(failed: Mapping[int, DeliveryError]) -> tuple[int, DeliveryError]:
    """The first row that failed, or that the broker refused in its batch: the others of the batch share an error."""
    [(first, shared), *others] = failed.items()
    rows = Counter(map(id, failed.values()))
    if rows[id(shared)] == 1:
        return first, shared
    named = (each for each in others if rows[id(each[1])] == 1 and each[1].__cause__ is shared.__cause__)
    return next(named, (first, shared))
