"""The Pythons that we support are the same in the documents, the packages' metadata, tox.ini and the hosted jobs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from documents import ROOT
from tox_environments import tox_environments

STABILITY: Final = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
SUPPORTED: Final = re.findall(r"(?m)^\| CPython (3\.\d+) \|", STABILITY)
GATE: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text(encoding="utf-8"))[
    "jobs"
]
INTERPRETERS: Final[Mapping[str, Any]] = GATE["interpreters"]
CLASSIFIER: Final = "Programming Language :: Python :: 3."


def matrix() -> Iterator[tuple[str, bool]]:
    """The Pythons of the hosted job, and whether their tests may fail."""
    values = INTERPRETERS["strategy"]["matrix"]
    yield from ((python, values["may-fail"][0]) for python in values["python"])
    yield from ((each["python"], each["may-fail"]) for each in values["include"])


def environment_of(python: str) -> str:
    """The environment that the job runs: the last argument of its last command."""
    script = INTERPRETERS["steps"][-1]["run"]
    ran = subprocess.run(
        ["bash", "-e", "-c", 'python() { echo "${@: -1}"; }\n' + script],
        env={"PYTHON": python},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout.strip()


def test_the_hosted_job_runs_each_python_of_tox() -> None:
    of_one_python = {name for name in tox_environments() if re.fullmatch(r"(py|pypy)3\d+t?", name)}

    assert {environment_of(python) for python, _ in matrix()} == of_one_python


def test_tests_must_pass_on_each_supported_python() -> None:
    with_brokers = next(step["with"] for step in GATE["gate"]["steps"] if "setup-python" in step.get("uses", ""))
    must_pass = {with_brokers["python-version"], *(python for python, may_fail in matrix() if not may_fail)}

    assert len(SUPPORTED) >= 4
    assert {*SUPPORTED} <= must_pass


def test_tests_may_fail_only_on_the_next_python_and_on_pypy() -> None:
    following = f"3.{int(SUPPORTED[-1].removeprefix('3.')) + 1}"

    first, *others = (python for python, may_fail in matrix() if may_fail)
    assert first.removesuffix("-dev") == following  # "-dev" as long as it is not released
    assert others == ["pypy-3.11"]


def test_the_metadata_of_each_package_names_the_supported_pythons() -> None:
    for path in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        named = [line for line in project["classifiers"] if line.startswith(CLASSIFIER)]

        assert named == [CLASSIFIER + version.removeprefix("3.") for version in SUPPORTED], path
        assert project["requires-python"] == f">={SUPPORTED[0]}", path


def test_wheels_of_compiled_code_are_built_for_the_supported_pythons() -> None:
    accel = tomllib.loads((ROOT / "packages/accel/pyproject.toml").read_text(encoding="utf-8"))

    tags = [f"cp{version.replace('.', '')}" for version in SUPPORTED]
    # Without the GIL only for the last one: cibuildwheel has no images for 3.13t.
    assert accel["tool"]["cibuildwheel"]["build"] == [f"{tag}-*" for tag in (*tags, f"{tags[-1]}t")]


def test_readme_names_the_supported_pythons() -> None:
    assert f"They run on CPython {SUPPORTED[0]} to {SUPPORTED[-1]}." in (ROOT / "README.md").read_text(encoding="utf-8")
