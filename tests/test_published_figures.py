"""The documentation shows what benchmarks have found: no figure of these tables is typed by hand."""

from __future__ import annotations

import importlib
import subprocess
import sys
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

    shown = {place["name"] for place in published.PLACE.finditer(text)}
    assert sorted(shown) == sorted(file.stem for file in published.RESULTS.glob("*.json"))


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


def test_a_result_may_have_several_tables(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    tables = importlib.import_module("published_tables").TABLES
    published.Published(
        command=["suite.py"], day="2026-01-01", python="", machine="", processors=2, versions={}, figures=SUITE
    ).write("clients")
    page = "".join(f"<!-- figures: {place} -->\n<!-- end of figures -->\n" for place in ("clients", "clients, latency"))

    rendered = published.rendered(page, tables)

    assert "| partitions: 100 | 3.00 (4.00) | 1.00 (1.25) | 0.25 | 0.90 |\n" in rendered
    assert "how many" not in rendered
    assert "| one at a time | java | 180 | 325 | 900 |\n" in rendered
