"""The end of a producer: by `close`, by being dropped, at the interpreter's exit, or in a forked child.

Every producer that was not closed is closed at exit, within a time limit. If records were lost, a log line says so.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.delivery_counts import Report
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.accumulator.topic_routes import Routes
from ottla.concurrency import io_threads, signals
from ottla.errors import OttlaError, ProducerClosedError
from ottla.errors.notes import unshared
from ottla.errors.robust_logger import robust_logger
from ottla.results import DeliveryReport

logger = robust_logger(__name__)

AT_EXIT_SECONDS = 30.0
"""The longest that a program that ends without `close` waits for its last records."""

GRACE_SECONDS = 0.5
"""Time in which the I/O thread may end, beyond the time-out of `close`."""

_NOTHING: Report = (DeliveryReport({}), 0, None)

_open: set[Lifecycle] = set()
_exit_code = 0  # of the process, if not 0; see `undelivered.exit.code`
_child_of_multiprocessing: int | None = None  # the process in which that module has a finalizer of ours


class RoundRunner(Protocol):
    """What a lifecycle calls of an I/O thread. A mock producer has another, which starts no thread."""

    on_end: Callable[[], object]
    """Called last, by the thread itself."""

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when the system has no thread left."""

    def begin_close(self, timeout: float) -> None:
        """Refuse new records, send queued ones for at most *timeout* seconds, fail the rest; returns immediately."""

    def abandon(self, timeout: float) -> None:
        """Have the thread itself call `begin_close`, soon. Takes no lock."""

    def join(self, timeout: float) -> bool:
        """Wait for the end that `begin_close` asked for. Return False if it has not come after *timeout* seconds."""
        ...

    def give_up(self) -> None:
        """Note that its records are failed without it, because a round does not return."""

    def forget(self) -> None:
        """Use the thread no more: it does not exist in a forked child."""

    def current_position(self) -> str:
        """The place in the code that keeps the thread with the rounds, for errors."""
        ...


class Lifecycle:
    """The states of a producer, from the start of its I/O thread to its end.

    *close_plugins* is called when the thread has ended or does not return, perhaps twice, with the seconds that it may
    take. *on_blocked* is called when the thread does not return, before the remaining records fail. *report* takes the
    producer's delivery reports. *name* is the producer's in log lines about its end; *exit_code*, if not 0, that of a
    program that loses records.
    """

    def __init__(
        self,
        io_thread: RoundRunner,
        accumulator: RecordAccumulator,
        routes: Routes,
        delivery_timeout: float,
        *,
        close_plugins: Callable[[float], object],
        on_blocked: Callable[[], object],
        report: Callable[[], Report],
        transactional: bool,
        name: str,
        exit_code: int,
    ) -> None:
        self._transactional = transactional
        self._name = name
        self._exit_code = exit_code
        self._io_thread = io_thread
        self._accumulator = accumulator
        self._routes = routes
        self._delivery_timeout = delivery_timeout
        self._close_plugins = close_plugins
        self._on_blocked = on_blocked
        self._report = report
        self.refusal: OttlaError | None = None
        self.forked = False
        self._abandoned = False
        self._logged = False

    def start(self) -> None:
        """Start the I/O thread. Raises RuntimeError when the system has no thread left."""
        with signals.Deferred():  # else a handler that raises could leave a thread that nothing ends
            try:
                self._io_thread.start()
            except RuntimeError:
                self._close_plugins(0.0)
                raise
            _open.add(self)
        _close_at_the_end_of_a_child()

    @property
    def started(self) -> bool:
        """Return whether there may be an I/O thread, which `close` has not ended."""
        return self in _open

    def check(self) -> None:
        """Raise ProducerClosedError when the producer takes no more records."""
        if self.refusal is not None:
            raise unshared(self.refusal)

    def check_process(self) -> None:
        """Raise ProducerClosedError in a forked child, where the I/O thread does not exist."""
        if self.forked:
            self.check()

    def close(self, timeout: float | None) -> Report:
        """Close, and wait for the end. Called on the I/O thread, it closes immediately and does not wait.

        In a forked child it does nothing: the parent still uses the producer.
        """
        if self.forked:
            return _NOTHING
        seconds = self._delivery_timeout if timeout is None else max(timeout, 0.0)
        if io_threads.on_io_thread():
            self._io_thread.on_end = partial(self._close_plugins, seconds)
            self.begin_close(0.0)
        else:
            deadline = time.monotonic() + seconds
            self.begin_close(seconds)
            if not self._joined(seconds):
                self._abort_remaining()
            self._close_plugins(max(deadline - time.monotonic(), 0.0))
        _open.discard(self)  # only now: Ctrl-C in the wait leaves the rest to the next `close`, or to the exit
        _log_raising_callbacks()
        return self._report()

    def _joined(self, seconds: float) -> bool:
        """Wait for the I/O thread: *seconds*, and a time in which it may end in order."""
        # In three parts: if this process is stopped in one, that thread has another one.
        return any(self._io_thread.join(part) for part in (seconds, GRACE_SECONDS / 2, GRACE_SECONDS / 2))

    @property
    def has_ended(self) -> bool:
        """Return whether the I/O thread has ended after `begin_close`; never blocks."""
        return self._io_thread.join(0.0)

    def begin_close(self, timeout: float) -> None:
        """Refuse records, and have the I/O thread end within *timeout* seconds."""
        self._refuse(ProducerClosedError("the producer is closed"))
        self._io_thread.begin_close(timeout)

    def _abort_remaining(self) -> None:
        """Fail the remaining records without the I/O thread, which does not return, from a callback for instance."""
        where = self._io_thread.current_position()
        logger.error("the producer is closed, but its I/O thread has not ended and is at %s", where)
        self._on_blocked()
        self._io_thread.give_up()
        self._accumulator.abort(
            ProducerClosedError(f"the producer was closed while its I/O thread was blocked at {where}"),
            off_io_thread=True,
        )

    def abandon(self) -> None:
        """Let the I/O thread send queued records and then end: the producer was dropped without `close`. Never blocks.

        Takes no lock, because the garbage collector calls this on any thread, and that thread may hold any lock.
        """
        if not self.forked:
            self._abandoned = True
            self._io_thread.on_end = self._finish_abandoned
            self._io_thread.abandon(self._delivery_timeout)

    def begin_close_at_exit(self, timeout: float) -> None:
        """Refuse records, and have the I/O thread end and close the plugins: the interpreter starts no more threads."""
        if not self._abandoned:
            self._io_thread.on_end = partial(self._close_plugins, timeout)
        self.begin_close(timeout)

    def close_at_exit(self, timeout: float) -> None:
        """Close within *timeout* seconds, and log if records were lost; Ctrl-C gives them up."""
        try:
            final = self.close(min(self._delivery_timeout, timeout))
        except KeyboardInterrupt:
            self._log_lost("the program was interrupted while its producer had records to send", self.close(0.0))
            raise
        self._log_lost("the program ended without closing its producer", final)

    def _finish_abandoned(self) -> None:
        self._close_plugins(self._delivery_timeout)
        if self in _open:
            _open.discard(self)
            _log_raising_callbacks()
            self._log_lost("a producer was dropped without being closed", self._report())

    def log_undelivered(self, undelivered: OttlaError) -> None:
        """Log the error of a close that may never be printed: another exception has left the `with` block."""
        global _exit_code
        if self._transactional:  # the transaction was aborted, with all of its records
            return
        _exit_code = max(_exit_code, self._exit_code)
        logger.error("%s: an exception left the with block of the producer: %s", self._name, undelivered)

    def _log_lost(self, what: str, final: Report) -> None:
        """Log *what* and the counts, once: the program may end while a dropped producer does."""
        global _exit_code
        if self._logged:
            return
        self._logged = True
        report, _unretrieved, error = final
        if error is None:  # every record was acknowledged, or its error was retrieved
            logger.debug("%s: %s: %s", self._name, what, report)
            return
        _exit_code = max(_exit_code, self._exit_code)
        logger.error("%s: %s: %s; first error: %s", self._name, what, report, error)

    def refuse_after_fork(self) -> None:
        """Refuse all calls in a forked child: the I/O thread and its sockets belong to the parent."""
        self.forked = True
        self._io_thread.forget()
        refusal = ProducerClosedError(
            "the producer belongs to the process that this one was forked from; make one in each process, for instance "
            "with ottla.per_process"
        )
        self._refuse(refusal)
        self._accumulator.fail_after_fork(refusal)

    def _refuse(self, refusal: OttlaError) -> None:
        self.refusal = refusal
        self._routes.forget()  # a `send` that finds no route calls `check`


def close_all(timeout: float) -> None:
    """Close all open producers at the same time, within *timeout* seconds. Ctrl-C ends the wait for all of them."""
    lifecycles, until = list(_open), time.monotonic() + timeout
    interruption: KeyboardInterrupt | None = None
    for each in lifecycles:
        each.begin_close_at_exit(timeout)
    for each in lifecycles:
        try:
            each.close_at_exit(0.0 if interruption else max(0.0, until - time.monotonic()))
        except KeyboardInterrupt as error:
            interruption = error
        except Exception:
            logger.exception("a producer could not be closed at the program's end")
    if interruption is not None:
        raise interruption


def _close_at_exit() -> None:
    try:
        close_all(AT_EXIT_SECONDS)
    finally:
        _log_raising_callbacks(at_exit=True)
        if _exit_code:
            _exit(_exit_code)


def _log_raising_callbacks(*, at_exit: bool = False) -> None:
    if (summary := raising_callbacks.summary(at_exit=at_exit)) is not None:
        logger.error("delivery callbacks raised that no line has counted yet; %s", summary)


def _exit(code: int) -> None:
    """End the process with this code, which functions that run at exit cannot set in another way."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed or broken
            stream.flush()
    logging.shutdown()
    os._exit(code)


def _close_at_the_end_of_a_child() -> None:
    """Have `multiprocessing` close producers at the end of its children, where `atexit` calls nothing."""
    global _child_of_multiprocessing
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None:
        return
    if _child_of_multiprocessing != os.getpid():
        _child_of_multiprocessing = os.getpid()
        util.Finalize(None, _close_at_exit, exitpriority=0)


def _refuse_in_child() -> None:
    global _exit_code
    _exit_code = 0  # of the parent's losses
    for each in list(_open):
        each.refuse_after_fork()
    _open.clear()
    io_threads.forget()
    raising_callbacks.forget()  # the log has lines of the parent


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_in_child)
