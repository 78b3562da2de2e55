"""Errors before the job, with all problems together, and errors in a task."""

from __future__ import annotations

from collections.abc import Sequence

from ottla import OttlaError


class InvalidWriteError(OttlaError, ValueError):
    """The write was not begun; `problems` lists every problem, not only the first."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = self.problems if len(self.problems) == 1 else ("", *(f"- {problem}" for problem in self.problems))
        super().__init__("cannot write this DataFrame to Kafka: " + "\n".join(lines))


class WriteError(OttlaError):
    """A task failed. Records that it sent before may be in Kafka, and a retry sends them again."""
