"""The result of a soak: its seconds, faults and totals, and which promises were broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

import attrs
from soak_client import CALLS, Second, Soak, Total
from soak_reader import Checked

MIB: Final = 1 << 20


def rss(second: Second) -> int:
    """Memory of the process in RAM."""
    return second.rss


def in_use(second: Second) -> int:
    """Memory that the process has allocated from C."""
    return second.used


MEMORY: Final[Mapping[str, Callable[[Second], int]]] = {"RSS": rss, "in use": in_use}


@attrs.frozen(kw_only=True)
class Fault:
    """A fault, from second to second of the soak."""

    name: str
    node: int
    start: float
    end: float


@attrs.frozen(kw_only=True)
class Result:
    """A whole soak."""

    soak: Soak
    seconds: Sequence[Second]
    faults: Sequence[Fault]
    total: Total
    checked: Checked

    @property
    def soaked(self) -> Sequence[Second]:
        """The seconds after those at full speed."""
        return [each for each in self.seconds if each.phase == "soak"]

    def memory_of_thirds(self, kind: Callable[[Second], int]) -> tuple[float, float, float]:
        """The median of a kind of memory in each third of the soak, in MiB."""
        soaked = self.soaked
        size = max(len(soaked) // 3, 1)
        first, second, third = (soaked[start * size : (start + 1) * size] or soaked for start in range(3))
        return mib(first, kind), mib(second, kind), mib(third, kind)


def problems(result: Result) -> Sequence[str]:
    """What broke a promise."""
    total, checked = result.total, result.checked
    counts = {
        "lost": checked.lost,
        "doubled or out of order": checked.repeated,
        "failed": total.failed,
        "without an outcome": total.unknown,
    }
    calls = [text for text in total.errors if text.startswith(CALLS)]
    return [*(f"{count} records {what}" for what, count in counts.items() if count), *calls]


def in_mib(kind: Callable[[Second], int]) -> Callable[[Second], float]:
    return lambda each: kind(each) / MIB


def mib(seconds: Sequence[Second], kind: Callable[[Second], int]) -> float:
    """The median of a kind of memory in these seconds, in MiB."""
    return median(map(in_mib(kind), seconds)) if seconds else 0.0
