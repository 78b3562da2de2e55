"""`OTTLA_MISSING` skips what needs a library that a Python cannot have, with the reason, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MODULE = "import no_such_library\n\ndef test_of_it():\n    pass\n"
TESTS = """
def test_with_the_library():
    import no_such_library.of_parts

def test_with_a_plugin_of_it():
    try:
        import no_such_library
    except ImportError as error:
        raise RuntimeError("the plugin cannot be used") from error

class PluginNotFoundError(Exception):
    pass

def test_with_a_plugin_that_no_distribution_offers():
    raise PluginNotFoundError("no encoder is named 'fast'; try: pip install no-such-library (installed: python)")

def test_with_a_plugin_that_needs_the_library():
    raise PluginNotFoundError("codec=fast needs the library no_such_library; try: pip install 'ottla[fast]'")

def test_with_a_plugin_of_another_distribution():
    raise PluginNotFoundError("no encoder is named 'fast'; try: pip install no-other-library (installed: python)")

def test_without_it():
    pass

def test_with_another_library():
    import no_other_library

def test_that_is_wrong():
    assert False
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "test_tests.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def outcomes(folder: Path, missing: str) -> str:
    """The summary of pytest for the tests of a folder."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "missing_libraries",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "-rs",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "OTTLA_MISSING": missing, "PYTHONPATH": str(ROOT / "tools"), "PYTEST_ADDOPTS": ""},
    )
    return ended.stdout


def test_modules_and_tests_that_need_a_missing_library_are_skipped(folder: Path) -> None:
    printed = outcomes(folder, "another,no_such_library")

    assert "3 failed, 1 passed, 5 skipped" in printed
    assert printed.count("there is no no_such_library for this Python") == 5


def test_a_missing_library_that_is_installed_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text("import colorsys\n\ndef test_of_it():\n    pass\n")

    printed = outcomes(tmp_path, "colorsys")

    assert "there is no colorsys for this Python" in printed
    assert "1 skipped" in printed


@pytest.mark.thorough("the gate skips what needs a missing library")
def test_a_library_that_is_not_named_as_missing_fails(folder: Path) -> None:
    assert "1 error" in outcomes(folder, "another")
