"""Hosted workflows: actions are pinned, jobs have few rights and end in time, and only what was tried is published.

zizmor (`tox run -e audit`) has more rules. Here are those that it lacks, and those that no comment may switch off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from documents import ROOT

WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").iterdir())
RELEASE: Final = ROOT / ".github" / "workflows" / "release.yml"
USES: Final = re.compile(r"uses: +(\S+)(.*)")
WRITING: Final = {
    ("release", "publish"): {"attestations", "id-token"},
    ("release", "release"): {"contents"},
    ("release", "site"): {"id-token", "pages"},
}
"""The jobs that may write, and what."""

Job = Mapping[str, Any]


def read(path: Path) -> Mapping[str, Any]:
    workflow: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return workflow


def jobs() -> Iterator[tuple[tuple[str, str], Job]]:
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield (path.stem, name), job


def written(job: Job) -> set[str]:
    """What a job may write."""
    return {name for name, right in job["permissions"].items() if right == "write"}


def steps(job: Job, action: str) -> Sequence[Mapping[str, Any]]:
    """The steps of a job with this action."""
    return [step for step in job["steps"] if step.get("uses", "").startswith(f"{action}@")]


every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
every_job = pytest.mark.parametrize("job", [pytest.param(job, id="-".join(name)) for name, job in jobs()])
writing_job = pytest.mark.parametrize(
    "job", [pytest.param(read(RELEASE)["jobs"][name], id=name) for _, name in WRITING]
)


@every_workflow
def test_actions_are_pinned_by_hash_and_name_their_version(path: Path) -> None:
    lines = USES.findall(path.read_text(encoding="utf-8"))

    assert lines
    for action, comment in lines:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_an_action_has_one_version_in_all_workflows() -> None:
    uses = {line for path in WORKFLOWS for line in USES.findall(path.read_text(encoding="utf-8"))}

    assert len(uses) == len({action.split("@")[0] for action, _comment in uses})


@every_workflow
def test_a_workflow_gives_its_jobs_no_rights(path: Path) -> None:
    assert read(path)["permissions"] == {}


def test_only_the_last_jobs_of_a_release_may_write() -> None:
    assert {name: written(job) for name, job in jobs() if written(job)} == WRITING


@every_workflow
def test_no_workflow_reads_a_secret(path: Path) -> None:
    assert not re.search(r"\bsecrets\b", path.read_text(encoding="utf-8"))


@every_workflow
def test_a_newer_run_replaces_an_older_one_or_waits(path: Path) -> None:
    assert {"group", "cancel-in-progress"} == set(read(path)["concurrency"])


@every_job
def test_a_job_ends_in_time(job: Job) -> None:
    assert 0 < job["timeout-minutes"] <= 350


@every_job
def test_a_checkout_leaves_no_credentials(job: Job) -> None:
    for step in steps(job, "actions/checkout"):
        assert step["with"]["persist-credentials"] is False


@every_job
def test_no_command_has_an_expression_that_could_inject_code(job: Job) -> None:
    for step in job["steps"]:
        assert "${{" not in step.get("run", "")


def test_each_job_that_may_write_has_an_environment_of_its_own() -> None:
    environments = [job["environment"] for _name, job in jobs() if written(job)]
    names = {each if isinstance(each, str) else each["name"] for each in environments}

    assert len(names) == len(WRITING)


@writing_job
def test_a_job_that_may_write_executes_no_code_of_the_tree(job: Job) -> None:
    assert not steps(job, "actions/checkout")
    for step in job["steps"]:
        assert not re.search(r"\b(python|pip|tox|bash|sh)\b", step.get("run", ""))


def test_nothing_is_published_before_it_was_tried() -> None:
    release = read(RELEASE)["jobs"]

    assert "try" in release["publish"]["needs"]
    assert "publish" in release["release"]["needs"]
    assert "publish" in release["site"]["needs"]


@pytest.mark.parametrize("name", ["try", "publish", "release"])
def test_the_published_files_are_those_that_were_tried(name: str) -> None:
    job = read(RELEASE)["jobs"][name]
    (download,) = steps(job, "actions/download-artifact")

    assert "gather" in job["needs"]
    assert download["with"]["artifact-ids"] == "${{ needs.gather.outputs.artifact }}"
    assert "name" not in download["with"]
