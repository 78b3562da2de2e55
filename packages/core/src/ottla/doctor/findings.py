"""Findings of an examination: values for a table or JSON, and the choice of the cause."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import printable
from ottla.results import html

_LONGEST: Final = 2_000
"""Maximum characters of one part of a finding: a sentence with several texts from outside."""

_NUMBERS: Final = 10


def _shown(text: str) -> str:
    """The text of a finding, safe for a terminal whatever plugin or peer it comes from."""
    return printable(text, limit=_LONGEST, hide=False)


def listed(numbers: Sequence[int]) -> str:
    """The first of these numbers, and the count of the others."""
    shown = ", ".join(map(str, numbers[:_NUMBERS]))
    return shown if len(numbers) <= _NUMBERS else f"{shown} and {len(numbers) - _NUMBERS} more"


class Status(enum.StrEnum):
    """The result of a step. `WARNING`: the step failed, but another way works, so a producer can still send."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Step(enum.StrEnum):
    """The steps, in the order in which a producer needs them."""

    CONFIGURATION = "configuration"
    NAMES = "dns"
    TCP = "tcp connect"
    HANDSHAKE = "transport handshake"
    TLS = "tls"
    API_VERSIONS = "api versions"
    SASL = "sasl"
    METADATA = "metadata"
    ADVERTISED = "advertised listeners"
    TOPIC = "topic"
    RECORD = "test record"


@attrs.frozen
class Problem:
    """A problem, as two halves of a sentence: what happened, and what to change."""

    message: str
    remedy: str

    @classmethod
    def of_error(cls, error: Exception, *, remedy: str) -> Problem:
        """The problem in an error's message. Ottla's messages end with a remedy; *remedy* is for others."""
        return cls.of(str(error) or type(error).__name__, remedy=remedy)

    @classmethod
    def of(cls, text: str, *, remedy: str = "") -> Problem:
        """The two halves of a sentence, separated at its semicolon."""
        message, _, own = " ".join(text.split()).partition("; ")
        return cls(message, own or remedy)


@attrs.frozen(kw_only=True)
class Finding:
    """One line of an examination: `subject` was checked, `message` is the result."""

    step: Step
    subject: str = attrs.field(converter=_shown)
    status: Status
    seconds: float = 0.0
    message: str = attrs.field(converter=_shown)
    remedy: str = attrs.field(default="", converter=_shown)

    @classmethod
    def failed(cls, step: Step, subject: str, problem: Problem, *, seconds: float = 0.0) -> Finding:
        """A finding for a problem."""
        return cls(
            step=step,
            subject=subject,
            status=Status.FAILED,
            seconds=seconds,
            message=problem.message,
            remedy=problem.remedy,
        )

    @classmethod
    def skipped(cls, step: Step, because: str, *, subject: str = "") -> Finding:
        """A finding for a step that was not needed or not possible."""
        return cls(step=step, subject=subject, status=Status.SKIPPED, message=because)

    @property
    def sentence(self) -> str:
        """The problem and its remedy."""
        parts = [f"{self.subject}: {self.message}" if self.subject else self.message, self.remedy]
        text = "; ".join(part.rstrip(".") for part in parts if part)
        return text if text.endswith("?") else f"{text}."


def excused(finding: Finding, another_works: bool) -> Finding:
    """The finding about an address; a failure is only a warning if another address of its name works."""
    if not another_works or finding.status is not Status.FAILED:
        return finding
    message = f"{finding.message}; another address of this name works"
    return attrs.evolve(finding, status=Status.WARNING, message=message, remedy="")


@attrs.frozen(kw_only=True)
class Examination:
    """All findings, in the order of the steps."""

    findings: Sequence[Finding]

    @property
    def failures(self) -> Sequence[Finding]:
        """The problems. None follows from another one: steps that depend on a failed one are skipped."""
        return [finding for finding in self.findings if finding.status is Status.FAILED]

    @property
    def healthy(self) -> bool:
        """Return whether there is no problem."""
        return not self.failures

    @property
    def cause(self) -> Finding | None:
        """The problem to fix first: the first one of a step in which nothing passed, else the first of all."""
        passed = {finding.step for finding in self.findings if finding.status is Status.OK}
        stopping = [finding for finding in self.failures if finding.step not in passed]
        return next(iter([*stopping, *self.failures]), None)

    def _repr_html_(self) -> str:
        """The findings for notebooks."""
        rows = [(each.status, each.step, each.subject, each.message, each.remedy) for each in self.findings]
        title = "healthy" if self.cause is None else self.cause.sentence
        return html.table(title, ("status", "step", "subject", "finding", "remedy"), rows, max_rows=len(rows))
