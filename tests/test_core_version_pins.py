"""Packages that use private parts of the core are bound to exactly its version."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ottla

PACKAGES = Path(__file__).resolve().parents[1] / "packages"


@pytest.mark.parametrize(("package", "core"), [("accel", "ottla"), ("spark", "ottla[arrow]")])
def test_the_package_requires_exactly_the_core_of_its_release(package: str, core: str) -> None:
    project = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text())["project"]

    assert f"{core}=={ottla.__version__}" in project["dependencies"]
