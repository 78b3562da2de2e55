"""The tools that run type checkers fail when a checker was killed, as by a system without memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"

CHECKER = """
import os, pathlib, signal
runs = pathlib.Path(__file__).with_name("runs")
with runs.open("a") as file:
    file.write("x")
if len(runs.read_text()) == 2:
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""A type checker that finds nothing; its second run is killed."""


@pytest.mark.parametrize(("tool", "runs"), [("check_types.py", 4), ("page_types.py", 2)])
def test_a_type_checker_that_is_killed_fails_the_check(tool: str, runs: int, tmp_path: Path) -> None:
    (tmp_path / "mypy.py").write_text(CHECKER)
    (tmp_path / "pyright.py").write_text(CHECKER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    code = subprocess.run([sys.executable, TOOLS / tool], env=environment, check=False, timeout=60).returncode

    assert code == 1
    assert len((tmp_path / "runs").read_text()) == runs
