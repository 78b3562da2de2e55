"""The documentation shows what benchmarks have found: no figure of these tables is typed by hand."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

SUITE = {
    "results": [
        {
            "scenario": {"group": "partitions", "name": "100", "peers": ["ottla", "ottla-python", "confluent-kafka"]},
            "rows": [
                {"peer": "ottla", "rate": 4e6},
                {"peer": "ottla-python", "rate": 1.25e6},
                {"peer": "confluent-kafka", "rate": 1e6},
            ],
            "rates": {"ottla": {"middle": 3.0}, "ottla-python": {"middle": 1.0}},
            "cpu": {"ottla": {"middle": 0.25}, "ottla-python": {"middle": 0.9}},
        },
        {"scenario": {"group": "how many", "name": "100,000", "peers": ["ottla"]}, "rows": [], "rates": {}, "cpu": {}},
    ],
    "latencies": [{"load": "one at a time", "rows": {"java": {"p50": 180.4, "p99": 325.0, "p999": 900.0}}}],
}


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("published")


def test_the_pages_have_the_kept_results() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "publish.py", "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_each_kept_result_is_on_a_page(published: ModuleType) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in published.PAGES)

    summaries = importlib.import_module("published_summaries").SUMMARIES
    shown = {place["name"] for place in published.PLACE.finditer(text)}
    assert sorted(shown - summaries.keys()) == sorted(file.stem for file in published.RESULTS.glob("*.json"))
    assert shown >= summaries.keys()


def test_a_figure_that_was_typed_by_hand_is_replaced(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    kept = published.Published(
        command=["memory.py"], day="2026-01-01", python="", machine="", processors=2, versions={}, figures=[3]
    )
    kept.write("memory")
    page = "before\n<!-- figures: memory -->\n| 2 |\n<!-- end of figures -->\nafter\n"

    rendered = published.rendered(page, {"memory": lambda figures: [f"| {figures[0]} |"]})

    assert "| 3 |" in rendered
    assert "| 2 |" not in rendered
    assert "2026-01-01" in rendered
    assert rendered.startswith("before\n<!-- figures: memory -->\n")
    assert rendered.endswith("<!-- end of figures -->\nafter\n")
    assert published.rendered(rendered, {"memory": lambda figures: [f"| {figures[0]} |"]}) == rendered


def test_a_summary_has_figures_of_several_results(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    for name, figure in (("clients", 1.23), ("memory", 34)):
        published.Published(
            command=[], day="2026-01-01", python="", machine="", processors=2, versions={}, figures=[figure]
        ).write(name)
    page = "before\n<!-- figures: summary -->\n\n| 9 times | 5 |\n\n<!-- end of figures -->\nafter\n"

    summaries = {"summary": lambda kept: [f"| {kept('clients')[0]} times | {kept('memory')[0]} |"]}

    assert published.rendered(page, {}, summaries) == page.replace("9 times | 5", "1.23 times | 34")


def test_the_readme_has_the_scenarios_in_which_we_are_slower(published: ModuleType) -> None:
    """Of each of these groups, the README shows the scenario with the worst rate."""
    summaries = importlib.import_module("published_summaries")
    found = published.Published.read("clients").figures["results"]
    worst = dict[str, tuple[float, str]]()
    for each in found:
        group = each["scenario"]["group"]
        if each["rates"] and group in ("a record at a time", "size of a value", "partitions"):
            rate = min(rate["middle"] for rate in each["rates"].values())
            worst[group] = min(worst.get(group, (rate, "")), (rate, f"{group}: {each['scenario']['name']}"))

    assert {name for _rate, name in worst.values()} <= summaries.SITUATIONS.keys()
    table = "\n".join(summaries.comparison(lambda name: published.Published.read(name).figures))
    assert table.count(" % fewer |") > 5
    assert table in (published.ROOT / "README.md").read_text(encoding="utf-8")


def test_a_rate_below_one_is_shown_as_fewer(published: ModuleType) -> None:
    rates = {"ottla": {"middle": 1.84}, "ottla-python": {"middle": 0.52}}
    scenario = {"group": "size of a value", "name": "1 kB", "peers": ["ottla", "ottla-python", "confluent-kafka"]}
    found = {"results": [{"scenario": scenario, "rates": rates, "cpu": rates}, {"scenario": {}, "rates": {}}]}
    summaries = importlib.import_module("published_summaries")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summaries, "SITUATIONS", {"size of a value: 1 kB": "values of 1 kB"})
        lines = summaries.comparison({"clients": found}.__getitem__)

    assert lines[-1] == "| values of 1 kB | 1.8 times | 48 % fewer | 184 % | 52 % |"


def test_rates_and_latencies_are_results_of_their_own(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    tables = importlib.import_module("published_tables").TABLES
    kept = published.Published(
        command=["suite.py"], day="2026-01-01", python="", machine="", processors=2, versions={}, figures=SUITE
    )
    for name in ("clients", "latency"):
        kept.write(name)
    page = "".join(f"<!-- figures: {place} -->\n<!-- end of figures -->\n" for place in ("clients", "latency"))

    rendered = published.rendered(page, tables)

    assert "| partitions: 100 | 3.00 (4.00) | 1.00 (1.25) | 0.25 | 0.90 |\n" in rendered
    assert "how many" not in rendered
    assert "| one at a time | java | 180 | 325 | 900 |\n" in rendered


def test_both_pythons_are_compared_round_by_round(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    tables = importlib.import_module("published_tables").TABLES
    steady = {"p50": 10.0, "p95": 15.0, "p99": 20.0, "all": 2_500.0}
    row = {"shape": "steady", "round_trip": 1.0, "part": ["p50", "p95", "p99"]}
    found = {
        "pythons": {"with": "CPython 3.13.15", "without": "CPython 3.13.15"},
        "rows": [
            {**row, "took": {"with": [steady, steady], "without": [{**steady, "p50": 5.0}, {**steady, "p50": 7.0}]}},
            {**row, "shape": "burst", "part": ["all"], "took": {"with": [steady], "without": [{**steady, "all": 5e3}]}},
        ],
    }
    published.Published.now(["distance_pythons.py"], found).write("distance-pythons")

    rendered = published.rendered("<!-- figures: distance-pythons -->\n<!-- end of figures -->\n", tables)

    assert "CPython 3.13.15 with the GIL and CPython 3.13.15 without the GIL" in " ".join(rendered.split())
    assert "| steady | 1 ms | median | 10.0 | 6.00 | 0.60 |\n" in rendered
    assert "| steady | 1 ms | p99 | 20.0 | 20.0 | 1.00 |\n" in rendered
    assert "| burst | 1 ms | until all are acknowledged | 2,500 | 5,000 | 2.00 |\n" in rendered
    assert "15.0" not in rendered


def test_a_comparison_of_two_pythons_is_measured_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    publish, measured = importlib.import_module("publish"), list[str]()
    monkeypatch.setattr(publish, "PAGES", ())
    monkeypatch.setattr(publish, "draw_pictures", lambda: None)
    monkeypatch.setattr(publish, "measured", lambda command: Kept(command, measured))

    publish.main([], standalone_mode=False)
    assert "start.py" in measured
    assert "distance_pythons.py" not in measured
    publish.main(["distance-pythons"], standalone_mode=False)
    assert measured[-1] == "distance_pythons.py"


class Kept:
    """A result that notes its benchmark instead of being written."""

    def __init__(self, command: Sequence[str], measured: list[str]) -> None:
        self._command, self._measured = command, measured

    def write(self, name: str) -> None:
        self._measured.append(self._command[0])
