"""Compare Ottla with Java's producer in random scripts: `tox run -e java -- --seeds 1000 --from 1`."""

from __future__ import annotations

import argparse
import queue
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
from producer_scripts import Script
from random_scripts import random_script
from script_comparison import ProgramRun, Results, differences
from script_runs import JavaProcess, OttlaPeer

AT_ONCE = 16


@attrs.frozen
class Comparison:
    script: Script
    java: Results | None
    ottla: Results | None
    lines: Sequence[str]


_names = iter(range(10**9))


def compare(java: JavaProcess, script: Script) -> Comparison:
    results = []
    lines = []
    for who, peer in (("Java", java.peer(f"p{next(_names)}")), ("Ottla", OttlaPeer())):
        try:
            results.append(ProgramRun(script, peer).results())
        except (AssertionError, queue.Empty, Exception) as error:
            results.append(None)
            lines.append(f"! {who} failed: {type(error).__name__} {error}"[:300])
            if not isinstance(error, (AssertionError, queue.Empty)):
                traceback.print_exc()
    if None not in results:
        lines += differences(*results)
    return Comparison(script, *results, lines)


def repeated(java: JavaProcess, script: Script, times: int = 2) -> Comparison:
    compared = compare(java, script)
    while compared.lines and times:
        times -= 1
        compared = compare(java, script)
    return compared


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    found = 0
    with JavaProcess.running() as java, ThreadPoolExecutor(AT_ONCE) as pool:
        seeds = range(options.first, options.first + options.seeds)
        for seed, compared in zip(seeds, pool.map(lambda s: repeated(java, random_script(s)), seeds)):
            if not compared.lines and not options.verbose:
                continue
            found += bool(compared.lines)
            print(f"=== seed {seed} {compared.script.name}")
            print(*compared.lines, sep="\n", flush=True)
            if options.verbose:
                print(*compared.script.lines, sep="\n")
                for name, each in (("Java", compared.java), ("Ottla", compared.ottla)):
                    if each is not None:
                        print(f"--- {name}", *each.requests, *each.lines(), each.written, each.records, *each.faults, sep="\n")
    print(f"{options.seeds} seeds from {options.first}: {found} differ, in {time.monotonic() - began:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
