"""Counts of a run of `ottla send`, from the deliveries of its blocks; nothing grows with the number of records.

An interrupt at any moment leaves no block out and counts none twice: each change is one step, an attribute's or a
queue's.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from ottla.cli.send.inputs import Block
from ottla.errors import DeliveryError, TableDeliveryError, printable
from ottla.tables.table_delivery import TableDelivery

_NAMED: Final = 5
"""Failed records that are named, one for each error; the others are counted."""


@attrs.frozen(kw_only=True)
class _Counted:
    """A block, and the rows of it that were taken so far."""

    number: int
    delivery: TableDelivery
    name: str
    block: Block

    @property
    def size(self) -> int:
        return self.block.size * self.delivery.rows // self.block.count

    def failed(self, row: int, why: Exception) -> str:
        return f"record {self.block.first + row} of {printable(self.name)}: {why}"

    @property
    def last(self) -> str:
        return f"{printable(self.name)} was read up to record {self.block.first + self.delivery.rows - 1}"


@attrs.frozen(kw_only=True)
class Totals:
    """The counts of the blocks up to the one with the number *through*, whose outcomes are known."""

    through: int = -1
    read: int = 0
    size: int = 0
    acknowledged: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()
    position: str = "nothing was read"


@attrs.define(kw_only=True)
class Counts:
    """Records that were read, acknowledged and failed; `failures` names the first failed ones."""

    _totals: Totals = attrs.Factory(Totals)
    _pending: deque[_Counted] = attrs.Factory(deque)
    _numbers: Iterator[int] = attrs.Factory(itertools.count)
    _started_at: float = attrs.Factory(time.monotonic)

    @property
    def read(self) -> int:
        """Records that were taken from the inputs."""
        return self._totals.read + sum(each.delivery.rows for each in self._rest())

    @property
    def size(self) -> int:
        """The bytes of these records in the inputs."""
        return self._totals.size + sum(each.size for each in self._rest())

    @property
    def acknowledged(self) -> int:
        """Records that the brokers have acknowledged."""
        return self._totals.acknowledged

    @property
    def failed(self) -> int:
        """Records that have failed."""
        return self._totals.failed

    @property
    def failures(self) -> tuple[str, ...]:
        """The first failed records, with their errors."""
        return self._totals.failures

    @property
    def in_flight(self) -> int:
        """Records that have no outcome yet."""
        return self.read - self.acknowledged - self.failed

    @property
    def position(self) -> str:
        """How far the inputs were read, as a sentence."""
        return next((each.last for each in reversed(self._rest()) if each.delivery.rows), self._totals.position)

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self._started_at

    def add(self, delivery: TableDelivery, name: str, block: Block) -> None:
        """Count the rows of a block of the input *name*, which *delivery* gets after this call."""
        self.count_done()
        self._pending.append(_Counted(number=next(self._numbers), delivery=delivery, name=name, block=block))

    def count_done(self) -> None:
        """Count the outcomes of the blocks that are done, in order."""
        while (first := self._first()) is not None and first.delivery.done():
            self._count(first)

    def wait(self) -> None:
        """Wait for all blocks, and count them."""
        while (first := self._first()) is not None:
            self._count(first)

    def failure(self, cause: BaseException | None) -> str | None:
        """The record that failed with this error, as `failures` name it; None if no record did. Never blocks."""
        text = str(cause)
        for each in self._rest():
            failed = each.delivery.failed_rows()
            found = next((row for row, why in failed.items() if str(why) == text), None)
            if found is not None:
                # The error may be that of a whole batch, in which the broker has refused one record.
                refused = (row for row, why in _own_first(failed) if why.__cause__ is failed[found].__cause__)
                row = next(refused, found)
                return each.failed(row, failed[row])
        counted = any(named.endswith(f": {text}") for named in self.failures)
        return self.failures[0] if counted else None

    def mark(self) -> Totals:
        """Wait for all blocks, and return what `roll_back` takes."""
        self.wait()
        return self._totals

    def roll_back(self, mark: Totals) -> None:
        """Forget the blocks after the mark: their transaction was aborted."""
        self._pending.clear()
        self._totals = attrs.evolve(mark, position=self.position)

    def _rest(self) -> list[_Counted]:
        through = self._totals.through
        return [each for each in list(self._pending) if each.number > through]

    def _first(self) -> _Counted | None:
        while self._pending and self._pending[0].number <= self._totals.through:
            self._pending.popleft()
        return self._pending[0] if self._pending else None

    def _count(self, counted: _Counted) -> None:
        totals, delivery = self._totals, counted.delivery
        error: TableDeliveryError | None = delivery.exception()
        result = delivery.result() if error is None else error.result
        named: tuple[str, ...] = ()
        if error is not None and len(totals.failures) < _NAMED:
            failed = itertools.islice(_each_error_once(delivery.failed_rows()), _NAMED - len(totals.failures))
            named = tuple(counted.failed(row, why) for row, why in failed)
        self._totals = Totals(
            through=counted.number,
            read=totals.read + delivery.rows,
            size=totals.size + counted.size,
            acknowledged=totals.acknowledged + result.acknowledged,
            failed=totals.failed + result.failed,
            failures=totals.failures + named,
            position=counted.last if delivery.rows else totals.position,
        )


def _own_first(failed: Mapping[int, DeliveryError]) -> list[tuple[int, DeliveryError]]:
    """The failed rows, those first that have an error of their own: the others failed with a batch because of these."""
    shared = Counter(map(id, failed.values()))
    return sorted(failed.items(), key=lambda item: shared[id(item[1])] > 1)


def _each_error_once(failed: Mapping[int, DeliveryError]) -> Iterator[tuple[int, DeliveryError]]:
    """The failed rows, without those that share the error of an earlier one: it says how many rows it is about."""
    seen: set[int] = set()
    for row, why in _own_first(failed):
        if id(why) not in seen:
            seen.add(id(why))
            yield row, why
