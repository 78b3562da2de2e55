"""Java's producer and Ottla do the same in a simulated cluster, except for differences that are listed with reasons.

Each script runs with both. Compared are the outcomes of calls and of records, the logs, and the requests in order.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import attrs
import pytest
from long_forms import share
from producer_scripts import SCRIPTS
from script_runs import JavaProcess, OttlaPeer, Run, ScriptRun

pytestmark = pytest.mark.kafka

AT_ONCE: Final = 16
"""Scripts that run at the same time. Most of their time is waiting."""

ROOT: Final = Path(__file__).parent.parent
DIFFERENCES: Final = tomllib.loads((ROOT / "tests" / "java_differences.toml").read_text("utf-8"))["difference"]
DIFFERENT: Final = {script for each in DIFFERENCES for script in each["scripts"]}
CHOSEN: Final = [
    *share(sorted(SCRIPTS.keys() - DIFFERENT), gate=8, why="the gate has some of the scripts without a difference"),
    *sorted(DIFFERENT),
]
"""All scripts; a change of what Ottla does shows first in those that have a difference."""


@attrs.frozen
class Pair:
    """The runs of one script."""

    java: Run
    ottla: Run


@pytest.fixture(scope="module")
def pairs(request: pytest.FixtureRequest) -> Mapping[str, Pair | Exception]:
    """The runs of all scripts of the tests that were chosen, with one Java; or why one has failed.

    Those that differ run again, alone: the scripts have time-outs of a second, which many of them at once on a busy
    machine may miss, in Java or here. What is different for another reason is different again.
    """
    chosen = {item.callspec.params.get("script") for item in request.session.items if hasattr(item, "callspec")}
    scripts = {name: script for name, script in SCRIPTS.items() if name in chosen}
    with JavaProcess.running() as java, ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {
            name: (
                pool.submit(ScriptRun(script, java.peer(name.replace(" ", "-"))).run),
                pool.submit(ScriptRun(script, OttlaPeer()).run),
            )
            for name, script in scripts.items()
        }
        found = {name: pair(*both) for name, both in runs.items()}
        for name in [name for name, both in found.items() if isinstance(both, Exception) or not as_listed(name, both)]:
            again = ScriptRun(scripts[name], java.peer(f"{name.replace(' ', '-')}-again"))
            found[name] = pair(pool.submit(again.run), pool.submit(ScriptRun(scripts[name], OttlaPeer()).run))
        return found


def pair(java: Future[Run], ottla: Future[Run]) -> Pair | Exception:
    """Wait for both runs of a script."""
    failure = java.exception() or ottla.exception()
    return failure if isinstance(failure, Exception) else Pair(java.result(), ottla.result())


def differing(java: Run, ottla: Run) -> Sequence[str]:
    """The lines that only one of them has."""
    ours = [without_name(line) if without_name(line) in java.lines() else line for line in ottla.lines()]
    lines = difflib.unified_diff(java.lines(), ours, "java", "ottla", lineterm="", n=0)
    return [f"{line[0]} {line[1:]}" for line in list(lines)[2:] if not line.startswith("@@")]


def without_name(line: str) -> str:
    """A failure without the name of its error: for some, Java has only a KafkaException with a text."""
    return re.sub(r" (error|refused) [A-Z_]+$", r" \1 Kafka", line)


def listed(script: str) -> Sequence[str]:
    """The lines in which a script's runs may differ, and do."""
    return [line for each in DIFFERENCES for line in each["scripts"].get(script, ())]


def as_listed(script: str, both: Pair) -> bool:
    """Whether the runs of a script differ only in these lines."""
    return sorted(differing(both.java, both.ottla)) == sorted(listed(script))


@pytest.mark.parametrize("script", CHOSEN)
def test_java_and_ottla_differ_only_where_it_is_explained(pairs: Mapping[str, Pair | Exception], script: str) -> None:
    both = pairs[script]
    if isinstance(both, Exception):
        raise both
    java, ottla = both.java, both.ottla

    differences = "\n".join(["Java:", *java.lines(), "Ottla:", *ottla.lines()])
    assert as_listed(script, both), f"{sorted(differing(java, ottla))}\n{differences}"
    assert java.misunderstood == ottla.misunderstood == []
    assert ottla.denied_in_vain == []


def test_each_difference_has_a_reason_and_a_script() -> None:
    for each in DIFFERENCES:
        assert each["reason"].endswith(".")
        assert each["scripts"]
        assert each["scripts"].keys() <= SCRIPTS.keys()


def test_the_page_about_reliability_has_the_numbers_of_scripts() -> None:
    page = " ".join((ROOT / "docs" / "reliability.md").read_text("utf-8").split())

    assert f"each follow {len(SCRIPTS)} scripts" in page
    assert f"{len(SCRIPTS) - len(DIFFERENT)} of them have no difference" in page
