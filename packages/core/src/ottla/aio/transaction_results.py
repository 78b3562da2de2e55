"""The results of transaction methods, which tasks wait for without a thread."""

from __future__ import annotations

from typing import TypeVar

from ottla.aio.waits import until_set
from ottla.producer.transactions import TransactionCall

T = TypeVar("T")


async def result_of(call: TransactionCall[T]) -> T:
    """Return the result of a call that has taken effect; raises its error, or TransactionTimeoutError.

    If the task is cancelled, the call goes on, and the next call of the same method has the same result, unless another
    transaction was begun by then.
    """
    try:
        await until_set(call.latch, call.seconds, if_closed=call.stop_waiting)
    except BaseException:  # cancelled; or the coroutine is closed in its wait
        call.stop_waiting()
        raise
    return call.get()
