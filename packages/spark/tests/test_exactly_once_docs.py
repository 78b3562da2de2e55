"""The page of exactly-once names a test for each of its promises; they are there under that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_named_on_the_page_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "spark-exactly-once.md").read_text()))
    modules = [
        *ROOT.glob("tests/test_spark_exactly_once*.py"),
        *ROOT.glob("tests/spark_cluster/test_exactly_once*.py"),
        *ROOT.glob("packages/spark/tests/test_exactly_once*.py"),
        ROOT / "packages/spark/tests/test_spark_calls.py",
    ]
    there = {name for module in modules for name in re.findall(r"def (test_\w+)\(", module.read_text())}

    assert len(named) > 15
    assert named - there == set()
