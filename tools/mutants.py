"""Mutation testing of the heart of the core: `tox run -e mutants -- --sample 600 --minutes 120`.

A seeded sample of small changes (`mutations`) is made, and each is run against the fast tests that execute its line
(`covering_tests`, `mutant_runs`). A change that no test notices survives. `surviving_mutants.toml` names survivors with
the reason why no test can notice them. The map of tests and the results are in `build/mutants`; a later run continues
with what is missing. After a change of tests, `--again` runs the survivors again, and `--map` makes the map again, of
all modules of tests or of those that it is given.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final

import attrs
from covering_tests import CoveringTests
from mutations import Mutation, mutations

ROOT: Final = Path(__file__).parent.parent
BUILD: Final = ROOT / "build" / "mutants"
RESULTS: Final = BUILD / "results.jsonl"
MAP: Final = BUILD / "coverage.data"
TIMES: Final = BUILD / "times.json"
REASONS: Final = Path(__file__).with_name("surviving_mutants.toml")
SOURCE: Final = ROOT / "packages" / "core" / "src" / "ottla"
TESTS: Final = "packages/core/tests"
FAST: Final = "not kafka and not spark"
LEFT_OUT: Final = (
    "test_planted_bugs.py",  # runs tests with bugs of its own
    *("test_histories*.py", "test_shrinking.py", "test_random_faults_repeat.py"),  # simulated histories
    *("test_fuzz_*.py", "test_*_hostile_*.py", "test_protocol_*.py", "test_compressors*.py", "test_*_conformance.py"),
    *("test_signals*.py", "test_interrupted_sends.py", "test_io_handoff_schedules.py"),  # one call many times
    *("test_cli_*.py", "test_doctor_*.py", "test_*_page.py", "test_glossary.py", "test_text_in_the_source.py"),
)
"""Modules whose tests are slow, or run hardly anything of the heart in this process."""

HEART: Final = ("accumulator/*.py", "sender/*.py", "transactions/*.py", "network/*.py")
"""Modules that decide what happens to a record; but not those of log lines (`*_log.py`)."""

SLOW: Final = 1.0
"""A test that takes more seconds is not a fast one."""

PROCESS_SECONDS: Final = 300.0
FIRST_TESTS: Final = 2000  # of a mutant in a process of its own, which has to import and collect


@attrs.frozen(kw_only=True)
class Mutant:
    """A mutation with the source that it makes, and the tests that execute its line, in the order to run them."""

    mutation: Mutation
    source: str
    tests: Sequence[str]

    @property
    def id(self) -> str:
        """Its name in the results: of the change, and of the function as it is now."""
        return blake2b(repr((self.mutation.key, self.source)).encode(), digest_size=8).hexdigest()

    def work(self) -> dict[str, object]:
        """What `mutant_runs` needs."""
        return {
            "id": self.id,
            "file": str(ROOT / self.mutation.path),
            "place": self.mutation.place,
            "function_line": self.mutation.function_line,
            "source": self.source,
            "tests": self.tests,
        }


def heart() -> Iterator[Path]:
    """The modules that are mutated."""
    for pattern in HEART:
        yield from (path for path in sorted(SOURCE.glob(pattern)) if not path.stem.endswith("_log"))


def make_map(modules: Sequence[str] = ()) -> None:
    """Run the fast tests once, and record which lines each of them executes; only of these modules, if any are named.

    What is known of the tests of others is kept.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    settings = BUILD / "coverage.rc"
    files = "".join(f"    {SOURCE / pattern}\n" for pattern in HEART)
    settings.write_text(f"[run]\ninclude =\n{files}")
    known = json.loads(TIMES.read_text()) if modules else {}
    command = [
        *(sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={MAP}"),
        *(["--append"] if modules else []),
        *("-m", "pytest", "-p", "covering_tests", *_pytest_options(modules or [TESTS])),
    ]
    subprocess.run(command, cwd=ROOT, env=_environment(OTTLA_COVERING_TIMES=TIMES), check=False)
    TIMES.write_text(json.dumps(known | json.loads(TIMES.read_text())))


def _environment(**variables: Path) -> dict[str, str]:
    """The environment with these variables; with this folder on the path, where pytest finds the plugins."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in variables.items()}}


def _pytest_options(paths: Iterable[str]) -> list[str]:
    left_out = [f"--ignore-glob={ROOT / TESTS / name}" for name in LEFT_OUT]
    return ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", FAST, *paths, *left_out]


def sample(seed: int, size: int, *, part: str = "", seconds: float = float("inf")) -> list[Mutant]:
    """The first *size* mutants in the random order of a seed, of all modules or of those whose path has *part*.

    Each has the first of its tests that together usually take so many *seconds*.
    """
    covering, times = CoveringTests(MAP), json.loads(TIMES.read_text())
    sources = {str(path.relative_to(ROOT)): path.read_bytes() for path in heart() if part in str(path)}
    found = [mutation for path, source in sources.items() for mutation in mutations(path, source)]
    found.sort(key=lambda mutation: mutation.rank(seed))
    sizes = covering.sizes(heart())
    mutants = []
    for mutation in found[:size]:
        file = ROOT / mutation.path
        tests = covering.of_lines(file, mutation.line, mutation.end_line) if mutation.function_line else set()
        if not mutation.function_line:  # executed on import: those that use the module
            tests = covering.of_file(file)
        source = mutation.apply(sources[mutation.path]).decode()
        ordered = _ordered(tests, times, sizes, mutation)
        total = accumulate(times[test] for test in ordered)
        chosen = [test for test, until in zip(ordered, total, strict=True) if until <= seconds]
        mutants.append(Mutant(mutation=mutation, source=source, tests=chosen))
    return mutants


def _ordered(
    tests: Iterable[str], times: Mapping[str, float], sizes: Mapping[str, int], mutation: Mutation
) -> list[str]:
    """The order in which to run the tests, which ends where the seconds end.

    Those of the module's own test file come first. Of the others, one that executes little else, so that it is about
    this line, and one of each function, the fastest first, take turns.
    """
    fast = sorted((test for test in tests if times.get(test, SLOW) < SLOW), key=lambda test: times[test])
    counts: dict[str, int] = {}
    by_function = []
    for test in fast:
        function = test.partition("[")[0]
        turn = counts[function] = counts.get(function, -1) + 1
        by_function.append((turn, times[test], test))
    by_size = sorted(fast, key=lambda test: sizes[test])
    own = [test for test in fast if f"test_{Path(mutation.path).stem}.py" in test]
    in_turn = chain.from_iterable(zip(by_size, (test for *_, test in sorted(by_function)), strict=True))
    return list(dict.fromkeys([*own, *in_turn]))


def run(mutants: Sequence[Mutant], *, processes: int, until: float) -> list[str]:
    """Run the mutants that have no result yet, in so many processes at the same time, until the time is over.

    Return what failed in a process, which leaves its share of the mutants without a result.
    """
    done = results()
    todo = [mutant for mutant in mutants if not _has_run(mutant, done) and mutant.tests]
    times = json.loads(TIMES.read_text())
    files = sorted({test.partition("::")[0] for mutant in todo for test in mutant.tests})
    started: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        for number in range(processes):
            work = BUILD / f"work-{number}.json"
            mine = [mutant.work() for mutant in todo[number::processes]]
            work.write_text(json.dumps({"mutants": mine, "times": times, "until": until, "results": str(RESULTS)}))
            log = BUILD / f"run-{number}.log"
            command = [sys.executable, "-m", "pytest", "-p", "mutant_runs", *_pytest_options(files)]
            settings = _environment(OTTLA_MUTANT_RUNS=work)
            with log.open("w") as output:
                started[log] = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=output, stderr=output)
        for process in started.values():
            process.wait()
    finally:
        for process in started.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # it ends its own child
                process.wait()
    done = results()
    for mutant in todo:
        if done.get(mutant.id, {}).get("outcome") == "other" and time.time() < until:
            _run_in_a_process(mutant, times)
    codes = {log: process.returncode for log, process in started.items()}
    return [f"a process ended with exit code {code}: see {log}" for log, code in codes.items() if code]


def _run_in_a_process(mutant: Mutant, times: Mapping[str, float]) -> None:
    """Run a mutant of code that runs on import."""
    name = BUILD / "mutant.json"
    name.write_text(json.dumps(mutant.work()))
    tests = list(mutant.tests[:FIRST_TESTS])
    limit = PROCESS_SECONDS + 5 * sum(times[test] for test in tests)
    chosen = BUILD / "tests.txt"
    chosen.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-p", "mutant_runs", "-x", "-q", "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", f"@{chosen}"]
    started = time.monotonic()
    try:
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(OTTLA_MUTANT=name),
            capture_output=True,
            timeout=limit,
            check=False,
        )
        outcome = "survived" if ran.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        outcome = "hung"
    seconds = round(time.monotonic() - started, 2)
    result = {"id": mutant.id, "outcome": outcome, "test": "(own process)", "seconds": seconds, "tests": len(tests)}
    with RESULTS.open("a") as written:
        written.write(json.dumps(result) + "\n")


def results() -> dict[str, dict[str, Any]]:
    """The last result of each mutant."""
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {line["id"]: line for line in lines}


def _has_run(mutant: Mutant, done: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether there is a result; one of code that runs on import still needs a process of its own."""
    return mutant.id in done and done[mutant.id]["outcome"] != "other"


def forget_survivors(mutants: Iterable[Mutant]) -> None:
    """Drop the results of survivors without a reason, so that they run again."""
    known = reasons()
    again = {mutant.id for mutant in mutants if mutant.mutation.key not in known}
    found = results().values()
    kept = [result for result in found if result["id"] not in again or result["outcome"] not in ("survived", "died")]
    RESULTS.write_text("".join(json.dumps(result) + "\n" for result in kept))


def reasons() -> dict[tuple[str, str, str, str, int], str]:
    """Why no test can notice these changes."""
    found = {}
    for entry in tomllib.loads(REASONS.read_text()).get("survivor", []):
        key = f"packages/core/src/ottla/{entry['module']}", entry["place"], entry["before"], entry["after"]
        found[*key, entry.get("number", 0)] = entry["reason"]
    return found


def report(mutants: Sequence[Mutant]) -> int:
    """Print the counts and each survivor; return 1 if more than 8 % survived for which there is no reason."""
    done, known = results(), reasons()
    ran = [mutant for mutant in mutants if _has_run(mutant, done) or not mutant.tests]
    survivors = [mutant for mutant in ran if not mutant.tests or done[mutant.id]["outcome"] == "survived"]
    unexplained = [mutant for mutant in survivors if mutant.mutation.key not in known]
    for mutant in survivors:
        mutation = mutant.mutation
        reason = known.get(mutation.key, "no test executes the line" if not mutant.tests else "no reason is known")
        print(f"{mutation.path}:{mutation.line} in {mutation.place} ({mutation.number}): {reason}")
        print(f"    {_line(mutation.before)}\n    -> {_line(mutation.after)}")
    print(f"\n{len(ran)} of {len(mutants)} mutants ran", end=": ")
    if not ran:
        print("none")
        return 1
    killed = len(ran) - len(survivors)
    print(f"{killed} killed ({killed / len(ran):.1%}), {len(survivors)} survived, {len(unexplained)} without a reason")
    _print_parts(ran, survivors)
    return 1 if len(unexplained) > 0.08 * len(ran) else 0


def _print_parts(ran: Sequence[Mutant], survivors: Sequence[Mutant]) -> None:
    parts = sorted({Path(mutant.mutation.path).parent.name for mutant in ran})
    for part in parts:
        all_of, of = ([m for m in each if Path(m.mutation.path).parent.name == part] for each in (ran, survivors))
        print(f"    {part}: {len(all_of) - len(of)} of {len(all_of)} killed")


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:157]}..."


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--sample", type=int, default=600, help="how many mutants")
    parser.add_argument("--part", default="", help="only of modules with this in their path, such as sender/sender.py")
    parser.add_argument("--minutes", type=float, default=600.0, help="start no mutant after so many minutes")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="of tests against a mutant, at most; after a quick run, survivors need --again",
    )
    parser.add_argument(
        "--map", nargs="*", metavar="MODULE", help="make the map of tests again, or only of these modules of tests"
    )
    parser.add_argument("--again", action="store_true", help="run survivors without a reason again")
    parser.add_argument("--report", action="store_true", help="run nothing, and print the results so far")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    until = time.time() + 60 * options.minutes
    if options.map is not None or not TIMES.exists():
        make_map(options.map or ())
    mutants = sample(options.seed, options.sample, part=options.part, seconds=options.seconds)
    if options.again:
        forget_survivors(mutants)
    failed = [] if options.report else run(mutants, processes=options.processes, until=until)
    code = report(mutants)
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return 1 if failed else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
