"""Random histories find bugs: each of `planted_bugs` at the seed of `planted_bugs_found.txt`, which is below 2,000.

A change of the core or of the histories may make them other ones: then `tox run -e simulate -- --find` finds the seeds
again. The short form plants every fifth bug.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from history_tables import ARROW
from long_forms import LONG

import planted_bugs
import simulate

pytestmark = pytest.mark.unmeasured

EACH_OF = 5
"""The short form plants one of so many bugs."""


def first_seeds() -> Mapping[str, tuple[str, int]]:
    """The kind and the seed of a history that finds each bug, for those that have been found."""
    lines = [line for line in simulate.FOUND.read_text().splitlines() if not line.startswith("#")]
    named = dict(line.rsplit(": ", 1) for line in lines)
    return {bug: (place.split()[0], int(place.split()[1])) for bug, place in named.items() if place != "not found"}


def finds(bug: str, kind: str, seed: int) -> bool:
    """Whether the history of this kind and seed fails with the bug, in another process."""
    path = os.pathsep.join([str(Path(simulate.__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [
            *(sys.executable, simulate.__file__, "--here", "--encoder", "python"),
            *("--plant", bug, "--kind", kind, "--from", str(seed), "--seeds", "1"),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == done.stdout.count(f"FAILED {kind} {seed} "), done.stdout + done.stderr
    return done.returncode == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("bug", list(first_seeds())[:: 1 if LONG else EACH_OF])
def test_a_history_finds_a_planted_bug_at_its_seed(bug: str) -> None:
    kind, seed = first_seeds()[bug]
    if kind == "tasks" and not ARROW:
        pytest.skip("without pyarrow, histories with tasks send no tables, and so are other ones")

    assert finds(bug, kind, seed), f"the history {kind} {seed} passes with the bug: run simulate.py --find again"


def test_at_least_forty_bugs_are_found_within_2000_seeds() -> None:
    found = first_seeds()

    assert len(found) >= 40
    assert found.keys() <= planted_bugs.BUGS.keys()
    assert all(seed <= simulate.ENOUGH for _kind, seed in found.values())


@pytest.mark.parametrize("bug", planted_bugs.BUGS)
def test_the_text_that_a_bug_replaces_occurs_once(bug: str) -> None:
    planted = planted_bugs.BUGS[bug]
    spec = importlib.util.find_spec(f"ottla.{planted.module}")
    assert spec is not None
    assert spec.origin is not None

    changed = planted_bugs.planted(Path(spec.origin).read_text(), planted)

    compile(changed, spec.origin, "exec")
