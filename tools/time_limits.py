"""The time that each test may take, its fixtures included. pytest-timeout prints all stacks and ends the run after it.

The limits are for hanging tests, and generous for machines under load. A test's own `timeout` marker and `--timeout` on
the command line take precedence; `--timeout 0` lifts all limits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from time import monotonic  # as it is without a test's clock
from typing import Any, Final

import attrs
import pytest
import pytest_timeout  # type: ignore[import-untyped]
from long_forms import LONG

SECONDS: Final = 300
SECONDS_WITH_PROCESSES: Final = 900
"""Limit for tests that start brokers, Spark or other programs."""

SECONDS_OF_A_SUITE: Final = 120.0
"""`time_limit` of the conformance suites of this tree, which counts wall time: elsewhere it is 30 s."""

SOAK_FACTOR: Final = 10
STARTING: Final = ("kafka", "spark", "slow")
"""Markers of such tests; tests outside of the packages count as such, too."""


def seconds(item: pytest.Item, *, long: bool) -> int:
    """Return the limit of a test without a marker of its own; *long* for the longer runs with OTTLA_SOAK."""
    starts = any(item.get_closest_marker(name) for name in STARTING) or "packages" not in item.path.parts
    return (SECONDS_WITH_PROCESSES if starts else SECONDS) * (SOAK_FACTOR if long else 1)


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Give each test and each conformance suite its limit."""
    for suite in {item.cls for item in items if isinstance(item, pytest.Function)}:
        if hasattr(suite, "time_limit"):
            suite.time_limit = max(suite.time_limit, SECONDS_OF_A_SUITE)
    if config.getoption("timeout") is not None:
        return
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(seconds(item, long=LONG)))


@attrs.define
class Watchdog:
    """One thread that ends the run at the limit of the current test.

    pytest-timeout itself starts and joins a thread for each test, which takes a third of a short test's time.
    """

    _changed: threading.Condition = attrs.field(factory=threading.Condition)
    _current: tuple[float, Callable[[], object]] | None = None
    _wakes_at: float = math.inf
    _thread: threading.Thread | None = None

    def start(self, seconds: float, end: Callable[[], object]) -> None:
        """Call *end* in so many seconds, unless `stop` is called before."""
        with self._changed:
            self._current = (monotonic() + seconds, end)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="time limits", daemon=True)
                self._thread.start()
            elif self._current[0] < self._wakes_at:
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._current = None

    def _run(self) -> None:
        while True:
            with self._changed:
                # A later test has a later limit, mostly: the thread sleeps until the limit that it knows.
                self._wakes_at = math.inf if self._current is None else self._current[0]
                self._changed.wait(None if self._current is None else max(0.0, self._wakes_at - monotonic()))
                if self._current is None or self._current[0] > monotonic():
                    continue
                _, end = self._current
            end()  # it ends the process


_WATCHDOG: Final = Watchdog()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Limit a test's time by the watchdog, where pytest-timeout would start a thread."""
    if settings.method != "thread":
        return None
    _WATCHDOG.start(settings.timeout, lambda: pytest_timeout.timeout_timer(item, settings))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> None:
    """Stop the watchdog; pytest-timeout stops what it has started itself."""
    _WATCHDOG.stop()
