"""The end of `flush` and `close`: their delivery report, or the error that it is raised with."""

from __future__ import annotations

from typing import Final

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.hanging_plugins import LOCK_TIMEOUT_SECONDS
from ottla.errors import DeliveryError, FlushTimeoutError, UndeliveredError, counted
from ottla.results import DeliveryReport

ON_A_LOOP: Final = 0.001
"""Seconds for which a report on the thread of an event loop waits for the lock: a thousand tasks may ask for one."""


def report_of_flush(
    accumulator: RecordAccumulator,
    timeout: float | None,
    *,
    in_time: bool,
    lock_timeout: float = LOCK_TIMEOUT_SECONDS,
) -> DeliveryReport:
    """The counts since the last report; raises FlushTimeoutError or UndeliveredError as `Producer.flush` does."""
    report, unretrieved, error = accumulator.report(lock_timeout=lock_timeout)
    if not in_time:
        raise FlushTimeoutError(report, f"flush ran out of time after {timeout} s: {report}") from error
    if unretrieved:
        raise undelivered(report, unretrieved, error) from error
    return report


def undelivered(report: DeliveryReport, unretrieved: int, error: DeliveryError | None) -> UndeliveredError:
    """The error of `flush` and `close` for failed records; *error* is the first one."""
    whose = "its error was" if unretrieved == 1 else "their errors were"
    return UndeliveredError(report, f"{counted(unretrieved, 'record')} failed and {whose} never retrieved: {error}")
