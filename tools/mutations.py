"""Mutations of a module's source: each is one small change that a test should notice.

Decides what is changed and into what; knows nothing of tests. Left out is what no test of behaviour can notice:
annotations, docstrings, texts, assertions, log lines, and blocks under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import attrs

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS: Final = ("log", "_log", "logger", "logging", "warnings")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen(kw_only=True)
class Mutation:
    """One change: the bytes *start* to *end* of a module become *after*.

    `place` is the outermost function around it, or the class, or "". `function_line` is the first line of that
    function, 0 if the change is outside of functions. `number` counts equal changes of one place.
    """

    path: str
    place: str
    before: str
    after: str
    line: int
    end_line: int
    start: int
    end: int
    function_line: int
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What identifies the change, also after other lines of the module have changed."""
        return self.path, self.place, self.before, self.after, self.number

    def apply(self, source: bytes) -> bytes:
        """Return the module with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def rank(self, seed: int) -> bytes:
        """The place of the change in the random order of a seed. It stays the same if other changes come or go."""
        return blake2b(repr((seed, *self.key)).encode(), digest_size=16).digest()


def mutations(path: str, source: bytes) -> list[Mutation]:
    """All mutations of a module, in the order of its lines."""
    found: list[Mutation] = []
    count: dict[tuple[str, str, str, str, int], int] = {}
    for mutation in _Finder(path, source).module():
        number = count[mutation.key] = count.get(mutation.key, -1) + 1
        found.append(attrs.evolve(mutation, number=number))
    return sorted(found, key=lambda mutation: (mutation.start, mutation.end))


class _Finder:
    """The mutations of one module, found from the top to the leaves of its syntax tree."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._place = ""
        self._function_line = 0

    def module(self) -> Iterator[Mutation]:
        yield from self._statements(ast.parse(self._source).body)

    def _statements(self, body: list[ast.stmt]) -> Iterator[Mutation]:
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutation]:
        match node:
            case ast.ClassDef():
                yield from self._inside(node, node.body, function=False)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not _overloaded(node):
                    yield from self._inside(node, node.body, function=True)
            case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Pass():
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("__"):
                return
            case ast.Expr(value=value) if _logs(value) or isinstance(value, ast.Constant):
                return
            case ast.AnnAssign():
                if node.value is not None and not _is_type_alias(node):
                    yield from self._expression(node.value)
                    yield from self._removal(node)
            case ast.Raise():
                yield from self._replaced(node, "pass")
            case _:
                yield from self._removal(node)
                yield from self._parts(node)

    def _inside(self, node: ast.ClassDef | Function, body: list[ast.stmt], *, function: bool) -> Iterator[Mutation]:
        outer = self._place, self._function_line
        if not self._function_line:  # changes of a function in a function are changes of the outer one
            self._place = f"{self._place}.{node.name}".lstrip(".")
            if function:
                self._function_line = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if _returns_none(body[-1]):
            body = body[:-1]  # without it, the function does the same
        yield from self._statements(body)
        self._place, self._function_line = outer

    def _removal(self, node: ast.stmt) -> Iterator[Mutation]:
        """Leave a statement out."""
        match node:
            case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()) | ast.Delete():
                yield from self._replaced(node, "pass")
            case ast.AugAssign():
                yield from self._replaced(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) if self._function_line:
                yield from self._replaced(node, "pass")
            case ast.Break():
                yield from self._replaced(node, "continue")
            case ast.Continue():
                yield from self._replaced(node, "break")
            case ast.Return() if _returns_none(node):
                yield from self._replaced(node, "pass")
            case ast.Return(value=ast.Constant(value=bool())):
                return  # its value is changed
            case ast.Return():
                yield from self._replaced(node, "return None")
            case _:
                return

    def _parts(self, node: ast.AST) -> Iterator[Mutation]:
        """The changes of what a statement or an expression consists of."""
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment", "decorator_list", "type_params"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.keyword) and part.arg == "strict":
                    continue  # of `zip`: it checks what holds anyway, as an assertion does
                if isinstance(part, ast.stmt):
                    yield from self._statement(part)
                elif isinstance(part, ast.expr):
                    yield from self._expression(part)
                elif isinstance(
                    part, ast.comprehension | ast.keyword | ast.withitem | ast.ExceptHandler | ast.match_case
                ):
                    yield from self._parts(part)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield from self._replaced(node.test, f"(not ({self._text(node.test)}))")

    def _expression(self, node: ast.expr) -> Iterator[Mutation]:
        match node:
            case ast.JoinedStr():
                return
            case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
                yield from self._changed(node, ops=[COMPARISONS[type(operator)]()])
            case ast.BoolOp(values=values):
                yield from self._changed(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
                for value in values:
                    kept = [f"({self._text(each)})" for each in values if each is not value]
                    word = " and " if isinstance(node.op, ast.And) else " or "
                    yield from self._replaced(node, f"({word.join(kept)})")
            case ast.UnaryOp(op=ast.Not()):
                yield from self._replaced(node, f"({self._text(node.operand)})")
            case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text(node):
                yield from self._changed(node, op=OPERATORS[type(operator)]())
            case ast.Constant(value=bool(value)):
                yield from self._replaced(node, str(not value))
            case ast.Constant(value=int() | float() as value):
                yield from self._replaced(node, repr(value + 1))
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                yield from self._replaced(node.func, FUNCTIONS[name])
            case ast.Call() if _logs(node):
                return
            case _:
                pass
        yield from self._parts(node)

    def _changed(self, node: ast.expr, **fields: object) -> Iterator[Mutation]:
        changed = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(changed, name, value)
        yield from self._replaced(node, f"({ast.unparse(changed)})")

    def _replaced(self, node: ast.expr | ast.stmt, after: str) -> Iterator[Mutation]:
        start, end = self._span(node)
        yield Mutation(
            path=self._path,
            place=self._place,
            before=self._text(node),
            after=after,
            line=node.lineno,
            end_line=node.end_lineno or node.lineno,
            start=start,
            end=end,
            function_line=self._function_line,
        )

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()


def _logs(node: ast.expr) -> bool:
    """Return whether an expression is a call of a logger, such as `log.warning(...)` or `self._log.error(...)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = node.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in LOGGERS


def _overloaded(node: Function) -> bool:
    return any(
        isinstance(each, ast.Name | ast.Attribute) and "overload" in ast.unparse(each) for each in node.decorator_list
    )


def _returns_none(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and (
        node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    )


def _is_type_alias(node: ast.AnnAssign) -> bool:
    return "TypeAlias" in ast.unparse(node.annotation)


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operator joins or formats texts, which is no arithmetic."""
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in (node.left, node.right)
    )
