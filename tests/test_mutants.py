"""The mutations of a module, and a function that runs as its mutant."""

from __future__ import annotations

import importlib.util
import signal
import textwrap
import threading
import time
from pathlib import Path
from types import ModuleType

import mutants
import psutil
import pytest
from mutant_runs import functions_by_place, mutate
from mutations import Mutation, mutations

WITHIN = 60.0
SOURCE = '''
"""A module."""
import logging
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os
LIMIT: int = 3
log = logging.getLogger(__name__)

class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0
        assert LIMIT > 1

    def add(self, more: int) -> bool:
        """Add some."""
        log.debug("adding %d", more + 1)
        if self.count + more > LIMIT and more:
            return False
        self.count += more
        return True
'''


def found(source: str) -> list[tuple[str, str]]:
    return [(each.before, each.after) for each in mutations("m.py", textwrap.dedent(source).encode())]


def test_mutations_change_conditions_numbers_and_statements() -> None:
    assert found(SOURCE) == [
        ("3", "4"),
        ("self.count = 0", "pass"),
        ("0", "1"),
        ("self.count + more", "(self.count - more)"),
        ("self.count + more > LIMIT", "(self.count + more >= LIMIT)"),
        ("self.count + more > LIMIT and more", "(self.count + more > LIMIT or more)"),
        ("self.count + more > LIMIT and more", "((more))"),
        ("self.count + more > LIMIT and more", "((self.count + more > LIMIT))"),
        ("self.count + more > LIMIT and more", "(not (self.count + more > LIMIT and more))"),
        ("False", "True"),
        ("self.count += more", "pass"),
        ("True", "False"),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a, b):\n    return a", [("return a", "return None")]),
        ("def f(a):\n    g(a)\n    return", [("g(a)", "pass")]),
        ("def f(a):\n    if not a:\n        raise g", [("not a", "(a)"), ("raise g", "pass")]),
        ("def f(a):\n    while a is None:\n        break", [("a is None", "(a is not None)"), ("break", "continue")]),
        ("x = min(a)", [("min", "max")]),
        ("x = f'{1 + 1}' + 'b'", []),
        ("x: TypeAlias = 1 | 2", []),
    ],
)
def test_each_statement_has_its_mutations(source: str, expected: list[tuple[str, str]]) -> None:
    assert found(source) == expected


def test_equal_mutations_of_a_function_are_numbered() -> None:
    numbers = [(each.place, each.number) for each in mutations("m.py", b"def f():\n    g(1)\n    g(1)\n")]

    assert numbers == [("f", 0), ("f", 0), ("f", 1), ("f", 1)]


def test_the_order_of_a_seed_does_not_depend_on_other_mutations() -> None:
    short, long = b"def f():\n    return 1\n", b"def g():\n    return 2\n\ndef f():\n    return 1\n"

    ranks = {each.key: each.rank(7) for each in mutations("m.py", long)}
    assert all(each.rank(7) == ranks[each.key] for each in mutations("m.py", short))
    assert ranks != {each.key: each.rank(8) for each in mutations("m.py", long)}


def module(path: Path) -> ModuleType:
    path.write_text(textwrap.dedent(SOURCE))
    spec = importlib.util.spec_from_file_location("mutated_module", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def apply(path: Path, after: str) -> bool:
    source = path.read_bytes()
    chosen: list[Mutation] = [each for each in mutations(str(path), source) if each.after == after]
    place = str(path), chosen[-1].place, chosen[-1].function_line
    return mutate(place, chosen[-1].apply(source), functions_by_place([str(path)]).get(place, ()))


def test_a_mutated_function_runs_its_new_code(tmp_path: Path) -> None:
    path = tmp_path / "mutated.py"
    counter = module(path).Counter()
    assert counter.add(2)
    assert apply(path, "(self.count + more >= LIMIT)")

    assert not counter.add(1)


def test_code_that_runs_on_import_is_not_mutated_in_place(tmp_path: Path) -> None:
    path = tmp_path / "mutated.py"
    module(path)

    assert not apply(path, "4")


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run, which knows no times of tests yet."""
    for name, file in (("BUILD", ""), ("RESULTS", "results.jsonl"), ("TIMES", "times.json")):
        monkeypatch.setattr(mutants, name, tmp_path / file)
    (tmp_path / "times.json").write_text("{}")
    return tmp_path


def test_a_process_that_runs_no_mutant_is_reported(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "_pytest_options", lambda paths: ["--no-such-option"])

    failed = mutants.run([], processes=2, until=time.time() + WITHIN)

    assert failed == [f"a process ended with exit code 4: see {build / f'run-{number}.log'}" for number in range(2)]


def test_an_interrupted_run_ends_its_processes(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = build / "started"
    (build / "conftest.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(started)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    )
    monkeypatch.setattr(mutants, "_pytest_options", lambda paths: [str(build)])
    main = threading.get_ident()

    def interrupt() -> None:
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            if started.exists() and started.read_text():
                signal.pthread_kill(main, signal.SIGINT)
                return
            time.sleep(0.01)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        mutants.run([], processes=1, until=time.time() + WITHIN)
    interrupter.join()

    assert not psutil.pid_exists(int(started.read_text()))
