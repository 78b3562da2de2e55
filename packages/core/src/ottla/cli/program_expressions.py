"""What an expression of a program stands for if that is a dict of settings, and what it changes in such dicts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ottla.cli.program_names import Names, Unknown, function_name, path_of
from ottla.cli.program_settings import NOT_WRITTEN_OUT, Settings, text_in

_READING_METHODS: Final = frozenset({"copy", "get", "items", "keys", "values"})
_READING_FUNCTIONS: Final = frozenset({
    *("print", "pprint", "pformat", "len", "str", "repr", "sorted", "list", "tuple", "set", "bool", "type", "iter"),
    *("id", "isinstance", "enumerate", "any", "all", "dumps"),
    *("debug", "info", "warning", "error", "exception", "critical", "log"),
    *("Producer", "SerializingProducer", "AIOProducer", "KafkaProducer", "AIOKafkaProducer"),
    *("Consumer", "DeserializingConsumer", "AIOConsumer", "KafkaConsumer", "AIOKafkaConsumer"),
    *("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"),
})  # fmt: skip
"""Functions that do not change a dict that they get, by their last names."""
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
UNDER_A_CONDITION: Final = "under a condition"
_HOLDERS: Final = (ast.List, ast.Tuple, ast.Set, ast.IfExp, ast.BoolOp, ast.Yield)
"""Expressions from which a program may take a dict again, under another name."""


class Expressions:
    """Expressions and assignments of a program that is read in the order of its text. *later* gets its lambdas."""

    def __init__(self, names: Names, later: Callable[[ast.Lambda], None]) -> None:
        self._names = names
        self._later = later

    def values(self, nodes: Iterable[ast.expr]) -> None:
        for node in nodes:
            self.value(node)

    def value(self, node: ast.expr) -> Settings | None:
        """The settings that an expression stands for, None for others; what it changes is changed."""
        match node:
            case ast.Name() | ast.Attribute() if isinstance(named := self._names.named(node), Settings):
                return named
            case ast.Dict():
                return self._display(node)
            case ast.Call():
                return self._called(node)
            case ast.BinOp(first, ast.BitOr(), second):
                return self._joined([first, second])
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value)
                self.assign(target, value, found)
                return found
            case ast.Lambda():
                self._later(node)
                return None
            case ast.Attribute(value=of, attr=method) if (settings := self.value(of)) is not None:
                if method not in _READING_METHODS:  # it may be called later
                    self._not_read(settings, _text(node), node.lineno, f"{method} may change it")
                return None
        for place, part in enumerate(_expressions_in(node)):
            if isinstance(node, COMPREHENSIONS) or (place and isinstance(node, ast.BoolOp | ast.IfExp)):
                with self._names.not_certain(self._names.why_uncertain or UNDER_A_CONDITION):
                    held = self.value(part)
            else:
                held = self.value(part)
            if held is not None and isinstance(node, _HOLDERS):
                self._not_read(held, _text(part), part.lineno, "it may be changed under another name")
        return None

    def _display(self, node: ast.Dict) -> Settings:
        settings = Settings()
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.value(value)
            name = None if key is None else text_in(key)
            if key is None:
                self._add(settings, found, value)
            elif name is not None:
                settings.set(name, value, line=key.lineno)
            else:
                self.value(key)
                self._not_read(settings, f"{_text(key)}: ...", value.lineno)
            if found is not None and key is not None:
                self._not_read(found, _text(value), value.lineno, "it may be changed under another name")
        return settings

    def _joined(self, parts: Sequence[ast.expr]) -> Settings | None:
        found = [(part, self.value(part)) for part in parts]
        if all(each is None for _part, each in found):
            return None
        settings = Settings()
        for part, each in found:
            self._add(settings, each, part)
        return settings

    def _called(self, call: ast.Call) -> Settings | None:
        name = function_name(call.func)
        if isinstance(call.func, ast.Attribute):
            settings = self.value(call.func.value)
            if settings is not None:
                return self._method(settings, call, call.func)
            self._may_be_changed_by_method(call.func)
        else:
            self.value(call.func)
        if name == "dict" and len(call.args) <= 1:
            return self._constructed(call)
        values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is not None)]
        given = [(value, self.value(value)) for value in values]
        self.values(keyword.value for keyword in call.keywords if keyword.arg is None)
        if name in ("copy", "deepcopy") and len(given) == 1 and (copied := given[0][1]) is not None:
            return copied.copy()
        for value, settings in given if name not in _READING_FUNCTIONS else ():
            if settings is not None:
                self._not_read(settings, f"{name}({_text(value)})", call.lineno, f"{name} may change it")
        return None

    def _constructed(self, call: ast.Call) -> Settings | None:
        """The settings of a call of dict; None of one without any that are written out."""
        found = [(argument, self.value(argument)) for argument in call.args]
        if not call.keywords and not any(settings for _argument, settings in found):
            return None if call.args else Settings()
        constructed = Settings()
        for argument, settings in found:
            self._add(constructed, settings, argument)
        self._add_keywords(constructed, call)
        return constructed

    def _add_keywords(self, settings: Settings, call: ast.Call) -> None:
        for keyword in call.keywords:
            found = self.value(keyword.value)
            if keyword.arg is None:
                self._add(settings, found, keyword.value)
            else:
                settings.set(keyword.arg, keyword.value, line=keyword.lineno)

    def _method(self, settings: Settings, call: ast.Call, function: ast.Attribute) -> Settings | None:
        """What a method of a dict of settings returns; what it changes is changed."""
        name, what = function.attr, f"{_text(function)}(...)"
        if name in _READING_METHODS:
            self.values(call.args)
            return settings.copy() if name == "copy" else None
        key = text_in(call.args[0]) if call.args else None
        if self._names.why_uncertain:
            self._not_read(settings, what, call.lineno, f"it is changed {self._names.why_uncertain}")
            self.values([*call.args, *(keyword.value for keyword in call.keywords)])
        elif name == "update" and len(call.args) <= 1:
            for argument in call.args:
                self._add(settings, self.value(argument), argument, what)
            self._add_keywords(settings, call)
        elif name == "setdefault" and key is not None and len(call.args) > 1:
            if key not in settings.items:
                settings.set(key, call.args[1], line=call.lineno)
        elif name == "pop" and key is not None:
            settings.items.pop(key, None)
        elif name == "clear":
            settings.clear()
        else:
            self.values(call.args)
            self._not_read(settings, what, call.lineno)
        return None

    def _add(self, settings: Settings, found: Settings | None, node: ast.expr, what: str | None = None) -> None:
        """Add settings; if they are none that are written out, note that."""
        if found is None:
            self._not_read(settings, what or _text(node), node.lineno)
        else:
            settings.update(found)

    def _not_read(self, settings: Settings, what: str, line: int, why: str = NOT_WRITTEN_OUT) -> None:
        settings.not_read(what, line, why, at_any_time=self._names.at_any_time)

    def _may_be_changed_by_method(self, function: ast.Attribute) -> None:
        """Note that a method of an object may change the settings in its attributes, or in a list of a setting."""
        path = path_of(function.value)
        for scope in self._names.scopes if path is not None else ():
            for name, value in scope.names.items():
                if isinstance(value, Settings) and name.startswith(f"{path}."):
                    self._not_read(value, f"{_text(function)}(...)", function.lineno, f"{function.attr} may change it")
        match function.value:
            case ast.Subscript(value=of, slice=index) if (settings := self.value(of)) is not None:
                key = text_in(index)
                given = None if key is None else settings.items.get(key)
                if given is not None and isinstance(given.value, list | dict | set):
                    self._not_read(settings, f"{_text(function)}(...)", function.lineno)

    def assign(self, target: ast.expr, value: ast.expr | None = None, found: Settings | None = None) -> None:
        match target:
            case ast.Name() | ast.Attribute() if (path := path_of(target)) is not None:
                self._names.bind(path, found or Unknown(target.lineno), line=target.lineno)
            case ast.Subscript(value=of, slice=index):
                settings = self.value(of)
                if settings is not None:
                    self._set(settings, of, index, value)
                elif isinstance(of, ast.Subscript):
                    self.assign(of)
                self.value(index)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for each in targets:
                    self.assign(each)
            case ast.Starred(value=starred):
                self.assign(starred)
            case _:
                self.values([target])
        if found is not None and path_of(target) is None:
            self._not_read(found, f"{_text(target)} = ...", target.lineno, "it may be changed under another name")

    def _set(self, settings: Settings, of: ast.expr, index: ast.expr, value: ast.expr | None) -> None:
        key = text_in(index)
        if key is not None and value is not None and self._is_certain(settings, of, index):
            settings.set(key, value, line=index.lineno)
        elif key is None or value is None:
            self._not_read(settings, f"{_text(of)}[{_text(index)}]", index.lineno)

    def assign_augmented(self, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        settings, other = self.value(target), self.value(value)
        if settings is None:
            if isinstance(target, ast.Subscript):
                self.assign(target)
        elif other is None or not isinstance(op, ast.BitOr):
            self._not_read(settings, f"{_text(target)} |= ...", value.lineno)
        elif self._is_certain(settings, target, value):
            settings.update(other)

    def delete(self, target: ast.expr) -> None:
        match target:
            case ast.Subscript(value=of, slice=index) if (settings := self.value(of)) is not None:
                key = text_in(index)
                if key is None:
                    self._not_read(settings, f"del {_text(of)}[{_text(index)}]", index.lineno)
                elif self._is_certain(settings, of, index):
                    settings.items.pop(key, None)
            case ast.Name() | ast.Attribute():
                self.assign(target)

    def _is_certain(self, settings: Settings, of: ast.expr, changed: ast.expr) -> bool:
        """Whether a change is certain; if not, it is noted as one that was not understood."""
        if self._names.why_uncertain:
            what = f"{_text(of)}[{_text(changed)}]"
            self._not_read(settings, what, changed.lineno, f"it is changed {self._names.why_uncertain}")
        return not self._names.why_uncertain


def _expressions_in(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of an expression that are expressions, also those in parts of other kinds, such as comprehensions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        else:
            yield from _expressions_in(child)


def _text(node: ast.expr) -> str:
    """An expression for a comment, without values: they may be secrets."""
    path = path_of(node)
    if path is not None:
        return path
    match node:
        case ast.Constant(value=str(text)):
            return repr(text)
        case ast.Call(func=function):
            return f"{_text(function)}(...)"
        case ast.Attribute(value=value, attr=name):
            return f"{_text(value)}.{name}"
        case ast.Subscript(value=value, slice=index):
            return f"{_text(value)}[{_text(index)}]"
    return "..."
