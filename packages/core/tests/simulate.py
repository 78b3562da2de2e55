"""Run simulated histories: `tox run -e simulate -- --seeds 1000 --from 1`, on all processors.

The error of a history has its story, and `--kind KIND --from SEED --seeds 1` runs it again. `--plant BUG` runs
with a bug of `planted_bugs`. The ranges that have been run are in `simulated_seeds.txt`; `--record` adds this one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import planted_bugs

RECORD: Final = Path(__file__).with_name("simulated_seeds.txt")
TOOLS: Final = Path(__file__).parents[3] / "tools"
BLOCK: Final = 250
"""Seeds that one process runs."""


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each kind")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--kind", action="append", help="run only this kind; may be repeated")
    parser.add_argument("--encoder", action="append", choices=["python", "native"], help="by default all installed")
    parser.add_argument("--plant", choices=sorted(planted_bugs.BUGS), metavar="BUG", help="a bug to plant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help=f"add the range to {RECORD.name}")
    parser.add_argument("--digests", action="store_true", help="print the digest of each history")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one block, in this process
    return parser.parse_args(arguments)


def history(kind: str) -> Callable[[int, str], str]:
    """The function that runs one history of this kind, by seed and encoder."""
    import histories
    import history_plans

    if kind in history_plans.KINDS:
        return lambda seed, encoder: histories.run(kind, seed, encoder=encoder)
    sys.path.append(str(TOOLS))
    import storms

    return lambda seed, _encoder: storms.KINDS[kind](seed)


def run_here(options: argparse.Namespace) -> int:
    """Run the histories one after the other, until one fails; return the exit status."""
    if options.plant:
        planted_bugs.install(options.plant)
    for kind in options.kind:
        run = history(kind)
        for encoder in options.encoder:
            for seed in range(options.first, options.first + options.seeds):
                try:
                    digest = run(seed, encoder)
                except Exception as error:
                    print(f"FAILED {kind} {seed} {encoder}: {type(error).__name__}: {error}", flush=True)
                    os._exit(1)  # its threads wait forever
                if options.digests:
                    print(kind, seed, encoder, digest, flush=True)
    return 0


def run_blocks(options: argparse.Namespace) -> int:
    """Run the histories in several processes; return 1 if one failed."""
    import history_plans

    kinds = options.kind or list(history_plans.KINDS)
    encoders = options.encoder or ["python", *(["native"] if find_spec("ottla_accel") is not None else [])]
    end = options.first + options.seeds
    commands = [
        [
            *(sys.executable, __file__, "--here", "--kind", kind, "--encoder", encoder),
            *("--from", str(first), "--seeds", str(min(BLOCK, end - first))),
            *(["--plant", options.plant] if options.plant else []),
            *(["--digests"] if options.digests else []),
        ]
        for first in range(options.first, end, BLOCK)
        for kind in kinds
        for encoder in encoders
    ]
    began, failed = time.monotonic(), 0
    with ThreadPoolExecutor(options.processes) as pool:
        for done in pool.map(_run, commands):
            failed += done.returncode != 0
            print(done.stdout, end="", flush=True)
    print(f"{options.seeds} seeds from {options.first} of {', '.join(kinds)}; encoders {', '.join(encoders)}:", end=" ")
    print(f"{failed} of {len(commands)} blocks failed, in {time.monotonic() - began:.0f} s")
    if options.record and not failed:
        with RECORD.open("a") as record:
            record.write(f"{_plans()} {options.first}-{end - 1} {' '.join(kinds)} ({' '.join(encoders)})\n")
    return 1 if failed else 0


def _plans() -> str:
    """A digest of the modules that plan and run histories: the same seeds with other plans are other histories."""
    modules = [Path(__file__).with_name(name).read_bytes() for name in ("history_plans.py", "histories.py")]
    return blake2b(b"".join(modules), digest_size=4).hexdigest()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    return run_here(options) if options.here else run_blocks(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
