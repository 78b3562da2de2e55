"""Source code of a Python function: its lines, and the constants that they use.

The text comes only from our own declarations; it never has a byte of a peer or text of a user.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


class Source:
    """Collects the lines of one function."""

    def __init__(self, signature: str, **constants: Any) -> None:
        self._signature = signature
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._constants = constants

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a header; lines added within the `with` block are indented below it."""
        self.line(f"{header}:")
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A new variable name, which begins with *stem*."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Add a constant to the function's globals, and return its new name, which begins with *stem*."""
        name = self.fresh(stem)
        self._constants[name] = value
        return name

    def text(self) -> str:
        """The function as Python source."""
        return "\n".join([f"def {self._signature}:", *self._lines, ""])

    def compiled(self, label: str) -> Callable[..., Any]:
        """The function; *label* is its file name in tracebacks."""
        scope = dict(self._constants)
        exec(compile(self.text(), f"<{label}>", "exec"), scope)
        made: Callable[..., Any] = scope[self._signature.partition("(")[0]]
        return made
