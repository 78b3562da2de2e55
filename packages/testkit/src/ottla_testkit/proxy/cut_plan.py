"""The number of bytes that a proxy has forwarded, and the byte at which it will cut its connections."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import attrs


class Direction(enum.Enum):
    """The direction of bytes."""

    OUT = "to the target"
    BACK = "to the client"


@attrs.frozen(kw_only=True)
class Cut:
    """Lose every connection, by a reset, after *count* more bytes in one direction: to the target, or back from it."""

    after: int
    from_target: bool = False


class CutPlan:
    """The next cut, those after it, and the number of forwarded bytes, which places them. Not thread-safe."""

    def __init__(self) -> None:
        self.forwarded = dict.fromkeys(Direction, 0)
        """Bytes forwarded so far."""
        self.made = 0
        """Number of cuts of `follow` that were made."""
        self._next: tuple[Direction, int] | None = None  # with the count of bytes in that direction
        self._by_reset = False
        self._later: Iterator[Cut] | None = None

    @property
    def due(self) -> bool:
        """Whether a cut is still to come."""
        return self._next is not None

    def cut_after(self, count: int, way: Direction, *, reset: bool) -> None:
        """Cut after this number of more bytes."""
        self._next = (way, self.forwarded[way] + count)
        self._by_reset = reset

    def follow(self, plan: Iterable[Cut]) -> None:
        """Make these cuts in turn."""
        self._later = iter(plan)
        self._turn_to_next()

    def allowed(self, way: Direction, *, at_most: int) -> int:
        """Return how many bytes may be forwarded in this direction now; 0 once the cut is reached."""
        if self._next is None or self._next[0] is not way:
            return at_most
        return min(at_most, self._next[1] - self.forwarded[way])

    def make(self) -> bool:
        """Remove the cut that is reached, begin with the next one, and return whether the removed one is a reset."""
        by_reset, self._next = self._by_reset, None
        if self._later is not None:
            self.made += 1
            self._turn_to_next()
        return by_reset

    def _turn_to_next(self) -> None:
        cut = next(self._later or iter(()), None)
        if cut is None:
            self._later = None
            return
        self.cut_after(cut.after, Direction.BACK if cut.from_target else Direction.OUT, reset=True)
