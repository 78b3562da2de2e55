"""How long each test module takes: recorded while pytest runs, and printed as a table.

With `OTTLA_TEST_TIMES=FOLDER` in its environment, a run of pytest writes a file to the folder when it ends, in place of
that of an earlier run with the same arguments. Then:

python tools/module_times.py FOLDER           prints the slowest modules
python tools/module_times.py FOLDER --page    writes them into CONTRIBUTING.md
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import psutil
import pytest

FOLDER: Final = "OTTLA_TEST_TIMES"
PAGE: Final = Path(__file__).parent.parent / "CONTRIBUTING.md"
BEGIN: Final = "<!-- times of test modules: written by `python tools/module_times.py build/test-times --page` -->\n"
END: Final = "<!-- end of the times -->\n"
SLOWEST: Final = 25


@attrs.define
class Times:
    """Of one module: its tests, the seconds that they took, and processor seconds of all processes meanwhile.

    What several modules share, such as a session's broker, is in the times of its first user.
    """

    tests: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    def __add__(self, other: Times) -> Times:
        return Times(
            self.tests + other.tests,
            self.seconds + other.seconds,
            self.processor_seconds + other.processor_seconds,
        )


class Recorder:
    """A pytest plugin that notes a module's times when the tests of another one begin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times: dict[str, Times] = {}
        self._module = ""
        self._begin = (time.monotonic(), processor_seconds())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Count the test; the first one of a module begins its time."""
        module = nodeid.partition("::")[0]
        if module != self._module:
            self._end_module()
            self._module = module
        self._times.setdefault(module, Times()).tests += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._end_module()
        self._folder.mkdir(parents=True, exist_ok=True)
        content = {module: attrs.asdict(times) for module, times in self._times.items()}
        (self._folder / f"{_hash(sys.argv[1:])}.json").write_text(json.dumps(content, indent=1), "utf-8")

    def _end_module(self) -> None:
        now = (time.monotonic(), processor_seconds())
        if self._module:
            wall, processor = (after - before for after, before in zip(now, self._begin, strict=True))
            self._times[self._module] += Times(seconds=wall, processor_seconds=max(processor, 0.0))
        self._begin = now


def _hash(arguments: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:12]


def processor_seconds() -> float:
    """Return what this process and its descendants have used, as far as they live or were waited for."""
    used = 0.0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            used += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return used


def pytest_configure(config: pytest.Config) -> None:
    """Record the times if the environment names a folder for them."""
    if folder := os.environ.get(FOLDER):
        config.pluginmanager.register(Recorder(Path(folder)), "module-times")


def read(folder: Path) -> dict[str, Times]:
    """The times of all runs in the folder, added up by module."""
    total: dict[str, Times] = {}
    for file in folder.glob("*.json"):
        for module, values in json.loads(file.read_text("utf-8")).items():
            total[module] = total.get(module, Times()) + Times(**values)
    return total


def table(times: Mapping[str, Times]) -> Iterator[str]:
    """Yield the lines of a Markdown table: the slowest modules, all others, and the sum."""
    order = sorted(times.items(), key=lambda each: each[1].seconds, reverse=True)
    yield "| module | tests | seconds | processor seconds |"
    yield "|---|---:|---:|---:|"
    for module, each in order[:SLOWEST]:
        yield _row(f"`{module}`", each)
    rest = order[SLOWEST:]
    if rest:
        yield _row(f"{len(rest)} others", sum((each for _, each in rest), Times()))
    yield _row("all", sum(times.values(), Times()))


def _row(name: str, times: Times) -> str:
    return f"| {name} | {times.tests:,} | {times.seconds:,.0f} | {times.processor_seconds:,.0f} |"


def write_page(page: Path, lines: Sequence[str]) -> None:
    """Replace the table of the page. Raises ValueError if the page has no place for it."""
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no line {BEGIN.strip()!r} with {END.strip()!r} behind it")
    page.write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}{after}", "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print the table or write it into the page; 1 if there are no times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    times = read(options.folder)
    if not times:
        print(f"{options.folder} has no times; run pytest with {FOLDER}={options.folder}", file=sys.stderr)
        return 1
    lines = list(table(times))
    if options.page:
        write_page(PAGE, lines)
    else:
        print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
