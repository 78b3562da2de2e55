"""The public surface: it changes only on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RECORD = Path(__file__).with_name("public_surface.txt")
TOOL = ROOT / "tools" / "surface.py"

RECORDED_WITH = ("cpython", 3, 11)
"""The Python whose signatures are recorded: those of protocols and enums differ between versions."""


@pytest.mark.skipif(
    (sys.implementation.name, *sys.version_info[:2]) != RECORDED_WITH,
    reason="the surface is recorded with CPython 3.11",
)
def test_the_public_surface_is_the_recorded_one() -> None:
    script = (
        "import runpy, sys; sys.stdout.writelines(f'{line}\\n' for line in runpy.run_path(sys.argv[1])['surface']())"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(TOOL)], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    recorded = RECORD.read_text().splitlines()

    removed = [line for line in recorded if line not in found]
    added = [line for line in found if line not in recorded]
    assert (removed, added) == ([], []), (
        "the public surface has changed: see docs/stability.md for what may change; then run "
        "`python tools/surface.py` and add a fragment to changelog.d"
    )
    assert found == recorded


def test_every_recorded_module_is_named_on_the_page_of_stability() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    modules = {line.split("class ")[-1].split("(")[0].rpartition(".")[0] for line in RECORD.read_text().splitlines()}

    assert {name for name in modules if name.islower() and f"`{name}`" not in page} == set()
