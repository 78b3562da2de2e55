"""The folders that `tox` searches for tests with brokers and with Spark. Collecting all tests takes far longer.

A test elsewhere would never run, so its collection is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final[Mapping[str, Sequence[str]]] = {
    "spark": ("packages/spark", "tests"),
    "kafka": ("packages/testkit", "examples", "tests"),
}
"""By marker. A test with both is run with those of the first."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Raise UsageError for a test that `tox` would not find."""
    marker = next(filter(item.get_closest_marker, FOLDERS), None)
    if marker is None or not item.path.is_relative_to(ROOT):
        return
    if not any(item.path.is_relative_to(ROOT / folder) for folder in FOLDERS[marker]):
        raise pytest.UsageError(f"{item.nodeid} has the marker {marker!r}; move it to {' or '.join(FOLDERS[marker])}")
