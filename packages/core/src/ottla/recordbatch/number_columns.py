"""Numbers of a batch's records, one for each, stored compactly if many in a row are equal.

A program that sends as fast as it can creates hundreds of records in the same millisecond, and values often have one
size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat, starmap
from typing import Self, overload


class Constant(Sequence[int]):
    """One number, repeated for all records."""

    __slots__ = ("_count", "number")

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self._count = count

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Self | None:
        """A `Constant` if *numbers* is not empty and all of them are equal; else None."""
        alike = bool(numbers) and numbers.count(numbers[0]) == len(numbers)
        return cls(numbers[0], len(numbers)) if alike else None

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """The number, or a shorter sequence of it."""
        found = range(self._count)[index]
        return self.number if isinstance(found, int) else Constant(self.number, len(found))

    def __iter__(self) -> Iterator[int]:
        """Iterate over the repeated number."""
        return repeat(self.number, self._count)

    def __len__(self) -> int:
        """The number of repetitions."""
        return self._count


class Timestamps(Sequence[int]):
    """Timestamps of *count* records, in ms: distinct moments, each with the index of its first record."""

    __slots__ = ("_count", "_starts", "moments")

    def __init__(self, moments: Sequence[int], starts: Sequence[int], count: int) -> None:
        self.moments = moments
        self._starts = starts
        self._count = count

    @classmethod
    def of(cls, timestamps: Sequence[int]) -> Self:
        """Timestamps from a sequence with one for each record."""
        return cls(timestamps, range(len(timestamps)), len(timestamps))

    def runs(self) -> Iterator[tuple[int, int]]:
        """Each moment, with the number of consecutive records that have it."""
        return ((moment, stop - start) for moment, (start, stop) in zip(self.moments, self._bounds(), strict=True))

    def cut(self, indexes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Split ascending *indexes* by moment: yields each moment, with the start and stop of its part of *indexes*.

        Few indexes of many moments, such as those of one of thousands of partitions, take no more time for the others.
        """
        first, starts = 0, self._starts
        while first < len(indexes):
            place = bisect_right(starts, indexes[first])
            last = len(indexes) if place == len(starts) else bisect_left(indexes, starts[place], first)
            yield self.moments[place - 1], first, last
            first = last

    def _bounds(self) -> Iterator[tuple[int, int]]:
        return pairwise(chain(self._starts, (self._count,)))

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """The timestamp of one record, or of a slice."""
        found = range(self._count)[index]
        if isinstance(found, range):
            return [self[place] for place in found]
        return self.moments[bisect_right(self._starts, found) - 1]

    def __iter__(self) -> Iterator[int]:
        """All timestamps in order, faster than by index."""
        return chain.from_iterable(starmap(repeat, self.runs()))

    def __len__(self) -> int:
        """The number of records."""
        return self._count
