"""The end of `flush` and `close`: their delivery report, or the error that it is raised with."""

from __future__ import annotations

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.errors import DeliveryError, FlushTimeoutError, UndeliveredError, counted
from ottla.results import DeliveryReport


def report_of_flush(accumulator: RecordAccumulator, timeout: float | None, *, in_time: bool) -> DeliveryReport:
    """The counts since the last report; raises FlushTimeoutError or UndeliveredError as `Producer.flush` does."""
    report, unretrieved, error = accumulator.report()
    if not in_time:
        raise FlushTimeoutError(report, f"flush ran out of time after {timeout} s: {report}") from error
    if unretrieved:
        raise undelivered(report, unretrieved, error) from error
    return report


def undelivered(report: DeliveryReport, unretrieved: int, error: DeliveryError | None) -> UndeliveredError:
    """The error of `flush` and `close` for failed records; *error* is the first one."""
    whose = "its error was" if unretrieved == 1 else "their errors were"
    return UndeliveredError(report, f"{counted(unretrieved, 'record')} failed and {whose} never retrieved: {error}")
