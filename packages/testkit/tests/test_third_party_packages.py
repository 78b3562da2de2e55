"""Plugins that others wrote from the pages alone, in third_party_packages: they pass, and mistakes in them are found.

A package has `VARIANTS` in its `variants.py`: a mistake's name, the file, the text that it replaces, the mistake, and a
part of the message that finds it, None if nothing does. The long form makes every mistake that is found, the short form
one in each package whose tests take seconds.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest
from _pytest.mark.structures import ParameterSet
from long_forms import LONG
from suite_runs import QUICKLY

FOLDER: Final = Path(__file__).parent / "third_party_packages"
PACKAGES: Final = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
SHORT: Final = 1
SLOW_PACKAGES: Final = (
    "ottla-encoder-plain",
    "ottla-interceptor-traceparent",
    "ottla-partitioner-hash-ring",
    "ottla-transport-line-proxy",
)
"""With a mistake, the tests of one of these take as much processor time as those of all others together."""
QUICK_PACKAGES: Final = ("ottla-serializer-msgpack", "ottla-config-dotenv")
"""The packages that the gate has, and of the first one a mistake."""
MISTAKES: Final = 10
LIMIT: Final = 300.0
ENDLESS: Final = ("the suite has taken", "did not return within")

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@attrs.frozen
class Mistake:
    """A change of one or two lines in a package, and a part of the message that names it."""

    name: str
    file: str
    right: str
    wrong: str
    message: str

    def make(self, package: Path) -> None:
        file = package / self.file
        text = file.read_text()
        assert text.count(self.right) == 1, f"{self.file} has {self.right!r} {text.count(self.right)} times"
        file.write_text(text.replace(self.right, self.wrong))


def mistakes(package: str) -> list[Mistake]:
    """Return the mistakes that the package's tests find."""
    variants = runpy.run_path(str(FOLDER / package / "variants.py"))["VARIANTS"]
    return [Mistake(*each) for each in variants if each[-1] is not None]


def for_gate(*values: object, is_in_gate: bool, name: str) -> ParameterSet:
    """Return a parameter, for the gate or for the thorough tests."""
    why = "the gate has packages of other kinds, the templates of all kinds, and mistakes in plugins of each kind"
    return pytest.param(*values, id=name, marks=[] if is_in_gate else pytest.mark.thorough(why))


def made() -> Iterator[object]:
    for package in PACKAGES:
        if package in SLOW_PACKAGES and not LONG:
            continue
        for mistake in mistakes(package)[: None if LONG else SHORT]:
            name = f"{package}-{mistake.name.replace(' ', '-')}"
            yield for_gate(package, mistake, is_in_gate=package in QUICK_PACKAGES[:1], name=name)


def install(package: str, folder: Path) -> Path:
    """Copy a package, with the metadata that an installed one has."""
    copy = folder / package
    shutil.copytree(FOLDER / package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((copy / "pyproject.toml").read_text())["project"]
    info = copy / "src" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata)
    groups = project["entry-points"].items()
    lines = [line for group, entries in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return copy


def run(package: Path, *, most_failures: int = 4) -> tuple[int, str]:
    """Run the package's tests as their author does; return the exit code and the output.

    Raises ModuleNotFoundError if they need a library that is not installed.
    """
    path = os.pathsep.join([str(package / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", *QUICKLY, f"--maxfail={most_failures}", "tests"]
    ended = subprocess.run(
        command, cwd=package, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=LIMIT
    )
    output = ended.stdout + ended.stderr
    missing = re.search(r"No module named '(\w+)'", output)
    if missing is not None and ended.returncode == pytest.ExitCode.INTERRUPTED:  # its tests cannot be imported
        raise ModuleNotFoundError(missing[0], name=missing[1])
    return ended.returncode, output


@pytest.mark.parametrize(
    "package", [for_gate(package, is_in_gate=package in QUICK_PACKAGES, name=package) for package in PACKAGES]
)
def test_a_package_written_from_the_pages_passes(tmp_path: Path, package: str) -> None:
    code, output = run(install(package, tmp_path))

    assert code == 0, output


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_mistakes_to_make(package: str) -> None:
    assert len(mistakes(package)) >= MISTAKES


@pytest.mark.parametrize(("package", "mistake"), list(made()))
def test_a_mistake_of_an_author_is_found_and_named(tmp_path: Path, package: str, mistake: Mistake) -> None:
    copy = install(package, tmp_path)
    mistake.make(copy)

    # What never ends in the suite, which goes on after a while, never ends in the package's own tests either.
    is_endless = any(words in mistake.message for words in ENDLESS)
    code, output = run(copy, most_failures=1 if is_endless else 4)

    assert code == 1, output
    assert mistake.message in output, output
