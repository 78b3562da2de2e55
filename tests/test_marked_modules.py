"""Modules that a group of tests does not import, because `-m` would select nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from marked_modules import is_left_out

PACKAGES = Path(__file__).parent.parent / "packages"
GROUPS = ["unmeasured and not kafka and not spark", "not kafka and not spark and not unmeasured"]

MEASURED = "def test_it(): ...\n"
UNMEASURED = "pytestmark = pytest.mark.unmeasured  # it traces calls itself\n"
IN_A_LIST = "pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.unmeasured,\n]\n"
SINGLE_TESTS = "pytestmark = pytest.mark.slow\n\n\n@pytest.mark.unmeasured\ndef test_it(): ...\n"
AFTER_THE_LIST = "pytestmark = [pytest.mark.slow]\n\n\n@pytest.mark.unmeasured\ndef test_it(): ...\n"


THOROUGH = 'pytestmark = [pytest.mark.kafka, pytest.mark.thorough("ten minutes")]\n'
BOTH = "pytestmark = pytest.mark.unmeasured\n\n\n@pytest.mark.thorough\ndef test_it(): ...\n"


def left_out(folder: Path, source: str, *groups: str) -> list[bool]:
    module = folder / "test_module.py"
    module.write_text(source)
    return [is_left_out(module, group) for group in groups]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (MEASURED, [True, False]),
        (UNMEASURED, [False, True]),
        (IN_A_LIST, [False, True]),
        (SINGLE_TESTS, [False, False]),
        (AFTER_THE_LIST, [False, False]),
    ],
)
def test_a_group_imports_the_modules_that_have_tests_for_it(tmp_path: Path, source: str, expected: list[bool]) -> None:
    assert left_out(tmp_path, source, *GROUPS) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (MEASURED, [True, False]),
        (UNMEASURED, [True, False]),
        (THOROUGH, [False, True]),
        (THOROUGH.replace("[", "[\n    "), [False, True]),
        (BOTH, [False, False]),
    ],
)
def test_the_gate_does_not_import_what_only_thorough_runs(tmp_path: Path, source: str, expected: list[bool]) -> None:
    assert left_out(tmp_path, source, "kafka and thorough", "kafka and not spark and not thorough") == expected


@pytest.mark.parametrize("markers", ["", "kafka", "not unmeasured or kafka", "not (unmeasured)"])
def test_other_choices_of_markers_import_every_module(tmp_path: Path, markers: str) -> None:
    for source in (MEASURED, UNMEASURED, IN_A_LIST, SINGLE_TESTS):
        assert left_out(tmp_path, source, markers) == [False]


def test_files_that_are_no_test_modules_are_not_left_out() -> None:
    assert not any(is_left_out(path, group) for path in PACKAGES.glob("*/tests/conftest.py") for group in GROUPS)


def test_most_modules_are_imported_by_one_group_only() -> None:
    modules = [path for path in PACKAGES.glob("*/tests/test_*.py") if path.parent.parent.name != "spark"]
    both = [path for path in modules if not any(is_left_out(path, group) for group in GROUPS)]

    assert len(both) < len(modules) / 10
