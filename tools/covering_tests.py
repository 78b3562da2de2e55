"""Which tests execute each line: a plugin of pytest that records it with coverage, and the map that is read from it.

`coverage run -m pytest -p covering_tests ...` writes one context for each test, and the seconds of tests that passed to
the JSON file `OTTLA_COVERING_TIMES`. Threads of a test count as part of it; what happens while modules are imported has
no context.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import coverage
import pytest

_seconds: Final[dict[str, float]] = {}
_not_passed: Final[set[str]] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test, with its fixtures, in a context with its name; a test that traces by itself ends no measurement."""
    current, tracing = coverage.Coverage.current(), sys.gettrace()
    if current is None:
        return (yield)
    current.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if sys.gettrace() is not tracing:
            sys.settrace(tracing)
        current.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds of a test and its fixtures."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the seconds of the tests that passed."""
    if name := os.environ.get("OTTLA_COVERING_TIMES"):
        passed = {test: round(seconds, 4) for test, seconds in _seconds.items() if test not in _not_passed}
        Path(name).write_text(json.dumps(passed))


class CoveringTests:
    """The tests that execute the lines of each file, by their node ids."""

    def __init__(self, data_file: Path) -> None:
        self._data = coverage.CoverageData(str(data_file))
        self._data.read()
        self._files: dict[str, dict[int, set[str]]] = {}

    def of_lines(self, path: Path, first: int, last: int) -> set[str]:
        """The tests that execute one of these lines."""
        lines = self._of_file(path)
        return {test for line in range(first, last + 1) for test in lines.get(line, ())}

    def of_file(self, path: Path) -> set[str]:
        """The tests that execute a line of a file, other than by importing it."""
        return {test for tests in self._of_file(path).values() for test in tests}

    def sizes(self, paths: Iterable[Path]) -> Counter[str]:
        """How many lines of these files each test executes."""
        return Counter(test for path in paths for tests in self._of_file(path).values() for test in tests)

    def _of_file(self, path: Path) -> dict[int, set[str]]:
        found = self._files.get(str(path))
        if found is None:
            contexts = self._data.contexts_by_lineno(str(path))
            found = self._files[str(path)] = {line: {*tests} - {""} for line, tests in contexts.items()}
        return found
