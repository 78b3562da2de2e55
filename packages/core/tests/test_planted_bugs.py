"""Random histories find bugs: each of `planted_bugs` is found within 2,000 seeds.

The short form plants some that few seeds find.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_forms import LONG

import planted_bugs
import simulate

pytestmark = pytest.mark.unmeasured

QUICK = {
    "numbers of split parts overlap": 60,
    "acknowledgement does not advance the numbers": 10,
    "records overtake the unassigned batch": 5,
    "callbacks of an aborted batch dropped": 10,
    "batches in flight never expire": 5,
    "memory of a failed batch kept": 10,
}
"""Bugs that the short form plants, and seeds of each kind that are enough to find them."""


def found(bug: str, kind: str, seeds: int) -> bool:
    """Whether a history of this kind fails with the bug, in another process."""
    path = os.pathsep.join([str(Path(simulate.__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [
            *(sys.executable, simulate.__file__, "--here", "--encoder", "python"),
            *("--plant", bug, "--kind", kind, "--seeds", str(seeds)),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=1_200,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == done.stdout.count(f"FAILED {kind}"), done.stdout + done.stderr
    return done.returncode == 1


@pytest.mark.timeout(4_000 if LONG else 300)
@pytest.mark.parametrize("bug", planted_bugs.BUGS if LONG else QUICK)
def test_histories_find_a_planted_bug(bug: str) -> None:
    kinds = planted_bugs.BUGS[bug].kinds

    assert any(found(bug, kind, 2_000 if LONG else QUICK[bug]) for kind in kinds)


@pytest.mark.parametrize("bug", planted_bugs.BUGS)
def test_the_text_that_a_bug_replaces_occurs_once(bug: str) -> None:
    planted = planted_bugs.BUGS[bug]
    spec = importlib.util.find_spec(f"ottla.{planted.module}")
    assert spec is not None
    assert spec.origin is not None

    changed = planted_bugs.planted(Path(spec.origin).read_text(), planted)

    compile(changed, spec.origin, "exec")
