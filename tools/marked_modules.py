"""The test modules in which a choice of the markers `unmeasured` and `thorough` selects nothing: pytest does without.

pytest imports a module before `-m` deselects its tests. Groups of `tox` choose among the same folders by these markers,
and importing all modules takes each group as long as a thousand tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

MARKERS: Final[Mapping[str, Sequence[str]]] = {
    "unmeasured": ("mark.unmeasured",),
    "thorough": ("mark.thorough", "share(", "broker: KafkaCluster", "clusters: TwoClusters", "old_kafka"),
}
"""By marker: words of which a module has one if any test of it has the marker. Fixtures give it, too."""
_WHOLE_MODULE: Final = r"^pytestmark = (?:pytest\.mark\.{marker}\b|\[[^\]]*?pytest\.mark\.{marker}\b)"
"""The marker of a whole module, alone or in a list."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules in which the chosen markers select nothing."""
    return True if is_left_out(collection_path, config.getoption("markexpr")) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Raise UsageError for a test that has a marker, and whose module would be left out where it is chosen."""
    for marker in MARKERS:
        if item.get_closest_marker(marker) and is_left_out(item.path, marker):
            words = " or ".join(map(repr, MARKERS[marker]))
            raise pytest.UsageError(f"{item.nodeid} would never run: the source of its module must show {words}")


def is_left_out(module: Path, markers: str) -> bool:
    """Return whether `-m` with these markers selects no test of the module. False if that is not certain."""
    if not module.match("test_*.py") or " or " in markers or "(" in markers:
        return False
    return any(_conflicts(module.read_text("utf-8"), markers.split(" and ")))


def _conflicts(source: str, conditions: list[str]) -> Iterator[bool]:
    for marker, words in MARKERS.items():
        if marker in conditions:
            yield not any(word in source for word in words)
        elif f"not {marker}" in conditions:
            yield re.search(_WHOLE_MODULE.format(marker=marker), source, re.MULTILINE) is not None
