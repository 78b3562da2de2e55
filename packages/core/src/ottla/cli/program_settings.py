"""A dict of settings in a Python program, and the changes of it that were not understood."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import attrs

from ottla.config.translation import Decided, Given, Outcome

NOT_WRITTEN_OUT = "only settings that are written out are read"


@attrs.frozen
class Code:
    """A value that a program computes, so it cannot be translated."""


@attrs.define(eq=False)
class Settings:
    """A dict of settings. *unread* are the changes that were not understood."""

    items: dict[str, Given] = attrs.field(factory=dict)
    unread: list[Given] = attrs.field(factory=list)
    _also: list[Settings] = attrs.field(factory=list)  # what else a change at any time may be a change of

    def given(self) -> Sequence[Given]:
        """Return the settings by their lines, among them the changes that were not understood."""
        return sorted([*self.items.values(), *self.unread], key=lambda given: given.line)

    def set(self, key: str, value: ast.expr, *, line: int) -> None:
        self.items[key] = Given(key=key, value=_value(value), line=line)

    def update(self, other: Settings) -> None:
        self.items |= other.items
        self.unread += other.unread
        other.may_be(self)

    def may_be(self, other: Settings) -> None:
        """Note that a change at any time may have been made before this was copied, or when its name was another's."""
        self._also.append(other)

    def clear(self) -> None:
        self.items.clear()
        self.unread.clear()

    def not_read(self, what: str, line: int, why: str = NOT_WRITTEN_OUT, *, at_any_time: bool = False) -> None:
        """Note a change that was not understood, once; one *at_any_time* in copies, too."""
        change = Given(key=what, value=Decided(outcome=Outcome.FAILED, remark=why), line=line)
        if change in self.unread:
            return
        self.unread.append(change)
        for each in self._also if at_any_time else ():
            each.not_read(what, line, why, at_any_time=True)

    def copy(self) -> Settings:
        settings = Settings()
        settings.update(self)
        return settings


def text_in(node: ast.expr) -> str | None:
    """The text that is written out in an expression; None for other expressions."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return Code()
