"""docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = (ROOT / "docs" / "reliability.md").read_text("utf-8")
FOLDERS: Final = {"core": ROOT / "packages" / "core" / "tests", "tests": ROOT / "tests"}
TESTS: Final = sorted(set(re.findall(r"`(core|tests)/(test_\w+\.py)(?:::(test_\w+))?`", PAGE)))


@pytest.mark.parametrize(("folder", "module", "function"), TESTS)
def test_each_test_that_the_page_names_exists(folder: str, module: str, function: str) -> None:
    source = (FOLDERS[folder] / module).read_text("utf-8")

    assert not function or re.search(rf"^def {function}\(", source, re.MULTILINE)


def test_the_page_names_a_test_for_each_promise() -> None:
    [table] = re.findall(r"^\| promise \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    rows = [row for row in table.splitlines()[2:] if row]

    assert rows
    assert all("`core/test_" in row or "`tests/test_" in row for row in rows)
