"""Dicts of settings in a Python program, followed statement by statement up to one call. Nothing of it is run.

Followed are dict displays, `dict(...)`, copies, `|`, assignments, and the methods that change a dict. A change under a
condition, in another function or with computed keys is noted in the dict as one that was not understood.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from ottla.cli.program_expressions import COMPREHENSIONS, UNDER_A_CONDITION, Expressions
from ottla.cli.program_names import AnyFunction, Names, Scope, Unknown, function_name, uses, way_to
from ottla.cli.program_settings import Settings

_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Reader:
    """What the names of a program stand for when it comes to *call*."""

    def __init__(self, module: ast.Module, call: ast.Call) -> None:
        self._way = way_to(module, call)
        self._names = Names()
        self._expressions = Expressions(self._names, self._function)
        self._entered: tuple[AnyFunction, list[Scope]] | None = None
        self._definitions = {each.name for each in self._way if isinstance(each, _DEFINITIONS)}
        self._called = ""  # in a scope whose function makes the producer: what may have made it already
        self._others: list[tuple[AnyFunction, list[Scope]]] = []
        self._reached = False
        self._block(module.body)
        while self._entered is not None and not self._reached:
            entered, self._entered = self._entered, None
            self._read_other_functions()
            self._called = ""
            self._enter(*entered)
        self._read_other_functions()

    def settings_of(self, node: ast.expr) -> Settings | Unknown:
        """The settings that an expression stands for, or where they are computed."""
        return self._expressions.value(node) or self._names.named(node) or Unknown(node.lineno)

    # Functions, and statements that are not certain

    def _function(self, function: AnyFunction) -> None:
        """Note a function, to read it when its scope has been read."""
        self._heads([*function.args.defaults, *(each for each in function.args.kw_defaults if each is not None)])
        scopes = [scope for scope in self._names.scopes if scope.kind is not ast.ClassDef]
        if function in self._way:
            self._entered = function, scopes
        else:
            self._others.append((function, scopes))

    def _enter(self, function: AnyFunction, scopes: Sequence[Scope]) -> None:
        self._names.scopes = [*scopes, Scope.of_function(function)]
        if not isinstance(function, ast.Lambda):
            self._block(function.body)
        elif not self._ends(function.body):
            self._expressions.value(function.body)

    def _read_other_functions(self) -> None:
        """Read the functions that may have been called or not; their changes are not certain."""
        scopes, reached = self._names.scopes, self._reached
        self._reached, self._names.at_any_time, self._called = False, True, ""
        while self._others:
            function, outer = self._others.pop()
            name = "a lambda" if isinstance(function, ast.Lambda) else f"the function {function.name}"
            with self._names.not_certain(f"in {name}, if that is called"):
                self._enter(function, outer)
        self._names.scopes, self._reached, self._names.at_any_time = scopes, reached, False

    def _heads(self, heads: Sequence[ast.expr]) -> None:
        """Read what is evaluated when a function or class is defined."""
        for head in heads:
            if not self._ends(head):
                self._expressions.value(head)

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._reached:
                return
            if self._called:
                with self._names.not_certain(f"after {self._called} may have been called"):
                    self._statement(statement)
            else:
                self._statement(statement)
            if self._entered is not None and statement not in self._way and uses(statement, self._definitions):
                self._called = self._called or "the function that makes the producer"

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._heads(statement.decorator_list)
                self._names.bind(statement.name, Unknown(statement.lineno))
                self._function(statement)
            case ast.ClassDef():
                self._heads([*statement.bases, *statement.decorator_list])
                self._names.bind(statement.name, Unknown(statement.lineno))
                self._class(statement)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.Match():
                self._branches(statement)
            case ast.Try() | ast.TryStar():
                # Otherwise an exception may end the body, without the `else`, and the program goes on.
                certain = all(_leaves(handler.body) for handler in statement.handlers)
                read = self._block if certain else self._branch
                read(statement.body)
                for handler in statement.handlers:
                    self._branch(handler.body)
                read(statement.orelse)
                self._block(statement.finalbody)
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    if self._ends(item):
                        return
                    self._expressions.value(item.context_expr)
                    if item.optional_vars is not None:
                        self._expressions.assign(item.optional_vars)
                if any(_suppresses(item.context_expr) for item in statement.items):
                    self._branch(statement.body)
                else:
                    self._block(statement.body)
            case _ if not self._ends(statement):
                self._simple(statement)

    def _class(self, statement: ast.ClassDef) -> None:
        self._names.scopes.append(Scope(ast.ClassDef))
        self._block(statement.body)
        if not self._reached:
            self._names.scopes.pop()

    def _branches(self, statement: ast.If | ast.For | ast.AsyncFor | ast.While | ast.Match) -> None:
        """Read the branches of a statement: the one with the call, or the one that is certain, or all."""
        for head in (each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)):
            if self._ends(head):
                return
            if not isinstance(statement, ast.For | ast.AsyncFor) or head is not statement.target:
                self._expressions.value(head)
        if isinstance(statement, ast.For | ast.AsyncFor):
            self._expressions.assign(statement.target)
        if isinstance(statement, ast.Match):
            branches = [case.body for case in statement.cases]
        else:
            branches = [statement.body, statement.orelse]
        if isinstance(statement, ast.If) and (holds := _holds(statement.test)) is not None:
            self._block(branches[0] if holds else branches[1])
            return
        taken = [branch for branch in branches if any(each in self._way for each in branch)]
        for branch in taken or branches:
            self._branch(branch)

    def _branch(self, statements: Sequence[ast.stmt]) -> None:
        if any(each in self._way for each in statements):
            self._block(statements)
        else:
            with self._names.not_certain(self._names.why_uncertain or UNDER_A_CONDITION):
                self._block(statements)

    def _ends(self, node: ast.AST) -> bool:
        """Whether the call is made in a node, and not in a function that is in it and called later."""
        if node not in self._way:
            return False
        way = self._way[self._way.index(node) :]
        if any(isinstance(each, ast.Lambda) for each in way):
            return False
        for each in way:
            if isinstance(each, COMPREHENSIONS):
                for generator in each.generators:
                    self._expressions.assign(generator.target)
        self._reached = True
        return True

    def _simple(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self._expressions.value(value)
                for target in targets:
                    self._expressions.assign(target, value, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._expressions.assign(target, value, self._expressions.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._expressions.assign_augmented(target, op, value)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._expressions.delete(target)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    self._names.bind((alias.asname or alias.name).partition(".")[0], Unknown(statement.lineno))
            case _:
                self._expressions.values(each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr))


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether the program does not go on after a block: it raises, returns, or ends."""
    match statements[-1]:
        case ast.Raise() | ast.Return() | ast.Continue() | ast.Break():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return function_name(function) in ("exit", "_exit", "abort", "fail")
    return False


def _suppresses(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and function_name(context.func) == "suppress"


def _holds(test: ast.expr) -> bool | None:
    """Whether a condition holds in a program that is run; None if that is not certain."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Compare(ast.Name(id="__name__"), [ast.Eq()]):
            return True
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
    return None
