"""Sizes of classes and functions in the packages: more methods or lines than these are a second idea."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
METHODS: Final = 25
LINES: Final = 60

AnyFunction: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def definitions() -> Sequence[tuple[str, ast.ClassDef | AnyFunction]]:
    """The classes and functions of the packages, which take seconds to read, with their files."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path in sorted(ROOT.glob("packages/*/src/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | AnyFunction)
    ]


def lines_of(function: AnyFunction) -> int:
    """The lines of a function's body, without its docstring."""
    body = function.body if ast.get_docstring(function, clean=False) is None else function.body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_a_class_has_at_most_25_methods() -> None:
    large = {
        f"{path}: {node.name}": len(methods)
        for path, node in definitions()
        if isinstance(node, ast.ClassDef)
        # a property and its setter, and all overloads of a name, are one method
        and len(methods := {each.name for each in node.body if isinstance(each, AnyFunction)}) > METHODS
    }

    assert not large


def test_a_function_has_at_most_60_lines_besides_its_docstring() -> None:
    long = {
        f"{path}: {node.name}": lines_of(node)
        for path, node in definitions()
        if isinstance(node, AnyFunction) and lines_of(node) > LINES
    }

    assert not long
