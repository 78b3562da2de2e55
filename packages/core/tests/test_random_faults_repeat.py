"""A simulated history is a function of its seed: in every process, whatever the order of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import random_faults

FIRST, LAST = 1, 6


def traces(kind: str, hash_seed: int) -> str:
    """The output of `random_faults.py` in a separate process."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    script = Path(random_faults.__file__)
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, str(script), kind, str(FIRST), str(LAST)],
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


@pytest.mark.parametrize("kind", ["patient", "transactions-2-expiring"])
def test_a_seed_gives_the_same_history_in_every_process(kind: str) -> None:
    first, second = traces(kind, 1), traces(kind, 2)

    assert first == second
    assert len(first.splitlines()) == LAST - FIRST + 1


def test_a_seed_gives_the_same_history_twice_in_one_process() -> None:
    once, again = ([random_faults.KINDS["expiring"](seed) for seed in (1, 2, 3)] for _ in range(2))

    assert once == again
    assert len(set(once)) == 3
