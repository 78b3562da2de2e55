"""The time that each test may take, its fixtures included. pytest-timeout prints all stacks and ends the run after it.

The limits are for hanging tests, and generous for machines under load. A test's own `timeout` marker and `--timeout` on
the command line take precedence; `--timeout 0` lifts all limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
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
