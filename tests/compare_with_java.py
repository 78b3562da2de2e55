"""Compare Ottla with Java's producer in random scripts: `tox run -e java -- --seeds 1000 --from 1`."""

from __future__ import annotations

import argparse
from collections import Counter
import logging
import queue
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
from producer_scripts import Script
from random_scripts import random_script
from script_comparison import ProgramRun, Results, differences, explained
from script_runs import JavaProcess, OttlaPeer

AT_ONCE = 20


@attrs.frozen
class Comparison:
    script: Script
    java: Results | None
    ottla: Results | None
    lines: Sequence[str]


explanations: Counter[str] = Counter()
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
        if lines and (why := explained(script, *results, lines)) is not None:
            explanations[why] += 1
            lines = []
    return Comparison(script, *results, lines)


def repeated(java: JavaProcess, script: Script, times: int = 2) -> Comparison:
    compared = compare(java, script)
    while compared.lines and times:
        times -= 1
        compared = compare(java, script)
    return compared


def report(compared: Comparison, verbose: bool) -> None:
    print(f"=== {compared.script.name}")
    print(*compared.lines, sep="\n", flush=True)
    if verbose:
        print(*compared.script.lines, sep="\n")
        for name, each in (("Java", compared.java), ("Ottla", compared.ottla)):
            if each is not None:
                print(f"--- {name}", *each.requests, each.written, each.records, *each.faults, sep="\n", flush=True)


def signature(compared: Comparison) -> str:
    """The kind of the first difference."""
    return re.sub(r"\d+", "#", compared.lines[0].split(" ")[1]) if compared.lines else ""


def shrunk(java: JavaProcess, best: Comparison) -> Comparison:
    """A comparison of a shorter script that differs, too."""
    script = best.script
    left = 60
    wanted = signature(best)

    def enough(lines: Sequence[str]) -> bool:
        nonlocal best, left
        left -= 1
        if left < 0:
            return False
        compared = repeated(java, attrs.evolve(script, lines=lines), 1)
        if compared.lines and signature(compared) == wanted and "KeyError" not in str(compared.lines):
            best = compared
            return True
        return False

    if best.lines:
        head = [line for line in script.lines if line.startswith(("* create", "new", "init", "* source", "* transactions"))]
        script = attrs.evolve(script)
        rest = [line for line in script.lines if line not in head]
        at = next(place for place, line in enumerate(script.lines) if line.startswith("new"))
        before = [line for line in script.lines[:at] if line not in head]
        fixed_before = [line for line in head if line.startswith("*")]
        fixed_after = [line for line in head if not line.startswith("*")]
        tagged = [(line, place < len(before)) for place, line in enumerate(rest)]

        def made(items):
            early = [line for line, first in items if first]
            late = [line for line, first in items if not first]
            return [*fixed_before, *early, *fixed_after, *late]

        fewest(tagged, lambda items: enough(made(items)))
    return best


def fewest(items, enough):
    part = max(1, len(items) // 2)
    while items:
        start = 0
        while start < len(items):
            rest = [*items[:start], *items[start + part :]]
            if enough(rest):
                items = rest
            else:
                start += part
        if part == 1:
            break
        part //= 2
    return items


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    found = 0
    with JavaProcess.running() as java, ThreadPoolExecutor(AT_ONCE) as pool:
        seeds = options.seed or range(options.first, options.first + options.seeds)

        def one(seed):
            compared = repeated(java, random_script(seed))
            return shrunk(java, compared) if options.shrink and compared.lines else compared

        for seed, compared in zip(seeds, pool.map(one, seeds)):
            if not compared.lines and not options.verbose:
                continue
            found += bool(compared.lines)
            report(compared, options.verbose or options.shrink)
    print(f"{options.seeds} seeds from {options.first}: {found} differ, in {time.monotonic() - began:.0f} s")
    print(*explanations.items(), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
