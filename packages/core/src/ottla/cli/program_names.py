"""Names of a Python program: what is called, which ones a function binds, and what they stand for."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs

from ottla.cli.program_settings import NOT_WRITTEN_OUT, Settings

AnyFunction: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@attrs.frozen
class Unknown:
    """What a name stands for that is no dict of settings, or one that is computed in this line."""

    line: int
    problem: str = f"computes the settings; {NOT_WRITTEN_OUT}"
    before: Settings | None = attrs.field(default=None, eq=False)
    """What the name stood for before."""


@attrs.define(eq=False)
class Scope:
    """Names of a module, a class or a function, and attributes, such as self.conf, that were set in it."""

    kind: type[ast.AST]
    names: dict[str, Settings | Unknown] = attrs.field(factory=dict)

    def bind(self, name: str, value: Settings | Unknown) -> None:
        """Give a name a value. A function that is called at any time may still change what it stood for before."""
        before = self.names.get(name)
        if isinstance(before, Unknown):
            before = before.before
        if before is not None and before is not value:
            if isinstance(value, Settings):
                value.may_be(before)
            else:
                value = attrs.evolve(value, before=before)
        self.names[name] = value

    @classmethod
    def of_function(cls, function: AnyFunction) -> Scope:
        """The scope of a function that was just called, with all names that are its own."""
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        elsewhere: set[str] = set()
        own = {each.arg: Unknown(each.lineno) for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        for node in (node for part in body for node in _in_scope(part)):
            if isinstance(node, ast.Global | ast.Nonlocal):
                elsewhere.update(node.names)
            own |= {name: Unknown(getattr(node, "lineno", 0)) for name in _bound(node)}
        return cls(ast.FunctionDef, {name: value for name, value in own.items() if name not in elsewhere})


class Names:
    """What names stand for in the scopes that can be read from one place, and whether that is certain."""

    def __init__(self) -> None:
        self.scopes = [Scope(ast.Module)]
        self.why_uncertain = ""
        self.at_any_time = False  # whether it happens whenever a function is called, and not where it is in the text
        self._uncertain: list[tuple[Scope, str, int]] = []

    @contextmanager
    def not_certain(self, why: str) -> Iterator[None]:
        """What is assigned and changed in here may be so at the call, or not."""
        why_before, uncertain = self.why_uncertain, self._uncertain
        self.why_uncertain, self._uncertain = why, []
        yield
        for scope, name, line in self._uncertain:
            scope.bind(name, Unknown(line, f"sets the settings {why}"))
        self.why_uncertain, self._uncertain = why_before, uncertain

    def named(self, node: ast.expr) -> Settings | Unknown | None:
        path = path_of(node)
        found = (scope.names.get(path) for scope in reversed(self.scopes) if path is not None)
        value = next((each for each in found if each is not None), None)
        return value.before or value if isinstance(value, Unknown) and self.at_any_time else value

    def bind(self, name: str, value: Settings | Unknown, *, line: int = 0) -> None:
        """Give a name a value in the scope that it belongs to: of a function's names, all own ones are known."""
        scope = self.scopes[-1]
        if scope.kind is ast.FunctionDef and "." not in name:
            scope = next((each for each in reversed(self.scopes) if name in each.names), self.scopes[0])
        scope.bind(name, value)
        if self.why_uncertain:
            self._uncertain.append((scope, name, line or getattr(value, "line", 0)))


def path_of(node: ast.expr) -> str | None:
    """A name, with the attributes after it, such as self.conf; None for other expressions."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if (before := path_of(value)) is not None:
            return f"{before}.{name}"
    return None


def function_name(function: ast.expr) -> str:
    """The last name of what is called; no text for other expressions."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def way_to(node: ast.AST, target: ast.AST) -> list[ast.AST]:
    """The nodes from one to another that is in it, both included; none if it is elsewhere."""
    if node is target:
        return [node]
    for child in ast.iter_child_nodes(node):
        if way := way_to(child, target):
            return [node, *way]
    return []


def uses(statement: ast.stmt, names: Collection[str]) -> bool:
    """Whether a statement, without the functions that it defines, uses one of these names."""
    return any(isinstance(node, ast.Name) and node.id in names for node in _in_scope(statement))


def _in_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without those in another scope."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _in_scope(child)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, without those that its parts bind."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
