"""Numbers of things: each noun and verb agrees with its number, in every error and log line."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ottla.errors import counted, were

pytestmark = pytest.mark.unmeasured

PACKAGES: Final = ("ottla", "ottla_transport_plaintext", "ottla_transport_ssl", "ottla_authenticator_sasl")

COUNTED: Final = "answer|attempt|batche|broker|call|certificate|failure|partition|pause|part|record|round|row|time"

BOTH_AT_ONCE: Final = re.compile(r"[a-z]\((s|es|ies)\)")
IN_A_LOG_LINE: Final = re.compile(rf"%d (\w+ ){{0,2}}({COUNTED})s\b")
IN_A_TEXT: Final = re.compile(r"^ ((more|other|failed) ){0,2}(attempt|call|failure|pause|record|round|row)s\b")

NEVER_ONE: Final = (
    "%d records: sending them in",  # one record is not split
    "%d batches for",
    "%d certificates have expired, and",  # one is written in another way
    " records in batches of ",
    " rows for ",  # so many of all, or all of a table
    " rows from the table",
    " rows were taken",
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
