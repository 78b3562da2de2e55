"""Java's producer and Ottla do what both promise in random scripts: `compare_with_java.py` runs more of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from compare_with_java import AT_ONCE, RECORD
from producer_scripts import Script
from random_scripts import KINDS, random_script
from script_comparison import RULES, Comparison, compare
from script_runs import JavaProcess

SCRIPTS: Final[Mapping[int, Script]] = {
    seed: script
    for seed, script in ((seed, random_script(seed)) for seed in range(1, 38))
    if not any("delivery.timeout.ms=2500" in line for line in script.lines)
}
"""The first scripts, without those in which records time out: they take long."""

PAGE: Final = Path(__file__).parent.parent / "docs" / "reliability.md"


@pytest.fixture(scope="module")
def comparisons(request: pytest.FixtureRequest) -> Iterator[Mapping[int, Future[Comparison]]]:
    """The comparisons of all scripts of the tests that were chosen, with one Java."""
    chosen = {item.callspec.params.get("seed") for item in request.session.items if hasattr(item, "callspec")}
    logging.disable(logging.WARNING)  # they are about faults that are planned
    with JavaProcess.running() as java, ThreadPoolExecutor(AT_ONCE) as pool:
        yield {seed: pool.submit(compare, java, script) for seed, script in SCRIPTS.items() if seed in chosen}
    logging.disable(logging.NOTSET)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", SCRIPTS)
def test_java_and_ottla_do_the_same_in_a_random_script(
    comparisons: Mapping[int, Future[Comparison]], seed: int
) -> None:
    compared = comparisons[seed].result()

    assert not compared.unexplained, "\n".join([*compared.lines, *compared.script.lines])


def test_a_random_script_is_a_function_of_its_seed() -> None:
    assert random_script(7) == random_script(7)
    assert random_script(7).lines != random_script(8).lines


def test_random_scripts_have_all_kinds_of_producers() -> None:
    assert {random_script(seed).name.split()[0] for seed in range(100)} == set(KINDS)


def test_the_page_about_reliability_has_the_number_of_random_scripts() -> None:
    ranges = [line.split()[1].split("-") for line in RECORD.read_text().splitlines() if not line.startswith("#")]
    scripts = sum(int(last) - int(first) + 1 for first, last in ranges)
    page = " ".join(PAGE.read_text("utf-8").split())

    assert f"{scripts:,} random scripts" in page
    assert all(rule.reason.endswith(".") for rule in RULES)
