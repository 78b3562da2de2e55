"""Blocks of code in README and documentation run with the wheels of our packages, without the sources."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from installation.clean_environment import PURE, ROOT, Environment, done, run
from long_forms import only_long

pytestmark = only_long("installs PySpark, compiles ottla-accel, and starts brokers")

OURS: Final = re.compile(r"-e \{tox_root\}/(?P<folder>[\w/-]+)(?P<extras>\[[\w,-]+\])?")
TESTS: Final = ("tests/test_documentation.py", "tests/test_plugin_guide.py")
FILES: Final = """
    import importlib, importlib.metadata, sys

    for module, packages in importlib.metadata.packages_distributions().items():
        if any(package.startswith("ottla") for package in packages) and module.isidentifier():
            print(importlib.import_module(module).__file__)
"""


def installed_for_tests() -> Iterator[str]:
    """Yield what the environment of the tests has, with our packages by their names."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    for line in filter(None, parser["testenv:tests"]["deps"].splitlines()):
        if match := OURS.fullmatch(line):
            project = tomllib.loads((ROOT / match["folder"] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            yield project["name"] + (match["extras"] or "")
        else:
            yield line


@pytest.mark.timeout(3600)
def test_each_block_runs_with_the_wheels_of_our_packages(environment: Environment) -> None:
    environment.install(*installed_for_tests())
    files = done(environment.program(FILES)).split()

    done(run(environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=ROOT))

    assert len(files) > len(PURE)
    assert [file for file in files if not Path(file).is_relative_to(environment.folder)] == []
