"""Lasting failures: what fails, since when, how often, and when a log line is due.

Plain state without a clock, a lock or a logger: the time is an argument, and the owner writes the lines.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

from ottla.errors import counted, printable
from ottla.results.value_methods import ValueMethods

SHORTEST_GAP: Final = 1.0
"""Seconds between the first two lines about one reason; each further gap is twice as long."""

LONGEST_GAP: Final = 30.0
"""Seconds between two lines about a reason that lasts."""

GAP_AFTER_RECOVERY: Final = 5.0
"""Maximum seconds before a reason that comes back is logged again."""

FORGET_AFTER: Final = 300.0
"""Seconds after which a subject without failure or recovery counts as not used any more."""

SHOWN: Final = 3
"""The number of subjects that a line names; it counts the others."""

LONGEST_TEXT: Final = 500
"""Characters of an error in one line."""

S = TypeVar("S", bound=Hashable)
R = TypeVar("R", bound=Hashable)


def one_line(error: object) -> str:
    """The text of an error for a log line: bounded, and on one line, since a broker may have written parts of it."""
    return printable(str(error), limit=LONGEST_TEXT, hide=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OutageUpdate(ValueMethods, Generic[S, R]):
    """A line that is due: *count* subjects, some of them shown, fail for one reason.

    `failures` counts since the last line about the reason; `lasting` is the age of the oldest of these outages.
    """

    first: bool
    reason: R
    error: str
    shown: Sequence[S]
    count: int
    failures: int
    lasting: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OutageEnd(ValueMethods, Generic[S]):
    """A line that is due: *count* subjects work again or, if not `recovered`, are not tried any more.

    `lasting` ends with the recovery or, without one, with the last failure: the state after it is unknown.
    """

    recovered: bool
    shown: Sequence[S]
    count: int
    failures: int
    lasting: float

    def log_arguments(self, client_id: str, subjects: str) -> tuple[object, ...]:
        """The arguments of its log line: client id, subjects, duration and attempts; if given up, attempts first."""
        if self.recovered:
            return client_id, subjects, self.lasting, counted(self.failures, "failed attempt")
        return client_id, subjects, self.failures, self.lasting


Event: TypeAlias = "OutageUpdate[S, R] | OutageEnd[S]"


@attrs.define(eq=False, kw_only=True, repr=False)
class _Group(Generic[S, R]):
    """The subjects that fail for one reason."""

    reason: R
    error: str = ""
    subjects: dict[S, None] = attrs.field(factory=dict)
    has_new_subject: bool = False  # a subject that no line has counted
    failures: int = 0
    failed_at: float = float("-inf")
    gap: float = SHORTEST_GAP
    logged_at: float | None = None
    next_at: float = float("-inf")

    def due(self, now: float, *, by_failure: bool) -> bool:
        """Return whether a line is due: for new subjects after the gap, for known ones after the longest gap."""
        if not self.subjects or not self.failures or now < self.next_at:
            return False
        return (
            self.has_new_subject
            or self.logged_at is None
            or self.logged_at + LONGEST_GAP <= (min(self.failed_at, now) if by_failure else now)
        )


@attrs.define(eq=False, kw_only=True, repr=False)
class _Outage(Generic[S, R]):
    """The failure of one subject, for any reasons."""

    group: _Group[S, R]
    started_at: float
    failed_at: float
    failures: int = 0
    logged: bool = False


@attrs.define(eq=False, kw_only=True, repr=False)
class _Ended(Generic[S]):
    """Subjects whose outage is over, until a line reports them."""

    subjects: dict[S, None] = attrs.field(factory=dict)
    failures: int = 0
    lasting: float = 0.0
    gap: float = SHORTEST_GAP
    next_at: float = float("-inf")

    def add(self, subject: S, outage: _Outage[S, R], ended_at: float) -> None:
        """Add a subject whose *outage* was over at *ended_at*."""
        self.subjects[subject] = None
        self.failures += outage.failures
        self.lasting = max(self.lasting, ended_at - outage.started_at)


class Outages(Generic[S, R]):
    """Outages by subject (a partition, a broker, a topic), grouped by reason. For one thread.

    The object is false while nothing fails and no line is left to log. Thousands of subjects that fail for one reason
    cause one line, and then one after each gap. A subject whose failure was logged is logged again when it works. An
    outage that ends within *timeout* seconds is not logged. With *repeat_by_failure* a line is repeated only if a
    failure followed the gap. That is for subjects that are not tried all the time: none is reported as failing while
    it is not tried.
    """

    def __init__(self, *, timeout: float = 0.0, repeat_by_failure: bool = False) -> None:
        self._timeout = timeout
        self._repeat_by_failure = repeat_by_failure
        self._outages: dict[S, _Outage[S, R]] = {}
        self._groups: dict[R, _Group[S, R]] = {}
        self._recovered: _Ended[S] = _Ended()
        self._given_up: _Ended[S] = _Ended()
        self._swept_at = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._outages or self._groups or self._recovered.subjects or self._given_up.subjects)

    def __contains__(self, subject: S) -> bool:
        return subject in self._outages

    def __len__(self) -> int:
        return len(self._outages)

    def failed(
        self,
        subject: S,
        reason: R,
        error: object,
        now: float,
        *,
        started_at: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """Note a failure, which began at *started_at*, by default *now*.

        Subjects with the same *reason* share their lines, and the *timeout* of the first one, by default that of all.
        """
        group = self._groups.get(reason)
        if group is None:
            group = self._groups[reason] = _Group(reason=reason)
        outage = self._outages.get(subject)
        if outage is None:
            outage = self._outages[subject] = _Outage(
                group=group, started_at=now if started_at is None else started_at, failed_at=now
            )
        if subject not in group.subjects:
            outage.group.subjects.pop(subject, None)
            outage.group = group
            if not group.subjects:
                wait = self._timeout if timeout is None else timeout
                group.next_at = max(group.next_at, outage.started_at + wait)
            group.subjects[subject] = None
            group.has_new_subject = True
        outage.failed_at = group.failed_at = now
        outage.failures += 1
        group.failures += 1
        group.error = one_line(error)

    def recovered(self, subject: S, now: float) -> None:
        """Note that a subject works; harmless for one that did not fail."""
        self._end(subject, self._recovered, now)

    def forget(self, subject: S, now: float) -> None:
        """Note that a subject is not tried any more."""
        self._end(subject, self._given_up, now)

    def due_at(self) -> float:
        """The time at which a line is due without further events; repeated lines need an event."""
        due = min((g.next_at for g in self._groups.values() if g.has_new_subject and g.subjects), default=float("inf"))
        for ended in (self._recovered, self._given_up):
            if ended.subjects:
                due = min(due, ended.next_at)
        return due

    def take_lines(self, now: float) -> Sequence[Event[S, R]]:
        """The lines that are due now."""
        self._sweep(now)
        lines: list[Event[S, R]] = []
        for ended, recovered in ((self._recovered, True), (self._given_up, False)):
            if ended.subjects and (now >= ended.next_at or not self._outages):
                lines.append(self._end_of(ended, now, recovered=recovered))
        lines += [
            self._update_of(group, now)
            for group in self._groups.values()
            if group.due(now, by_failure=self._repeat_by_failure)
        ]
        return lines

    def _end(self, subject: S, ended: _Ended[S], now: float) -> None:
        outage = self._outages.pop(subject, None)
        if outage is None:
            return
        group = outage.group
        group.subjects.pop(subject, None)
        if outage.logged:
            ended.add(subject, outage, now if ended is self._recovered else outage.failed_at)
        if not group.subjects:
            group.has_new_subject = False
            group.next_at = min(group.next_at, now + GAP_AFTER_RECOVERY)

    def _update_of(self, group: _Group[S, R], now: float) -> OutageUpdate[S, R]:
        outages = [self._outages[subject] for subject in group.subjects]
        new = [subject for subject in group.subjects if not self._outages[subject].logged]
        line = OutageUpdate(
            first=group.logged_at is None or len(new) == len(outages),
            reason=group.reason,
            error=group.error,
            shown=tuple((new or list(group.subjects))[:SHOWN]),
            count=len(outages),
            failures=group.failures,
            lasting=now - min(outage.started_at for outage in outages),
        )
        for outage in outages:
            outage.logged = True
        group.has_new_subject = False
        group.failures = 0
        group.logged_at, group.next_at = now, now + group.gap
        group.gap = min(2 * group.gap, LONGEST_GAP)
        return line

    def _end_of(self, ended: _Ended[S], now: float, *, recovered: bool) -> OutageEnd[S]:
        line = OutageEnd(
            recovered=recovered,
            shown=tuple(islice(ended.subjects, SHOWN)),
            count=len(ended.subjects),
            failures=ended.failures,
            lasting=ended.lasting,
        )
        ended.subjects.clear()
        ended.failures, ended.lasting = 0, 0.0
        ended.gap = min(2 * ended.gap, LONGEST_GAP) if self._outages else SHORTEST_GAP
        ended.next_at = now + ended.gap if self._outages else now
        return line

    def _sweep(self, now: float) -> None:
        """Drop subjects and reasons without events for a long time."""
        if now < self._swept_at + SHORTEST_GAP:
            return
        self._swept_at = now
        unused = [subject for subject, outage in self._outages.items() if now >= outage.failed_at + FORGET_AFTER]
        for subject in unused:
            self.forget(subject, now)
        for reason, group in list(self._groups.items()):
            if not group.subjects and (group.logged_at is None or now >= group.logged_at + LONGEST_GAP):
                del self._groups[reason]
