"""Names of tests: sentences under 70 characters, in the words of the glossary and of plain technical English."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).resolve().parents[3]
PLACES = (
    "packages/*/tests/**/*.py",
    "packages/*/src/*/conformance/**/*.py",
    "examples/*/tests/**/*.py",
    "tests/**/*.py",
)
LIMIT = 70

WORDS = re.compile(
    r"(?<![a-z0-9])(anew|beside|doors?|fares?|hopes?|hopeless|knock(?:s|ed)?|nobody|somebody|strangers?|storms?"
    r"|tells?|telling|told|vain|weather|who|whoever|whom|whichever|wherever|witness"
    r"|comes_to_nothing|far_end|goes_the_way_of|in_doubt|is_said|look_at|looked_at|looks_at|want_of)(?![a-z0-9])"
)
"""Words and phrases that test names do not use."""

OPENINGS = re.compile(r"test_(and|but|how|nor|or|that|those|what|whatever|why)_")
"""First words of a name that is not a sentence with a subject."""

EXCEPTIONS: frozenset[str] = frozenset()
"""Names that may keep such a word, each because it quotes a name or a text."""


@functools.cache
def names() -> Sequence[tuple[Path, str]]:
    """Return every test function's file and name."""
    return list(_names())


def _names() -> Iterator[tuple[Path, str]]:
    for path in sorted({path for place in PLACES for path in ROOT.glob(place)}):
        if "third_party_packages" in path.parts:  # as their authors named them
            continue
        for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield path.relative_to(ROOT), node.name


def problem(name: str) -> str | None:
    """Return the rule that *name* breaks."""
    if len(name) >= LIMIT:
        return f"has {len(name)} characters"
    if name in EXCEPTIONS:
        return None
    if found := WORDS.search(name):
        return f"has the word {found[1]}"
    return "starts without a subject" if OPENINGS.match(name) else None


def test_every_test_name_is_a_short_plain_sentence() -> None:
    problems = [f"{path}: {name} {found}" for path, name in names() if (found := problem(name))]

    assert problems == []


def test_every_exception_is_the_name_of_a_test() -> None:
    assert {name for _path, name in names()} >= EXCEPTIONS


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("test_a_batch_is_sent_after_its_linger", None),
        ("test_the_error_says_what_to_install", None),
        ("test_a_retold_story_of_vanity", None),
        ("test_a_caller_is_told_of_it", "has the word told"),
        ("test_records_are_sent_in_vain", "has the word vain"),
        ("test_what_is_sent_arrives", "starts without a subject"),
        ("test_" + 65 * "x", "has 70 characters"),
    ],
)
def test_a_name_that_breaks_a_rule_is_found(name: str, found: str | None) -> None:
    assert problem(name) == found
