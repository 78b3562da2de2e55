"""The ranges of seeds that have been run without a finding, as `simulated_seeds.txt` keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs

RECORD: Final = Path(__file__).with_name("simulated_seeds.txt")
_LINE: Final = re.compile(r"(?P<plans>\S+) (?P<first>\d+)-(?P<last>\d+) (?P<kinds>.+) \((?P<encoders>.+)\)")


@attrs.frozen
class SeedRange:
    """Consecutive seeds of some kinds of histories: from *first* to *last*, each with each encoder."""

    plans: str
    """A digest of the modules that plan and run histories."""
    first: int
    last: int
    kinds: tuple[str, ...]
    encoders: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> SeedRange:
        found = _LINE.fullmatch(line)
        assert found is not None, f"{RECORD.name} has a line that is no range: {line!r}"
        return cls(
            plans=found["plans"],
            first=int(found["first"]),
            last=int(found["last"]),
            kinds=tuple(found["kinds"].split()),
            encoders=tuple(found["encoders"].split()),
        )

    def __str__(self) -> str:
        return f"{self.plans} {self.first}-{self.last} {' '.join(self.kinds)} ({' '.join(self.encoders)})"

    def continues(self, other: SeedRange) -> bool:
        """Return whether this range begins where the other one ends, and has all else in common with it."""
        return self == attrs.evolve(other, first=other.last + 1, last=self.last)


def add(ranges: Iterable[SeedRange], record: Path = RECORD) -> None:
    """Add ranges to the record; one that continues an earlier one extends its line."""
    lines = record.read_text().splitlines()
    for added in ranges:
        for number, line in enumerate(lines):
            if not line.startswith("#") and added.continues(known := SeedRange.parse(line)):
                lines[number] = str(attrs.evolve(known, last=added.last))
                break
        else:
            lines.append(str(added))
    record.write_text("".join(f"{line}\n" for line in lines))


def counts(record: Path = RECORD) -> dict[str, int]:
    """The number of seeds of each kind in the record."""
    seeds: dict[str, set[int]] = {}
    for known in _ranges(record):
        for kind in known.kinds:
            seeds.setdefault(kind, set()).update(range(known.first, known.last + 1))
    return {kind: len(of_kind) for kind, of_kind in seeds.items()}


def _ranges(record: Path) -> Sequence[SeedRange]:
    return [SeedRange.parse(line) for line in record.read_text().splitlines() if not line.startswith("#")]
