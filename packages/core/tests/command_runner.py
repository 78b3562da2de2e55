"""Click's runner of commands, with the standard error apart, whatever the version of click."""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Iterator
from typing import Any, Final

from click import testing
from click.testing import Result

MIXES: Final = "mix_stderr" in inspect.signature(testing.CliRunner).parameters
"""Whether it is a click before 8.2, which mixes both streams unless it is asked not to."""


class CliRunner(testing.CliRunner):
    """Runs a command. Its result has both streams, one by one and, as `output`, together."""

    def __init__(self) -> None:
        apart: dict[str, Any] = {"mix_stderr": False} if MIXES else {}
        super().__init__(**apart)

    @contextlib.contextmanager
    def isolation(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """See click."""
        with super().isolation(*arguments, **options) as streams:
            if MIXES and isinstance(sys.stderr, io.TextIOWrapper):  # 8.1.0 does not flush it
                sys.stderr.reconfigure(write_through=True)
            yield streams

    def invoke(self, *arguments: Any, **options: Any) -> Result:
        """See click."""
        result = super().invoke(*arguments, **options)
        if MIXES:
            result.__class__ = _Apart
        return result


class _Apart(Result):
    """A result of click 8.1, whose `output` lacks what is kept apart."""

    @property
    def output(self) -> str:
        return self.stdout + self.stderr
