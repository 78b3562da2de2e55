"""Blocking calls of a producer, such as `flush`, made from an event loop: on separate threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ottla.concurrency.cancellation import Cancellation
from ottla.errors import ProducerClosedError
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)

T = TypeVar("T")


async def on_a_thread(*, name: str, call: Callable[[], T], cancellation: Cancellation | None = None) -> T:
    """Return what *call* returns, or raise what it raises. Other tasks run meanwhile.

    The call runs on a separate thread, because the threads of the loop's executor may all be busy. If the waiting task
    is cancelled, the call goes on; its error is logged, because no caller gets it. A *cancellation* is made then, and
    the call that checks it ends.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        complete: Callable[[], object]
        try:
            complete = partial(future.set_result, context.run(call))
            error = None
        except BaseException as raised:
            error = raised
            complete = partial(future.set_exception, raised)
        try:
            loop.call_soon_threadsafe(complete_future, complete, error)
        except RuntimeError:  # the loop is closed, and the task was destroyed with it
            log_lost(error)

    def complete_future(complete: Callable[[], object], error: BaseException | None) -> None:
        if future.done():
            log_lost(error)
        else:
            complete()

    def log_lost(error: BaseException | None) -> None:
        if cancellation is None or error is not cancellation.error:
            _log_lost(name, error)

    _start(name, run)
    try:
        return await future
    except (asyncio.CancelledError, GeneratorExit):  # cancelled; or the coroutine is closed in its wait
        if cancellation is not None:
            cancellation.cancel(ProducerClosedError(f"the task that waited for {name} was cancelled"))
        raise


def in_background(*, name: str, call: Callable[[], object]) -> None:
    """Make a call for a coroutine that is closed and so cannot wait for it; its error is logged."""

    def run() -> None:
        try:
            call()
        except BaseException as error:
            _log_lost(name, error)

    try:
        _start(name, run)
    except RuntimeError as error:  # no thread is left; or the interpreter ends, and has closed all producers
        _log_lost(name, error)


def _start(name: str, run: Callable[[], object]) -> None:
    # A daemon: else it would keep the program alive after its end. The close at exit ends what a call waits for.
    threading.Thread(target=run, name=f"ottla-aio-{name}", daemon=True).start()


def _log_lost(name: str, error: BaseException | None) -> None:
    if error is not None:
        logger.error("%s raised after the task that waited for it was cancelled: %s", name, error, exc_info=error)
