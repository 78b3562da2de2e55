"""The end of `flush` and `close`: their delivery report, or the error that it is raised with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.delivery_counts import Report
from ottla.accumulator.hanging_plugins import LOCK_TIMEOUT_SECONDS
from ottla.errors import DeliveryError, FlushTimeoutError, OttlaError, UndeliveredError, counted
from ottla.results import DeliveryReport

if TYPE_CHECKING:
    from ottla.producer.transactions import Transactions

ON_A_LOOP: Final = 0.001
"""Seconds for which a report on the thread of an event loop waits for the lock: a thousand tasks may ask for one."""


class TakeReport(Protocol):
    """Takes the report of a producer."""

    def __call__(self, *, lock_timeout: float = LOCK_TIMEOUT_SECONDS, leave_errors: bool = False) -> Report:
        """See `RecordAccumulator.report`."""


def reports_of(accumulator: RecordAccumulator, transactions: Transactions | None) -> TakeReport:
    """The function that takes the reports of a producer.

    Records of a transaction that its program aborted are no undelivered ones, even if no caller gets the abort's result
    because its task was cancelled, or its time ran out. Nor are those of a transaction whose commit or abort has raised
    its failure.
    """
    if transactions is None:
        return accumulator.report

    def report(*, lock_timeout: float = LOCK_TIMEOUT_SECONDS, leave_errors: bool = False) -> Report:
        manager = transactions.manager
        known = manager.left_abort or manager.failure_raised  # before: the next transaction may begin meanwhile
        counts, unretrieved, error = accumulator.report(lock_timeout=lock_timeout, leave_errors=leave_errors)
        return (counts, 0, None) if known else (counts, unretrieved, error)

    return report


def report_of_flush(
    take_report: TakeReport,
    timeout: float | None,
    *,
    in_time: bool,
    obstacle: Callable[[], OttlaError | None],
    lock_timeout: float = LOCK_TIMEOUT_SECONDS,
) -> DeliveryReport:
    """The counts since the last report; raises FlushTimeoutError or UndeliveredError as `Producer.flush` does.

    *obstacle* is the error of the last attempts, if pending records have one; a FlushTimeoutError shows it.
    """
    # A program that calls flush again after a time-out is not to lose the errors of records that have failed by now.
    report, unretrieved, error = take_report(lock_timeout=lock_timeout, leave_errors=not in_time)
    if not in_time:
        last = obstacle() if report.pending else None
        why = f"; last error: {last}" if last is not None else ""
        raise FlushTimeoutError(report, f"flush ran out of time after {timeout} s: {report}{why}") from last
    if unretrieved:
        raise undelivered(report, unretrieved, error) from error
    return report


def undelivered(report: DeliveryReport, unretrieved: int, error: DeliveryError | None) -> UndeliveredError:
    """The error of `flush` and `close` for failed records; *error* is the first one."""
    whose = "its error was" if unretrieved == 1 else "their errors were"
    # Such as that of a FlushTimeoutError: no record is in two reports.
    before = " (in an earlier report)" if unretrieved > report.failed else ""
    what = f"{counted(unretrieved, 'record')} failed{before} and {whose} never retrieved"
    return UndeliveredError(report, f"{what}: {error}")
