"""Blocking calls of a producer, such as `flush`, made from an event loop: on separate threads."""

from __future__ import annotations

import asyncio
import atexit
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar

import attrs

from ottla.concurrency.cancellation import Cancellation
from ottla.errors import OttlaError
from ottla.errors.finalizer_log import finalizer_log
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)

T = TypeVar("T")

AT_EXIT_SECONDS: Final = 5.0
"""Seconds for which the end of the program waits for calls that were cancelled.

An interpreter that ends while a thread is in Python code that pyarrow has called, such as a generator of batches,
aborts the process.
"""

_cancellable: Final[dict[threading.Thread, Cancellation]] = {}
"""The running calls that can be cancelled."""


class NoThreadError(RuntimeError):
    """No thread can be started: the system has no more of them, or the interpreter ends."""


async def on_a_thread(*, name: str, call: Callable[[], T], cancellation: Cancellation | None = None) -> T:
    """Return what *call* returns, or raise what it raises. Other tasks run meanwhile.

    The call runs on a separate thread, because the threads of the loop's executor may all be busy. If the waiting task
    is cancelled, the call goes on; its error is logged, because no caller gets it. A *cancellation* is made then, and
    the call that checks it ends.
    """
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    completion = _Completion(name, future, cancellation)
    start_thread(name, partial(_complete, partial(copy_context().run, call), completion), cancellation)
    try:
        return await future
    except (asyncio.CancelledError, GeneratorExit):  # cancelled; or the coroutine is closed in its wait
        if cancellation is not None:
            cancellation.cancel(cancelled(f"the task that waited for {name} was cancelled"))
        raise
    finally:
        # Its error has a traceback with this frame: the two would keep each other, and what *call* has.
        del future, completion


def cancelled(message: str) -> OttlaError:
    """The outcome of a call whose task was cancelled, for interceptors, which take an Exception.

    Its cause has no traceback, which would keep the frames of the task.
    """
    error = OttlaError(message)
    error.__cause__ = asyncio.CancelledError()
    return error


@attrs.frozen(eq=False, repr=False)
class _Completion(Generic[T]):
    """The end of a call, on its way to the task."""

    name: str
    future: asyncio.Future[T]
    cancellation: Cancellation | None

    def succeed(self, result: T) -> None:
        """Complete the future, on any thread."""
        self._end(partial(self.future.set_result, result), None)

    def fail(self, error: BaseException) -> None:
        """Complete the future with an error, on any thread."""
        self._end(partial(self.future.set_exception, error), error)

    def _end(self, complete: Callable[[], object], error: BaseException | None) -> None:
        expected = _ExpectedTurn(self, error)
        try:
            self.future.get_loop().call_soon_threadsafe(self._complete, complete, error, expected)
        except RuntimeError:  # the loop is closed, and the task was destroyed with it
            expected.never_comes()

    def _complete(self, complete: Callable[[], object], error: BaseException | None, expected: _ExpectedTurn) -> None:
        expected.error = None
        if self.future.done():
            self.log_lost(error)
        else:
            complete()

    def log_lost(self, error: BaseException | None) -> None:
        """Log an error that no task gets."""
        cancelled = self.cancellation is not None and self.cancellation.error is not None
        if not (cancelled and isinstance(error, OttlaError)):  # says why the rest was not queued, as it is not to be
            _log_lost(self.name, error)


@attrs.define(eq=False, repr=False)
class _ExpectedTurn:
    """What only the loop keeps until its turn. If it is closed before, the finalizer has the error of the call logged.

    It runs on the thread that closes or drops the loop, at any point of its code.
    """

    completion: _Completion[Any]
    error: BaseException | None

    def never_comes(self) -> None:
        """Log the error, once."""
        error, self.error = self.error, None
        self.completion.log_lost(error)

    def __del__(self) -> None:
        if self.error is not None:
            finalizer_log.add(partial(self.completion.log_lost, self.error))


def _complete(call: Callable[[], T], completion: _Completion[T]) -> None:
    try:
        result = call()
    except BaseException as error:
        completion.fail(error)
    else:
        completion.succeed(result)
    finally:
        del call, completion  # an error's traceback has this frame, as above


def in_background(*, name: str, call: Callable[[], object]) -> None:
    """Make a call for a coroutine that is closed and so cannot wait for it; its error is logged.

    An interpreter that is finalizing closes coroutines, too: no thread can run any more, so starting one would wait for
    ever before Python 3.12. All producers have been closed by then.
    """
    if sys.is_finalizing():
        return

    def run() -> None:
        try:
            call()
        except BaseException as error:
            _log_lost(name, error)

    try:
        start_thread(name, run)
    except NoThreadError as error:  # if the interpreter ends, it has closed all producers
        _log_lost(name, error)


def start_thread(name: str, run: Callable[[], object], cancellation: Cancellation | None = None) -> None:
    """Run a blocking call on a thread of its own; raises NoThreadError if there can be no more threads."""

    def run_cancellable() -> None:
        thread = threading.current_thread()
        assert cancellation is not None, "this call can be cancelled"
        _cancellable[thread] = cancellation
        try:
            run()
        finally:
            del _cancellable[thread]

    target = run if cancellation is None else run_cancellable
    # A daemon: else it would keep the program alive after its end. The close at exit ends what a call waits for. In an
    # empty context, as `daemon_thread`: a flush is that of several tasks.
    try:
        threading.Thread(target=Context().run, args=(target,), name=f"ottla-aio-{name}", daemon=True).start()
    except RuntimeError as error:
        raise NoThreadError(str(error)) from error


def _wait_at_exit() -> None:
    until = time.monotonic() + AT_EXIT_SECONDS
    for thread, cancellation in list(_cancellable.items()):
        if cancellation.error is not None:
            thread.join(max(0.0, until - time.monotonic()))


atexit.register(_wait_at_exit)


def _log_lost(name: str, error: BaseException | None) -> None:
    if error is not None:
        logger.error("%s raised after the task that waited for it was cancelled: %s", name, error, exc_info=error)
