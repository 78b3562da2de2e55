"""What an examination finds: values to be shown as a table or as JSON, and which of them is the cause."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import printable

_LONGEST: Final = 2_000
"""Characters of one part of a finding: a sentence with several texts from outside."""

_NUMBERS: Final = 10


def _shown(text: str) -> str:
    """What a finding says, fit for a terminal whatever the plugin or peer that it comes from."""
    return printable(text, limit=_LONGEST, hide=False)


def listed(numbers: Sequence[int]) -> str:
    """The first of these numbers, and how many others there are."""
    shown = ", ".join(map(str, numbers[:_NUMBERS]))
    return shown if len(numbers) <= _NUMBERS else f"{shown} and {len(numbers) - _NUMBERS} more"


class Verdict(enum.StrEnum):
    """`WARNING`: it does not work, and nothing suffers from it as long as something beside it does."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Step(enum.StrEnum):
    """What is looked at, in the order in which a producer needs it."""

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
class Trouble:
    """What went wrong with something, in half a sentence, and what to change, in the other half."""

    said: str
    remedy: str

    @classmethod
    def told_by(cls, error: Exception, *, remedy: str) -> Trouble:
        """An error's own words. Ours name the remedy behind a semicolon; *remedy* is for those that do not."""
        return cls.of(str(error) or type(error).__name__, remedy=remedy)

    @classmethod
    def of(cls, text: str, *, remedy: str = "") -> Trouble:
        """The two halves of a sentence that has a semicolon between them."""
        said, _, own = " ".join(text.split()).partition("; ")
        return cls(said, own or remedy)


@attrs.frozen(kw_only=True)
class Finding:
    """One line of an examination: `subject` is what was looked at, `said` what was seen."""

    step: Step
    subject: str = attrs.field(converter=_shown)
    verdict: Verdict
    seconds: float = 0.0
    said: str = attrs.field(converter=_shown)
    remedy: str = attrs.field(default="", converter=_shown)

    @classmethod
    def failed(cls, step: Step, subject: str, trouble: Trouble, *, seconds: float = 0.0) -> Finding:
        """Something is wrong."""
        return cls(
            step=step,
            subject=subject,
            verdict=Verdict.FAILED,
            seconds=seconds,
            said=trouble.said,
            remedy=trouble.remedy,
        )

    @classmethod
    def skipped(cls, step: Step, because: str, *, subject: str = "") -> Finding:
        """A step that was not needed, or could not be made."""
        return cls(step=step, subject=subject, verdict=Verdict.SKIPPED, said=because)

    @property
    def sentence(self) -> str:
        """What is wrong and what to change."""
        parts = [f"{self.subject}: {self.said}" if self.subject else self.said, self.remedy]
        text = "; ".join(part.rstrip(".") for part in parts if part)
        return text if text.endswith("?") else f"{text}."


@attrs.frozen(kw_only=True)
class Examination:
    """All findings, in the order of the steps."""

    findings: Sequence[Finding]

    @property
    def failures(self) -> Sequence[Finding]:
        """What is wrong. None of them follows from another one: what cannot work because of a failure is skipped."""
        return [finding for finding in self.findings if finding.verdict is Verdict.FAILED]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures

    @property
    def cause(self) -> Finding | None:
        """What to mend first: the first failure of a step that nothing passed, else the first of all."""
        passed = {finding.step for finding in self.findings if finding.verdict is Verdict.OK}
        stopping = [finding for finding in self.failures if finding.step not in passed]
        return next(iter([*stopping, *self.failures]), None)
