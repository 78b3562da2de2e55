"""The documentation shows what benchmarks have found: no figure of these tables is typed by hand."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


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

    shown = [place["name"] for place in published.PLACE.finditer(text)]
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
