"""Run simulated histories: `tox run -e simulate -- --seeds 1000 --from 1`, on all processors.

The error of a history has its story, and `--kind KIND --from SEED --seeds 1` runs it again. `--plant BUG` runs
with a bug of `planted_bugs`. The ranges that have been run are in `simulated_seeds.txt`; `--record` adds each block
that was run, without the kinds that failed, and `--count` prints how many seeds there are of each kind.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

import attrs

import planted_bugs
import seed_ranges

FOUND: Final = Path(__file__).with_name("planted_bugs_found.txt")
TOOLS: Final = Path(__file__).parents[3] / "tools"
BLOCK: Final = 1_000
"""Seeds that one process runs: its start takes as long as 50 histories."""
COLLECTED: Final = 10
"""Histories between two runs of the garbage collector, which takes a twentieth of the time if it runs after each."""
ENOUGH: Final = 2_000
"""Seeds of a kind that have to find a planted bug."""
FAILURES: Final = 10
"""Histories of a block that may fail before the rest of it is not run."""

Runner: TypeAlias = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each kind")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--kind", action="append", help="run only this kind; may be repeated")
    parser.add_argument("--encoder", action="append", choices=["python", "native"], help="by default all installed")
    parser.add_argument("--plant", choices=sorted(planted_bugs.BUGS), metavar="BUG", help="a bug to plant")
    parser.add_argument("--find", action="store_true", help=f"find all planted bugs, and write {FOUND.name}")
    parser.add_argument("--shrink", action="store_true", help="shrink the first history, and print its story")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help=f"add what was run to {seed_ranges.RECORD.name}")
    parser.add_argument("--count", action="store_true", help="print how many seeds of each kind have been run")
    parser.add_argument("--digests", action="store_true", help="print the digest of each history")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one block, in this process
    parser.add_argument("--cpu", type=int, help=argparse.SUPPRESS)  # the processor of the block
    return parser.parse_args(arguments)


def history(kind: str) -> Callable[[int, str], str]:
    """The function that runs one history of this kind, by seed and encoder."""
    import histories
    import history_plans

    if kind in history_plans.KINDS:
        return lambda seed, encoder: histories.run(kind, seed, encoder=encoder)
    sys.path.append(str(TOOLS))
    import random_faults

    return lambda seed, _encoder: random_faults.KINDS[kind](seed)


def run_here(options: argparse.Namespace) -> int:
    """Run the histories one after the other, until one fails; return the exit status."""
    if options.plant:
        planted_bugs.install(options.plant)
    if options.shrink:
        return shrink(options)
    if options.cpu is not None:
        _stay_on(options.cpu)
    for kind in options.kind:
        run = history(kind)
        for encoder in options.encoder:
            for seed in range(options.first, options.first + options.seeds):
                _collect_garbage(seed - options.first)
                try:
                    digest = run(seed, encoder)
                except Exception as error:
                    print(f"FAILED {kind} {seed} {encoder}: {type(error).__name__}: {error}", flush=True)
                    os._exit(1)  # its threads wait forever
                if options.digests:
                    print(kind, seed, encoder, digest, flush=True)
    return 0


def _stay_on(processor: int) -> None:
    """Run all threads of this process on one processor.

    Only one of them runs at a time, and to resume one on another processor takes longer than what it does there: with
    this, a history takes three quarters of the time. SCHED_BATCH, as a thread that was resumed would otherwise take the
    processor before the other one waits.
    """
    if sys.platform == "linux":
        os.sched_setaffinity(0, [processor])
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _collect_garbage(histories: int) -> None:
    """Collect the garbage of some histories at once; what was there after the first one is kept, and not searched."""
    if sys.implementation.name == "pypy":
        return  # its collector has no `freeze`, and searches new objects only
    if histories == 1:
        gc.disable()
        gc.collect()
        gc.freeze()
    elif histories and histories % COLLECTED == 0:
        gc.collect()


def shrink(options: argparse.Namespace) -> int:
    """Shrink the history of the first seed, and run what is left of it; return 1 if it fails."""
    import shrinking

    import histories
    import history_plans

    [kind], [encoder] = options.kind, options.encoder
    plan = shrinking.shrunk(history_plans.plan(kind, options.first), encoder=encoder)
    print(f"shrunk to {plan.events} events")
    try:
        histories.run(kind, options.first, encoder=encoder, planned=plan)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        for number, calls in enumerate(plan.programs):
            print(f"program {number}:", *calls, sep="\n  ", flush=True)
        os._exit(1)
    return 0


def run_blocks(options: argparse.Namespace) -> int:
    """Run the histories in several processes; return 1 if one failed."""
    import history_plans

    kinds = options.kind or list(history_plans.KINDS)
    encoders = options.encoder or ["python", *(["native"] if find_spec("ottla_accel") is not None else [])]
    end = options.first + options.seeds
    blocks = [
        Block(kind, encoder, first, min(first + BLOCK, end))
        for first in range(options.first, end, BLOCK)
        for kind in kinds
        for encoder in encoders
    ]
    began, failed, plans = time.monotonic(), 0, _plans()
    run = runner(options.processes)
    of_same_seeds: list[tuple[Block, bool]] = []
    with ThreadPoolExecutor(options.processes) as pool:
        for block, output in zip(blocks, pool.map(partial(_run_block, run, options), blocks), strict=True):
            print(output, end="", flush=True)
            failures = re.findall(r"^FAILED (\w+) (\d+) (\w+)", output, re.MULTILINE)
            failed += len(failures)
            if failures and block.kind in history_plans.KINDS:
                print(_shrink_elsewhere(options, *failures[0]), end="", flush=True)
            of_same_seeds.append((block, not failures))
            if len(of_same_seeds) == len(kinds) * len(encoders):
                if options.record:
                    seed_ranges.add(_without_findings(plans, of_same_seeds))
                of_same_seeds.clear()
    print(f"{options.seeds} seeds from {options.first} of {', '.join(kinds)}; encoders {', '.join(encoders)}:", end=" ")
    print(f"{failed} histories failed, in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


@attrs.frozen
class Block:
    """Histories of one kind that one process runs, from seed *first* to the one before *end*."""

    kind: str
    encoder: str
    first: int
    end: int


def _run_block(run: Runner, options: argparse.Namespace, block: Block) -> str:
    """Run a block, in another process after each history that fails; return what they print."""
    output, first = "", block.first
    for _attempt in range(FAILURES):
        done = run(
            [
                *(sys.executable, __file__, "--here", "--kind", block.kind, "--encoder", block.encoder),
                *("--from", str(first), "--seeds", str(block.end - first)),
                *_planted(options),
                *(["--digests"] if options.digests else []),
            ]
        )
        output += done.stdout
        if done.returncode == 0:
            return output
        found = re.search(rf"^FAILED {block.kind} (\d+) ", done.stdout, re.MULTILINE)
        if found is None:  # the process ended for another reason
            return f"{output}FAILED {block.kind} {first} {block.encoder}: exit status {done.returncode}\n"
        first = int(found[1]) + 1
        if first == block.end:
            return output
    return f"{output}{block.kind} {first}-{block.end - 1} {block.encoder} are not run: too many have failed\n"


def _shrink_elsewhere(options: argparse.Namespace, kind: str, seed: str, encoder: str) -> str:
    command = [sys.executable, __file__, "--here", "--shrink", "--kind", kind, "--from", seed]
    return _run([*command, "--encoder", encoder, *_planted(options)]).stdout


def _planted(options: argparse.Namespace) -> Sequence[str]:
    return ["--plant", options.plant] if options.plant else []


def _without_findings(plans: str, blocks: Sequence[tuple[Block, bool]]) -> list[seed_ranges.SeedRange]:
    """The range of the kinds of which no history of these blocks failed; none if all kinds have a failure."""
    failed = {block.kind for block, passed in blocks if not passed}
    kinds = tuple(dict.fromkeys(block.kind for block, _passed in blocks if block.kind not in failed))
    encoders = tuple(dict.fromkeys(block.encoder for block, _passed in blocks))
    first, end = blocks[0][0].first, blocks[0][0].end
    return [seed_ranges.SeedRange(plans, first, end - 1, kinds, encoders)] if kinds else []


def find_bugs(options: argparse.Namespace) -> int:
    """Plant each bug and find it with the fewest seeds; return 1 if one is not found."""
    bugs = [options.plant] if options.plant else list(planted_bugs.BUGS)
    lines: dict[str, str] = {}
    if FOUND.exists():
        lines = {line.split(": ")[0]: line for line in FOUND.read_text().splitlines() if not line.startswith("#")}
    with ThreadPoolExecutor(options.processes) as pool:
        for bug, line in zip(bugs, pool.map(partial(_find, runner(options.processes)), bugs), strict=True):
            print(line, flush=True)
            lines[bug] = line
    header = (
        "# A seed that finds each planted bug, the first one if `tox run -e simulate -- --find` has written the line.\n"
    )
    FOUND.write_text(header + "".join(f"{lines[bug]}\n" for bug in planted_bugs.BUGS if bug in lines))
    return 1 if any(lines[bug].endswith("not found") for bug in bugs) else 0


def _find(run: Runner, bug: str) -> str:
    """The kind and the seed of the first history that fails with a bug."""
    for kind in planted_bugs.BUGS[bug].kinds:
        command = (sys.executable, __file__, "--here", "--kind", kind, "--encoder", "python", "--plant", bug)
        done = run([*command, "--seeds", str(ENOUGH)])
        found = re.search(rf"^FAILED {kind} (\d+)", done.stdout, re.MULTILINE)
        if found is not None:
            sound = run([*command[:-2], "--from", found[1], "--seeds", "1"])
            assert sound.returncode == 0, f"this history fails without the bug, too:\n{sound.stdout}"
            return f"{bug}: {kind} {found[1]}"
        assert done.returncode == 0, done.stdout
    return f"{bug}: not found"


def _plans() -> str:
    """A digest of the modules that plan and run histories: the same seeds with other plans are other histories."""
    modules = [Path(__file__).with_name(name).read_bytes() for name in ("history_plans.py", "histories.py")]
    return blake2b(b"".join(modules), digest_size=4).hexdigest()


def runner(processes: int) -> Runner:
    """The function that runs a block in a process: one that stays on a processor if there is one for each process.

    With fewer processes, the blocks of two tools that run at once would have the same processors.
    """
    processors = Processors()
    return processors.run if processes == len(processors.all) else _run


class Processors:
    """The processors that this process may use, and those of them on which no block runs."""

    def __init__(self) -> None:
        self.all = list(range(os.cpu_count() or 1))
        if sys.platform == "linux":
            self.all = sorted(os.sched_getaffinity(0))
        self._free: SimpleQueue[int] = SimpleQueue()
        for processor in self.all:
            self._free.put(processor)

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a block on a free processor."""
        processor = self._free.get()
        try:
            return _run([*command, "--cpu", str(processor)])
        finally:
            self._free.put(processor)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    if options.count:
        print(*(f"{kind}: {seeds}" for kind, seeds in seed_ranges.counts().items()), sep="\n")
        return 0
    if options.find:
        return find_bugs(options)
    return run_here(options) if options.here else run_blocks(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
