"""Run tests against mutants: a plugin of pytest, in place of its loop of tests.

All tests are collected once. For each mutant the process forks, and the child gives the mutated function its new code
and runs the tests until one fails. A mutant of code that runs on import has a process of its own, which imports the
mutated source (`OTTLA_MUTANT`). No file of the tree is changed.

`OTTLA_MUTANT_RUNS` names a JSON file with the work; results are appended to its `results`, one JSON object a line.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

HANGS_AFTER: Final = 20.0  # seconds of one test, besides ten times what it usually takes
Place = tuple[str, str, int]
"""The file, the name and the first line of a function."""


class _MutatedSource(SourceFileLoader):
    """A loader that compiles other bytes than those of the file, and leaves no bytecode behind."""

    def __init__(self, fullname: str, path: str, source: bytes) -> None:
        super().__init__(fullname, path)
        self._mutated = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._mutated, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module with mutated source."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the mutated module, if this is its name."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != self._path:
            return None
        loader: Loader = _MutatedSource(fullname, self._path, self._source)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


if os.environ.get("OTTLA_MUTANT"):
    _mutant = json.loads(Path(os.environ["OTTLA_MUTANT"]).read_text())
    sys.meta_path.insert(0, _Finder(_mutant["file"], _mutant["source"].encode()))


def functions_by_place(files: Iterable[str]) -> dict[Place, list[FunctionType]]:
    """All functions of these files that exist now. There may be several of a place, as of a function in a function."""
    wanted = frozenset(files)
    found: dict[Place, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in wanted:
            code = each.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
    return found


def mutate(place: Place, source: bytes, functions: Sequence[FunctionType]) -> bool:
    """Give the functions of a place the code that the mutated *source* has there.

    False: there is no such function, or its code needs another closure, as where a mutant no longer uses `super`.
    """
    file, name, first_line = place
    code = next(
        (
            each
            for each in _codes(compile(source, file, "exec", dont_inherit=True))
            if each.co_qualname == name and each.co_firstlineno == first_line
        ),
        None,
    )
    if (
        code is None
        or not functions
        or any(len(each.__code__.co_freevars) != len(code.co_freevars) for each in functions)
    ):
        return False
    for each in functions:
        each.__code__ = code
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """Run the work of OTTLA_MUTANT_RUNS. Without it, run the tests as usual."""
    name = os.environ.get("OTTLA_MUTANT_RUNS")
    if not name or session.testsfailed:
        return None
    gc.unfreeze()  # functions are found among the collector's objects
    work = json.loads(Path(name).read_text())
    items = {item.nodeid: item for item in session.items}
    functions = functions_by_place(mutant["file"] for mutant in work["mutants"])
    gc.collect()
    gc.freeze()  # children then neither search nor copy what all of them share
    for mutant in work["mutants"]:
        if time.time() > work["until"]:
            break
        tests = [items[test] for test in mutant["tests"] if test in items]
        result = _run_mutant(session, mutant, tests, functions, work["times"])
        with Path(work["results"]).open("a") as results:
            results.write(json.dumps({"id": mutant["id"], **result}) + "\n")
    return True


def _run_mutant(
    session: pytest.Session,
    mutant: Mapping[str, Any],
    items: Sequence[pytest.Item],
    functions: Mapping[Place, Sequence[FunctionType]],
    times: Mapping[str, float],
) -> dict[str, object]:
    """Fork, run the tests against the mutant in the child, and return what happened."""
    started = time.monotonic()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _in_child(session, mutant, items, functions, writing)
    os.close(writing)
    outcome, test = "survived", ""
    running: str = ""
    received = b""
    try:
        while True:
            limit = HANGS_AFTER + 10 * times.get(running, 0.0)
            if not select.select([reading], [], [], limit)[0]:
                outcome, test = "hung", running
                break
            data = os.read(reading, 1 << 16)
            if not data:
                break
            received += data
            *lines, received = received.split(b"\n")
            for line in lines:
                word, _, name = line.decode().partition(" ")
                running = name
                if word != "run":
                    outcome, test = word, name
    except BaseException:  # such as the interruption of the whole run
        _end(process, wait=False)
        raise
    _end(process, wait=outcome == "survived")
    os.close(reading)
    if outcome == "survived" and test == "" and running != "(all)":
        outcome, test = "died", running
    return {"outcome": outcome, "test": test, "seconds": round(time.monotonic() - started, 2), "tests": len(items)}


def _end(process: int, *, wait: bool) -> None:
    """End a child and all that it started, at once or when it has written all."""
    if not wait or not _exited(process, 5.0):
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _exited(process: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


class _Reporter:
    """Writes which test runs, and ends the process with the first that fails."""

    def __init__(self, pipe: int, *, first_only: bool) -> None:
        self._pipe = pipe
        self._first_only = first_only

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.write(self._pipe, f"run {nodeid}\n".encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self._pipe, f"killed {report.nodeid}\n".encode())
            if self._first_only:
                os._exit(1)


def _in_child(
    session: pytest.Session,
    mutant: Mapping[str, Any],
    items: Sequence[pytest.Item],
    functions: Mapping[Place, Sequence[FunctionType]],
    pipe: int,
) -> None:
    try:
        os.setsid()
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(silent, number)
        place = mutant["file"], mutant["place"], mutant["function_line"]
        if not mutate(place, mutant["source"].encode(), functions.get(place, ())):
            os.write(pipe, b"other (process)\n")
            os._exit(0)
        session.config.pluginmanager.register(_Reporter(pipe, first_only=True), "mutant-reporter")
        for number, item in enumerate(items):
            following = items[number + 1] if number + 1 < len(items) else None
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        os.write(pipe, b"run (all)\n")
    finally:
        os._exit(0)
