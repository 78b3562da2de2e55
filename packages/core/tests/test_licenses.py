"""docs/licenses.md: all that is imported, with licenses that are allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
TOOL: Final = ROOT / "tools" / "licenses.py"
PAGE: Final = Path("docs", "licenses.md")


def run(root: Path, *options: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, TOOL, "--root", root, *options], capture_output=True, text=True, check=False, timeout=120
    )
    assert not ended.stderr
    return ended.returncode, ended.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository whose package requires pytest and, for tests, hypothesis."""
    package = tmp_path / "packages" / "core"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text('[project]\nname = "ottla"\ndependencies = ["pluggy>=1"]\n')
    (tmp_path / "tox.ini").write_text("[testenv:tests]\ndeps =\n    -e packages/core\n    # why\n    hypothesis>=6\n")
    (tmp_path / "docs").mkdir()
    assert run(tmp_path) == (0, "")
    return tmp_path


def require(tree: Path, *names: str) -> None:
    lines = ", ".join(f'"{name}"' for name in names)
    (tree / "packages" / "core" / "pyproject.toml").write_text(
        f'[project]\nname = "ottla"\ndependencies = ["pluggy>=1", {lines}]\n'
    )


def test_the_page_lists_installed_packages_and_all_are_allowed() -> None:
    assert run(ROOT, "--check") == (0, "")


def test_the_page_separates_dependencies_of_packages_and_of_tests(tree: Path) -> None:
    packages, tests = (tree / PAGE).read_text().split("## Imported by packages")[1].split("## Imported by tests only")

    assert "| pluggy | MIT |" in packages
    assert "| hypothesis | MPL-2.0 |" in tests
    assert "| sortedcontainers | Apache-2.0 |" in tests  # which hypothesis requires


def test_a_dependency_that_the_page_lacks_is_found(tree: Path) -> None:
    require(tree, "iniconfig")

    assert run(tree, "--check") == (1, "docs/licenses.md lacks iniconfig: run python tools/licenses.py\n")


def test_a_license_for_tests_only_is_refused_in_a_package(tree: Path) -> None:
    require(tree, "hypothesis")

    code, printed = run(tree)

    assert code == 1
    assert "hypothesis: its license MPL-2.0 is not allowed here\n" in printed


def test_crc32c_is_the_only_exception(tree: Path) -> None:
    require(tree, "crc32c")

    assert run(tree) == (0, "")
    assert "| crc32c | LGPL-2.1-or-later |" in (tree / PAGE).read_text()


def test_a_dependency_of_unknown_license_is_refused(tree: Path) -> None:
    require(tree, "not-installed-anywhere")

    code, printed = run(tree)

    assert code == 1
    assert "not-installed-anywhere: no license in its metadata" in printed


def test_a_dependency_that_nothing_requires_is_found(tree: Path) -> None:
    require(tree, "iniconfig")
    run(tree)
    require(tree, "pluggy")

    assert run(tree, "--check")[1] == (
        "docs/licenses.md lists iniconfig, which nothing requires any more: run python tools/licenses.py\n"
    )


def test_a_page_that_was_edited_is_found(tree: Path) -> None:
    (tree / PAGE).write_text((tree / PAGE).read_text().replace("# Licenses", "# Licences"))

    assert "was changed by hand" in run(tree, "--check")[1]
