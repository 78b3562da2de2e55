"""A history is a function of its seed: every byte and its time are the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_forms import LONG

import history_plans
import simulate

pytestmark = pytest.mark.unmeasured

SEEDS = 200 if LONG else 1


def digests(hash_seed: int) -> list[str]:
    """The digests of histories of every kind, in another process."""
    kinds = [part for kind in history_plans.KINDS for part in ("--kind", kind)]
    done = subprocess.run(
        [
            sys.executable,
            simulate.__file__,
            "--here",
            "--digests",
            "--seeds",
            str(SEEDS),
            "--encoder",
            "python",
            *kinds,
        ],
        env={
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": os.pathsep.join([str(Path(simulate.__file__).parent), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        timeout=3_000,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout.splitlines()


def test_every_frame_is_the_same_in_every_process() -> None:
    first, second = digests(1), digests(2)

    assert first == second
    assert len({line.split()[-1] for line in first}) == len(first) == SEEDS * len(history_plans.KINDS)
