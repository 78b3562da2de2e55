"""Results that the documentation shows: each a file of what a benchmark found, with its command, its day, its machine.

The pages have a place for each table, between two comments:

    <!-- figures: memory -->
    <!-- end of figures -->

or for sentences with figures, in the text of an item of a list:

    <!-- in words: clients -->
    <!-- end of words -->
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
PAGES: Final = (ROOT / "docs" / "performance.md", ROOT / "README.md")
PLACE: Final = re.compile(
    r"(?P<begin><!-- figures: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end of figures -->)", re.DOTALL
)
SENTENCES: Final = re.compile(
    r"(?P<begin>(?P<indent> *)<!-- in words: (?P<name>[\w-]+) -->\n).*?(?P<end> *<!-- end of words -->)", re.DOTALL
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
    page: str, tables: Mapping[str, Callable[[Any], Lines]], words: Mapping[str, Callable[[Any], str]] | None = None
) -> str:
    """Return the text of a page with the kept results in their places, as tables and in *words*; others stay."""

    def table(place: re.Match[str]) -> str:
        if not (RESULTS / f"{place['name']}.json").exists():
            return place[0]
        found = Published.read(place["name"])
        lines = [*tables[place["name"]](found.figures), "", *wrap(found.source, PAGE_WIDTH, break_on_hyphens=False)]
        return place["begin"] + "\n" + "\n".join(lines) + "\n\n" + place["end"]

    def sentences(place: re.Match[str]) -> str:
        indent = place["indent"]
        text = (words or {})[place["name"]](Published.read(place["name"]).figures)
        lines = wrap(text, PAGE_WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        return place["begin"] + "\n".join(lines) + "\n" + place["end"]

    return SENTENCES.sub(sentences, PLACE.sub(table, page))


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
