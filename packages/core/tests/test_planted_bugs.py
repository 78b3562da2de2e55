"""Random histories find bugs: each of `planted_bugs` is found within 2,000 seeds.

The short form plants some that few seeds find.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from long_forms import LONG

import planted_bugs
import simulate

pytestmark = pytest.mark.unmeasured

QUICK = 12
"""How many bugs the short form plants: those that the fewest seeds find."""


def first_seeds() -> Mapping[str, tuple[str, int]]:
    """The kind and the seed of the first history that finds each bug."""
    lines = [line for line in simulate.FOUND.read_text().splitlines() if not line.startswith("#")]
    named = dict(line.rsplit(": ", 1) for line in lines)
    return {bug: (found.split()[0], int(found.split()[1])) for bug, found in named.items()}


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
@pytest.mark.parametrize(
    "bug", planted_bugs.BUGS if LONG else sorted(first_seeds(), key=lambda bug: first_seeds()[bug][1])[:QUICK]
)
def test_histories_find_a_planted_bug(bug: str) -> None:
    if LONG:
        assert any(found(bug, kind, simulate.ENOUGH) for kind in planted_bugs.BUGS[bug].kinds)
    else:
        kind, seed = first_seeds()[bug]
        assert found(bug, kind, 5 * seed + 20)


def test_at_least_forty_bugs_were_planted_and_all_were_found() -> None:
    assert len(planted_bugs.BUGS) >= 40
    assert first_seeds().keys() == planted_bugs.BUGS.keys()
    assert all(seed <= simulate.ENOUGH for _kind, seed in first_seeds().values())


@pytest.mark.parametrize("bug", planted_bugs.BUGS)
def test_the_text_that_a_bug_replaces_occurs_once(bug: str) -> None:
    planted = planted_bugs.BUGS[bug]
    spec = importlib.util.find_spec(f"ottla.{planted.module}")
    assert spec is not None
    assert spec.origin is not None

    changed = planted_bugs.planted(Path(spec.origin).read_text(), planted)

    compile(changed, spec.origin, "exec")
