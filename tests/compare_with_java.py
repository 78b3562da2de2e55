"""Compare Java's producer and Ottla in random scripts: `tox run -e java -- --seeds 1000 --from 1`.

A script that differs without a listed reason is printed. `--seed SEED` runs one; `--shrink` leaves out what the
difference does not need. `--plant BUG` runs with a bug of `planted_bugs`. The ranges that have been run are in
`java_seeds.txt`; `--record` adds this one.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

FOLDER: Final = Path(__file__).parent
RECORD: Final = FOLDER / "java_seeds.txt"
sys.path[:0] = [str(FOLDER.parent / "tools"), str(FOLDER.parent / "packages" / "core" / "tests")]

import planted_bugs  # noqa: E402  # needs the path

if TYPE_CHECKING:
    from script_comparison import Comparison

AT_ONCE: Final = 20
"""Scripts that run at the same time. Most of their time is waiting."""


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, action="append", help="run only this seed; may be repeated")
    parser.add_argument("--plant", choices=sorted(planted_bugs.BUGS), metavar="BUG", help="a bug to plant")
    parser.add_argument("--shrink", action="store_true", help="shrink scripts that differ")
    parser.add_argument("--all", action="store_true", help="print scripts that do not differ, too")
    parser.add_argument("--record", action="store_true", help=f"add the range to {RECORD.name}")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    if options.plant:
        planted_bugs.install(options.plant)
    logging.disable(logging.CRITICAL)  # a thousand warnings about faults that are planned
    from random_scripts import random_script
    from script_comparison import compare, shrunk
    from script_runs import JavaProcess

    seeds = options.seed or range(options.first, options.first + options.seeds)
    began, unexplained, reasons = time.monotonic(), 0, Counter[str]()
    with JavaProcess.running() as java, ThreadPoolExecutor(AT_ONCE) as pool:

        def one(seed: int) -> Comparison:
            compared = compare(java, random_script(seed))
            return shrunk(java, compared) if options.shrink and compared.unexplained else compared

        for compared in pool.map(one, seeds):
            unexplained += compared.unexplained
            reasons.update([compared.reason] if compared.reason else [])
            if compared.unexplained or options.all:
                report(compared)
    for reason, count in reasons.most_common():
        print(f"{count} differ: {reason}")
    print(f"{len(seeds)} scripts, {unexplained} differ without a reason, in {time.monotonic() - began:.0f} s")
    if options.record and not unexplained and not options.seed:
        with RECORD.open("a") as record:
            record.write(f"{made_by()} {seeds[0]}-{seeds[-1]}\n")
    return 1 if unexplained else 0


def report(compared: Comparison) -> None:
    """Print a script, and what both did with it."""
    print(f"=== {compared.script.name}", *compared.lines, *compared.script.lines, sep="\n")
    for who, results in (("Java", compared.java), ("Ottla", compared.ottla)):
        if results is not None:
            print(f"--- {who}", *results.requests, *results.lines(frozenset()), *results.faults, sep="\n")
    sys.stdout.flush()


def made_by() -> str:
    """A digest of some scripts: when it changes, the same seeds are other scripts."""
    from random_scripts import random_script

    lines = [line for seed in range(100) for line in random_script(seed).lines]
    return blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
