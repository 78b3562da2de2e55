"""The close of a producer on an event loop where no thread can be started that would wait for it."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.config.wait_limit import check_timeout
from ottla.producer.producer import Producer
from ottla.results import DeliveryReport

END_CHECKED_EVERY: Final = 0.02
"""Seconds between two checks whether the producer has ended."""


async def close_without_thread(producer: Producer, timeout: float | None) -> DeliveryReport:
    """Close as `Producer.close`, on the loop's thread, which waits for the I/O thread's end in turns of the loop."""
    if timeout is not None:
        check_timeout(timeout)
    loop, lifecycle = asyncio.get_running_loop(), producer._lifecycle
    seconds = producer._engine.config.delivery.delivery_timeout if timeout is None else timeout
    deadline = loop.time() + seconds
    lifecycle.begin_close(seconds)
    while not lifecycle.has_ended and (remaining := deadline - loop.time()) > 0:
        await asyncio.sleep(min(remaining, END_CHECKED_EVERY))
    return producer.close(max(0.0, deadline - loop.time()))
