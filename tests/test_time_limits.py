"""A test that hangs fails, and says where it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WITHIN = 120.0

HANGS = """
import threading

import pytest


def wait_for_a_record_that_never_comes():
    threading.Event().wait()


def test_that_hangs():
    threading.Thread(target=wait_for_a_record_that_never_comes, daemon=True).start()
    threading.Event().wait()
"""

LIMITS = """
import pytest


def limit(request):
    return request.node.get_closest_marker("timeout").args[0]


def test_plain(request):
    assert limit(request) == PLAIN


@pytest.mark.kafka
def test_with_a_broker(request):
    assert limit(request) == WITH_PROCESSES


@pytest.mark.spark
def test_with_spark(request):
    assert limit(request) == WITH_PROCESSES


@pytest.mark.timeout(7)
def test_with_a_limit_of_its_own(request):
    assert limit(request) == 7
"""

SUITES = """
class TestDefault:
    time_limit = 30.0

    def test_limit(self):
        assert self.time_limit == 120.0


class TestLonger:
    time_limit = 500.0

    def test_limit(self):
        assert self.time_limit == 500.0
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest in another process, with the settings and the limits of this tree."""
    (folder / "conftest.py").write_text("from time_limits import *\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    paths = os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])
    clean = {key: value for key, value in os.environ.items() if key != "OTTLA_SOAK"}
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments, str(folder)],
        cwd=folder,
        env={**clean, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder in which tests count as those of a package."""
    made = tmp_path / "packages"
    made.mkdir()
    return made


def test_a_hanging_test_fails_with_the_stacks_of_all_threads(folder: Path) -> None:
    (folder / "test_hangs.py").write_text(HANGS)

    ended = run(folder, "--timeout", "2")

    assert ended.returncode == 1
    assert "Timeout" in ended.stdout
    assert "in test_that_hangs" in ended.stdout + ended.stderr
    assert "in wait_for_a_record_that_never_comes" in ended.stdout + ended.stderr


@pytest.mark.parametrize(("soak", "plain", "with_processes"), [("", 300, 900), ("1", 3000, 9000)])
def test_tests_with_brokers_and_long_forms_have_a_longer_limit(
    folder: Path, soak: str, plain: int, with_processes: int
) -> None:
    values = LIMITS.replace("PLAIN", str(plain)).replace("WITH_PROCESSES", str(with_processes))
    (folder / "test_limits.py").write_text(values)

    ended = run(folder, OTTLA_SOAK=soak)

    assert ended.returncode == 0, ended.stdout


@pytest.mark.thorough("the gate has the limits without one")
def test_a_limit_on_the_command_line_applies_to_all_tests(folder: Path) -> None:
    (folder / "test_any.py").write_text(
        "def test_any(request):\n    assert request.node.get_closest_marker('timeout') is None\n"
    )

    assert run(folder, "--timeout", "0").returncode == 0


@pytest.mark.thorough("the gate has the limits of other tests")
def test_conformance_suites_have_a_longer_limit_on_a_busy_machine(folder: Path) -> None:
    (folder / "test_suites.py").write_text(SUITES)

    ended = run(folder)

    assert ended.returncode == 0, ended.stdout


def test_every_test_of_this_tree_has_a_limit(request: pytest.FixtureRequest) -> None:
    unlimited = [item.nodeid for item in request.session.items if item.get_closest_marker("timeout") is None]

    assert request.config.getoption("timeout") is not None or unlimited == []
