"""The results of transaction methods, which tasks wait for without a thread."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from ottla.accumulator.event_loops import UntilCalled
from ottla.producer.transactions import TransactionCall

T = TypeVar("T")


async def result_of(call: TransactionCall[T]) -> T:
    """Return the result of a call that has taken effect; raises its error, or TransactionTimeoutError.

    If the task is cancelled, the call goes on, and the next call of the same method has the same result, unless another
    transaction was begun by then.
    """
    try:
        if not call.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(call.seconds):
                    await UntilCalled(call.on_end, if_closed=call.stop_waiting)
    except BaseException:  # cancelled; or the coroutine is closed in its wait
        call.stop_waiting()
        raise
    return call.get()
