"""Numbers and articles: nouns and verbs agree with their number, and "a" or "an" fits, in every error and log line."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ottla.errors import counted, were, with_article

pytestmark = pytest.mark.unmeasured

PACKAGES: Final = ("ottla", "ottla_transport_plaintext", "ottla_transport_ssl", "ottla_authenticator_sasl")

COUNTED: Final = "answer|attempt|batche|broker|call|certificate|failure|partition|pause|part|record|round|row|time"

BOTH_AT_ONCE: Final = re.compile(r"[a-z]\((s|es|ies)\)")
IN_A_LOG_LINE: Final = re.compile(rf"%d (\w+ ){{0,2}}({COUNTED})s\b")
ARTICLE: Final = re.compile(r"\b[Aa]n? $")
A_TYPE: Final = re.compile(r"\b(__name__|class_name|kind)\b")
IN_A_TEXT: Final = re.compile(r"^ ((more|other|failed) ){0,2}(attempt|call|failure|pause|record|round|row)s\b")

NEVER_ONE: Final = (
    "%d records: sending them in",  # one record is not split
    "%d batches for",
    " records in batches of ",
)
"""Texts whose number is of things that are hardly ever one."""


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "record", "1 record"),
        (2, "record", "2 records"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (11, "failed attempt", "11 failed attempts"),
    ],
)
def test_a_noun_has_a_plural_ending_unless_the_count_is_one(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Observer", "an Observer"),
        ("int", "an int"),
        ("NoneType", "a NoneType"),
        ("UnionType", "a UnionType"),
        ("AddPartitionsToTxn", "an AddPartitionsToTxn"),
    ],
)
def test_an_article_fits_its_name(name: str, text: str) -> None:
    assert with_article(name) == text


def test_the_verb_follows_the_number() -> None:
    assert [were(number) for number in (0, 1, 2)] == ["were", "was", "were"]


def texts(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each text, and whether a value stands before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, part in zip([None, *node.values], node.values, strict=False):
                if isinstance(part, ast.Constant):
                    yield str(part.value), isinstance(before, ast.FormattedValue)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, False


def wrong(source: str) -> list[str]:
    """Texts with a plural that one thing would have, too."""
    return [
        text
        for text, follows in texts(ast.parse(source))
        if BOTH_AT_ONCE.search(text) or IN_A_LOG_LINE.search(text) or (follows and IN_A_TEXT.search(text))
        if not any(each in text for each in NEVER_ONE)
    ]


def unfitting(source: str) -> list[str]:
    """Texts in which an article stands before the name of a type, which may begin with any letter."""
    return [
        f"{before.value!r} {ast.unparse(after)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr)
        for before, after in zip(node.values, node.values[1:], strict=False)
        if isinstance(before, ast.Constant) and isinstance(after, ast.FormattedValue)
        if ARTICLE.search(str(before.value)) and A_TYPE.search(ast.unparse(after))
    ]


@pytest.mark.parametrize("package", [*PACKAGES, "ottla_testkit"])
def test_no_article_stands_before_the_name_of_a_type(package: str) -> None:
    files = sorted(Path(str(importlib.import_module(package).__file__)).parent.rglob("*.py"))
    assert {file.name: found for file in files if (found := unfitting(file.read_text("utf-8")))} == {}


def test_a_wrong_article_is_detected() -> None:
    assert unfitting('f"it returned a {type(made).__name__}"')
    assert not unfitting('f"it returned {with_article(type(made).__name__)}"')


@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_has_a_plural_for_one_thing(package: str) -> None:
    files = sorted(Path(str(importlib.import_module(package).__file__)).parent.rglob("*.py"))
    assert {file.name: found for file in files if (found := wrong(file.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "line", ['"%d record(s) failed"', '"%s: %d more failed attempts: %s"', 'f"{n} rows were dropped"', 'f"{n} call(s)"']
)
def test_a_wrong_plural_is_detected_in_each_form(line: str) -> None:
    assert wrong(line)
    assert not wrong("f\"{counted(n, 'row')} of the table\"")
