"""The tool that runs many histories: what makes it fast changes nothing in a history."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import histories
import simulate

pytestmark = pytest.mark.unmeasured

SECONDS = 60
SEEDS = simulate.COLLECTED + 2
"""So many that the garbage of some histories is collected between others."""


def test_a_block_has_the_frames_of_single_histories() -> None:
    processor = simulate.Processors().all[0]
    done = subprocess.run(
        [
            *(sys.executable, simulate.__file__, "--here", "--digests", "--cpu", str(processor)),
            *("--kind", "transactional", "--encoder", "python", "--seeds", str(SEEDS)),
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(simulate.__file__).parent), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        timeout=3_000,
    )

    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert [line.split()[-1] for line in done.stdout.splitlines()] == [
        histories.run("transactional", seed) for seed in range(1, SEEDS + 1)
    ]


def test_blocks_that_run_at_once_have_different_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    processors = simulate.Processors()
    number = len(processors.all)
    together = Barrier(number)

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        together.wait(SECONDS)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(simulate, "_run", run)
    with ThreadPoolExecutor(number) as pool:
        first, second = (list(pool.map(processors.run, [["block"]] * number)) for _ in range(2))

    for done in first, second:
        assert sorted(int(block.args[-1]) for block in done) == processors.all
