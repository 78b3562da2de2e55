"""Every rule has a test, every marker names a rule, and the page that says so is current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "rules.py"


def run(root: Path, *options: str) -> str:
    """The tool's output for a tree."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--root", str(root), *options], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == (1 if done.stdout else 0)
    return done.stdout


def test_every_rule_has_a_test_and_the_page_is_current() -> None:
    assert run(ROOT, "--check") == ""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one rule that a test keeps, one for later, and a current page."""
    tests = tmp_path / "packages" / "core" / "tests"
    tests.mkdir(parents=True)
    (tests / "rules.toml").write_text(
        '[parts]\npool = "Memory"\n'
        '[[rule]]\nid = "pool.fair"\nsays = "No call waits twice."\n'
        '[[rule]]\nid = "pool.metrics"\nsays = "All is counted."\nlater = "metrics"\n'
    )
    (tests / "test_pool.py").write_text(marked("pool.fair", "no_call_waits_twice"))
    assert run(tmp_path) == ""
    assert run(tmp_path, "--check") == ""
    return tmp_path


def marked(rule: str, name: str) -> str:
    return f"import pytest\n\n\n@pytest.mark.rule({rule!r})\ndef test_{name}() -> None:\n    raise SystemExit\n"


def rewrite(tree: Path, old: str, new: str, *, file: str = "packages/core/tests/rules.toml") -> None:
    before = (tree / file).read_text()
    assert old in before
    (tree / file).write_text(before.replace(old, new))


def test_the_page_links_each_rule_to_its_tests(tree: Path) -> None:
    page = (tree / "docs" / "rules.md").read_text()

    assert (
        "- **pool.fair** No call waits twice.\n    - [no call waits twice](../packages/core/tests/test_pool.py)" in page
    )
    assert "Not yet:\n\n- **pool.metrics** (metrics) All is counted." in page


def test_a_rule_without_a_test_is_reported(tree: Path) -> None:
    rewrite(tree, "mark.rule", "mark.other", file="packages/core/tests/test_pool.py")

    assert "pool.fair: no test carries this rule (No call waits twice.)\n" in run(tree, "--check")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@pytest.mark.rule", "@pytest.mark.thorough('x')\n@pytest.mark.rule"),
        ("import pytest\n", "import pytest\n\npytestmark = [pytest.mark.slow, pytest.mark.thorough('x')]\n"),
    ],
)
def test_a_rule_whose_tests_are_all_thorough_is_reported(tree: Path, old: str, new: str) -> None:
    rewrite(tree, old, new, file="packages/core/tests/test_pool.py")

    assert "pool.fair: `tox` has no test of this rule, because all are thorough" in run(tree, "--check")


def test_a_marker_without_a_rule_is_reported(tree: Path) -> None:
    (tree / "tests").mkdir()
    (tree / "tests" / "test_more.py").write_text(marked("pool.unfair", "more"))

    assert "tests/test_more.py: test_more carries pool.unfair, which is no rule\n" in run(tree, "--check")


def test_a_later_rule_that_already_has_a_test_is_reported(tree: Path) -> None:
    (tree / "packages" / "core" / "tests" / "test_more.py").write_text(marked("pool.metrics", "more"))

    assert "pool.metrics: has a test, so it is not for later (metrics) any more\n" in run(tree, "--check")


def test_a_duplicate_rule_or_one_without_a_part_is_reported(tree: Path) -> None:
    rewrite(tree, '"pool.metrics"', '"pool.fair"')
    rewrite(tree, "pool = ", "other = ")

    reported = run(tree, "--check")

    assert "pool.fair is there twice\n" in reported
    assert "pool.fair is of no part" in reported


def test_an_outdated_page_is_reported_and_rewritten(tree: Path) -> None:
    rewrite(tree, "No call waits twice.", "No call waits long.")

    assert run(tree, "--check") == "docs/rules.md is stale: run python tools/rules.py\n"
    assert run(tree) == ""
    assert run(tree, "--check") == ""
