"""All packages have one version, the files of a release agree on it, and a tree that is not ready is not released."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from version import PLACES, differences, found, set_version, version_of

from documents import ROOT

PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The files that have the version, in a folder of their own."""
    for path, _version in found(ROOT):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_all_packages_and_pins_have_the_version_of_the_core() -> None:
    assert list(differences(ROOT)) == []


def test_every_package_is_among_the_files_with_a_version() -> None:
    names = {path.split("/")[1] for path, _version in found(ROOT) if path.endswith(".py")}

    assert sorted(names) == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_an_installed_package_has_this_version(package: str) -> None:
    name = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]["name"]

    assert version_of(ROOT) == metadata.version(name)


def test_the_tool_sets_the_version_in_every_file(copied: Path) -> None:
    before = {path for path, _version in found(copied)}

    set_version(copied, "7.8.9")

    assert {(path, "7.8.9") for path in before} == set(found(copied))


@pytest.mark.parametrize("pattern", [pattern for pattern, _expression in PLACES[1:]])
def test_a_file_with_another_version_is_named(pattern: str, copied: Path) -> None:
    old = version_of(copied)
    path = next(path for path, _version in found(copied) if (copied / path) in copied.glob(pattern))
    (copied / path).write_text((copied / path).read_text().replace(old, "0.0.7"))

    assert any(path in problem for problem in differences(copied))


def test_a_tag_of_another_version_is_not_released(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "release.py"), "build", "v99.0.0", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (1, f"v99.0.0 is not the tag of version {version_of(ROOT)}, which the packages have\n") == (
        ended.returncode,
        ended.stderr,
    )
