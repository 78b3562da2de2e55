"""The tool that runs many histories: what makes it fast changes nothing in a history."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import attrs
import pytest

import histories
import seed_ranges
import simulate
from seed_ranges import SeedRange

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


def test_a_block_goes_on_after_a_history_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    bug, found = simulate.FOUND.read_text().splitlines()[1].split(": ")
    kind, seed = found.split()
    options = simulate.parsed(["--plant", bug, "--digests"])

    output = simulate._run_block(simulate._run, options, simulate.Block(kind, "python", int(seed), int(seed) + 3))

    failed, *others = [line.split()[:2] for line in output.splitlines() if line.startswith(("FAILED", f"{kind} "))]
    assert failed == ["FAILED", kind]
    assert [other_seed for _kind, other_seed in others][-1] == str(int(seed) + 2)


def test_a_block_that_was_run_extends_the_range_before_it(tmp_path: Path) -> None:
    record = tmp_path / "seeds.txt"
    record.write_text("# ranges\na1 1-10 plain tasks (python native)\n")
    next_ten = SeedRange("a1", 11, 20, ("plain", "tasks"), ("python", "native"))

    seed_ranges.add([next_ten, attrs.evolve(next_ten, first=21, last=25, kinds=("plain",))], record)
    seed_ranges.add([attrs.evolve(next_ten, plans="b2", first=21, last=30)], record)

    assert record.read_text().splitlines() == [
        "# ranges",
        "a1 1-20 plain tasks (python native)",
        "a1 21-25 plain (python native)",
        "b2 21-30 plain tasks (python native)",
    ]
    assert seed_ranges.counts(record) == {"plain": 30, "tasks": 30}


def test_kinds_that_failed_are_not_recorded() -> None:
    blocks = [
        (simulate.Block(kind, encoder, 1, 11), (kind, encoder) != ("tasks", "native"))
        for kind in ("plain", "tasks")
        for encoder in ("python", "native")
    ]

    assert simulate._without_findings("a1", blocks) == [SeedRange("a1", 1, 10, ("plain",), ("python", "native"))]
    assert simulate._without_findings("a1", blocks[2:]) == []
