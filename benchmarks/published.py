"""Results that the documentation shows: each a file of what a benchmark found, with its command, its day, its machine.

The pages have a place for each table, between two comments:

    <!-- figures: memory -->
    <!-- end of figures -->
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, Self

import attrs

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "published"
PAGES: Final = (ROOT / "docs" / "performance.md", ROOT / "docs" / "performance-limits.md", ROOT / "README.md")
PLACE: Final = re.compile(
    r"(?P<begin><!-- figures: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end of figures -->)", re.DOTALL
)
PAGE_WIDTH: Final = 120
PACKAGES: Final = ("ottla", "ottla-accel", "confluent-kafka", "aiokafka", "uvloop")

Lines = Sequence[str]
"""A table in Markdown."""


@attrs.frozen(kw_only=True)
class Published:
    """What a benchmark found; `figures` is the content of its `--json` file."""

    command: Sequence[str]
    day: str
    python: str
    machine: str
    processors: int
    versions: Mapping[str, str]
    figures: Any

    @classmethod
    def now(cls, command: Sequence[str], figures: Any) -> Self:
        """What was measured here today; with this Python, unless the figures name others."""
        others = figures.get("pythons") if isinstance(figures, Mapping) else None
        return cls(
            command=command,
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            python=" and ".join(f"{python} {name} the GIL" for name, python in others.items())
            if others
            else f"{platform.python_implementation()} {platform.python_version()}",
            machine=f"{platform.system()} on {_processor()}",
            processors=len(os.sched_getaffinity(0)),
            versions={} if others else dict(_versions()),
            figures=figures,
        )

    @classmethod
    def read(cls, name: str) -> Self:
        """Read the result of this name."""
        return cls(**json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))

    def write(self, name: str) -> None:
        """Keep it under this name in place of an earlier one."""
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(attrs.asdict(self), indent=1) + "\n"
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")

    @property
    def source(self) -> str:
        """A line about where the figures come from."""
        versions = ", ".join(f"{name} {found}" for name, found in self.versions.items() if not name.startswith("ottla"))
        return (
            f"*`python benchmarks/{' '.join(self.command)}`, {self.day}: {self.python}, {self.processors} processors, "
            f"{self.machine}{versions and f'; {versions}'}.*"
        )


def rendered(
    page: str,
    tables: Mapping[str, Callable[[Any], Lines]],
    summaries: Mapping[str, Callable[[Callable[[str], Any]], Lines]] | None = None,
) -> str:
    """Return the text of a page with the kept results in their places; the places of other results stay as they are.

    Tables are made from the figures of one result and have its source below; summaries take a function that returns
    the figures of any result.
    """

    def figures(name: str) -> Any:
        return Published.read(name).figures

    def lines(name: str) -> Lines:
        found = Published.read(name)
        return [*tables[name](found.figures), "", *wrap(found.source, PAGE_WIDTH, break_on_hyphens=False)]

    def filled(place: re.Match[str]) -> str:
        if summary := (summaries or {}).get(place["name"]):
            text = summary(figures)
        elif (RESULTS / f"{place['name']}.json").exists():
            text = lines(place["name"])
        else:
            return place[0]
        return place["begin"] + "\n" + "\n".join(text) + "\n\n" + place["end"]

    return PLACE.sub(filled, page)


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _processor() -> str:
    """The name of the processor, or of its architecture where the system has no name for it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()
