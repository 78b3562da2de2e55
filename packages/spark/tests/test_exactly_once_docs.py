"""The pages of both guarantees name the tests of their promises, in comments and tables; they have these names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["spark-exactly-once", "spark-atomic"])
def test_every_test_named_on_the_page_exists(page: str) -> None:
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", (ROOT / "docs" / f"{page}.md").read_text()))
    modules = [
        *ROOT.glob("tests/test_spark_*.py"),
        *ROOT.glob("tests/spark_cluster/test_*.py"),
        *ROOT.glob("packages/spark/tests/test_*.py"),
        ROOT / "packages/core/tests/test_named_coordinators.py",
    ]
    there = {name for module in modules for name in re.findall(r"def (test_\w+)\(", module.read_text())}

    assert len(named) > 15
    assert named - there == set()
