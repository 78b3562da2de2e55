"""The test modules of this folder in which a choice of markers selects nothing.

pytest imports a module before `-m` deselects its tests. Three groups of `tox` choose among the same folder, so each
leaves out what it need not import. The source of a module says which markers its tests may have: `mark.spark`, or the
name of a cluster that tests disturb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from shared_clusters import SHARED
from spark_modules import starts_spark

_SOURCES: Final[Mapping[str, Sequence[str]]] = {"spark": ("mark.spark",), "disturbing": tuple(SHARED)}
"""Words in the source of each module with tests that have these markers, if not all its tests have them."""


def is_left_out(module: Path, markers: str) -> bool:
    """Return whether `-m` with these markers selects no test of the module. False if that is not certain."""
    if not module.match("test_*.py") or " or " in markers or "(" in markers:
        return False
    conditions = markers.split(" and ")
    if starts_spark(module):
        return "not spark" in conditions
    source = module.read_text("utf-8")
    return any(marker in conditions and not _has_any(words, source) for marker, words in _SOURCES.items())


def _has_any(words: Sequence[str], source: str) -> bool:
    return any(word in source for word in words)
