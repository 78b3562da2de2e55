"""Random numbers of the simulation: equal for equal seeds in every version of Python.

The standard generator guarantees that only for `random()`: the algorithms of `choice` and `sample` may change.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1


class Chance:
    """SplitMix64 with the methods of `random.Random` that the core and the simulation use."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK
        self._bits()  # similar seeds start with different numbers

    def fork(self) -> Chance:
        """Return another generator; its use does not change the numbers of this one."""
        return Chance(self._bits())

    def random(self) -> float:
        """Return a number from 0 up to, but without, 1."""
        return (self._bits() >> 11) / (1 << 53)

    def happens(self, probability: float) -> bool:
        """Return True with this probability; 0 uses no random number."""
        return probability > 0 and (self._bits() >> 11) / (1 << 53) < probability

    def uniform(self, low: float, high: float) -> float:
        """Return a number between two others."""
        return low + (high - low) * self.random()

    def randrange(self, stop: int) -> int:
        """Return an integer from 0 up to, but without, *stop*."""
        return self._bits() % stop

    def randint(self, low: int, high: int) -> int:
        """Return an integer between two others, both included."""
        return low + self.randrange(high - low + 1)

    def choice(self, population: Sequence[T]) -> T:
        """Return one of these items."""
        return population[self._bits() % len(population)]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle items in place."""
        for place in range(len(items) - 1, 0, -1):
            other = self.randrange(place + 1)
            items[place], items[other] = items[other], items[place]

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Return *k* different ones of these items, in any order."""
        items = list(population)
        self.shuffle(items)
        return items[:k]

    def _bits(self) -> int:
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
