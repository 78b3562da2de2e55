"""The record of the time that each test module took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import module_times
import pytest
from module_times import Times

TOOLS = Path(__file__).parent.parent / "tools"

BUSY = """\
import subprocess, sys, time
def test_busy():
    child = "import time\\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", child], check=True)
def test_idle():
    time.sleep(0.3)
"""


def run_pytest(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "module_times", "-p", "no:randomly", *options]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS), **environment}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_a_run_notes_tests_seconds_and_processor_time_of_each_module(tmp_path: Path) -> None:
    (tmp_path / "test_busy.py").write_text(BUSY)
    (tmp_path / "test_short.py").write_text("def test_one(): pass\n")

    run = run_pytest(tmp_path, OTTLA_TEST_TIMES=str(tmp_path / "times"))

    assert run.returncode == 0, run.stdout
    times = module_times.read(tmp_path / "times")
    busy, short = times["test_busy.py"], times["test_short.py"]
    assert (busy.tests, short.tests) == (2, 1)
    assert busy.seconds > 0.7
    assert busy.processor_seconds > 0.4
    assert short.processor_seconds < 0.4


def test_runs_with_other_arguments_are_added_equal_ones_replaced(tmp_path: Path) -> None:
    (tmp_path / "test_short.py").write_text("def test_one(): pass\n")

    for options in ((), (), ("-q",)):
        assert run_pytest(tmp_path, *options, OTTLA_TEST_TIMES=str(tmp_path / "times")).returncode == 0

    assert module_times.read(tmp_path / "times")["test_short.py"].tests == 2


def test_without_a_folder_nothing_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "test_short.py").write_text("def test_one(): pass\n")

    assert run_pytest(tmp_path, OTTLA_TEST_TIMES="").returncode == 0

    assert [path.name for path in tmp_path.glob("*.json")] == []


def test_a_table_has_the_slowest_modules_first_and_sums_up_the_others() -> None:
    times = {f"test_{number}.py": Times(1, float(number), 1.0) for number in range(module_times.SLOWEST + 2)}

    lines = list(module_times.table(times))

    assert lines[2] == "| `test_26.py` | 1 | 26 | 1 |"
    assert lines[-2] == "| 2 others | 2 | 1 | 2 |"
    assert lines[-1] == "| all | 27 | 351 | 27 |"


def test_the_table_in_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{module_times.BEGIN}\nold\n\n{module_times.END}after\n")

    module_times.write_page(page, ["new"])

    assert page.read_text() == f"before\n{module_times.BEGIN}\nnew\n\n{module_times.END}after\n"


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n")

    with pytest.raises(ValueError, match="has no line"):
        module_times.write_page(page, ["new"])


def test_a_folder_without_times_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert module_times.main([str(tmp_path)]) == 1

    assert "has no times" in capsys.readouterr().err


def test_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = {"test_a.py": {"tests": 3, "seconds": 1.0, "processor_seconds": 2.0}}
    (tmp_path / "1.json").write_text(json.dumps(content))

    assert module_times.main([str(tmp_path)]) == 0

    assert "| `test_a.py` | 3 | 1 | 2 |" in capsys.readouterr().out
