"""The test modules in which `-m unmeasured` or `-m "not unmeasured"` selects nothing, which pytest need not import.

pytest imports a module before `-m` deselects its tests. Two groups of `tox` choose among the same folders by this
marker, and importing all modules takes each of them as long as a thousand tests.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

MARKER: Final = "unmeasured"
_WORD: Final = f"mark.{MARKER}"
_WHOLE_MODULE: Final = re.compile(rf"^pytestmark = (?:\[[^\]]*)?pytest\.{re.escape(_WORD)}\b", re.MULTILINE)
"""The marker of a whole module, alone or in a list."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules in which the chosen markers select nothing."""
    return True if is_left_out(collection_path, config.getoption("markexpr")) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Raise UsageError for a test that has the marker, and whose module would be left out where it is chosen."""
    if item.get_closest_marker(MARKER) and is_left_out(item.path, MARKER):
        raise pytest.UsageError(f"{item.nodeid} would never run: the source of its module must show {_WORD!r}")


def is_left_out(module: Path, markers: str) -> bool:
    """Return whether `-m` with these markers selects no test of the module. False if that is not certain."""
    if not module.match("test_*.py") or " or " in markers or "(" in markers:
        return False
    conditions = markers.split(" and ")
    if MARKER in conditions:
        return _WORD not in module.read_text("utf-8")
    return f"not {MARKER}" in conditions and _WHOLE_MODULE.search(module.read_text("utf-8")) is not None
