"""The waits of tasks for what a thread would wait for: memory, metadata, and what happens once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ottla.accumulator.event_loops import UntilCalled
from ottla.accumulator.record_appender import MemoryWait
from ottla.accumulator.topic_routes import Routes
from ottla.accumulator.try_appender import Wait
from ottla.concurrency.locks import FunctionGate, Latch
from ottla.network.nonblocking_metadata_wait import MetadataWait


async def until_ready(wait: Wait, timeout: float) -> bool:
    """Wait until a call may be tried again, at most *timeout* seconds. Return False if time ran out."""
    if timeout <= 0:
        return wait.ready
    try:
        async with asyncio.timeout(timeout):
            # A closed loop runs no task that could return the memory.
            await UntilCalled(wait.on_ready, wait.cancel if isinstance(wait, MemoryWait) else lambda: None)
    except TimeoutError:
        return wait.ready
    return True


async def until_known(routes: Routes, topic: str, *, seconds: float, timeout: float | None) -> None:
    """Wait until a topic is known, at most *seconds*. Raises what `send` raises, after the *timeout* of the caller."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while isinstance(wait := routes.try_find(topic), MetadataWait):
        try:
            if not await until_ready(wait, until - loop.time()):
                routes.time_out(wait, timeout=timeout)
        except BaseException:  # cancelled, for example
            wait.cancel()
            raise


async def until_set(latch: Latch, timeout: float, *, if_closed: Callable[[], object] = lambda: None) -> None:
    """Wait for a latch, at most *timeout* seconds.

    *if_closed* is called when it is set, on that thread, if the loop of the task is closed by then and has not ended
    the wait.
    """
    if latch.is_set or timeout <= 0:
        return
    gates: list[FunctionGate] = []

    def register(end_wait: Callable[[], object]) -> None:
        gates.append(FunctionGate(end_wait))
        latch.add_gate(gates[0])

    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await UntilCalled(register, if_closed)
    finally:
        for gate in gates:
            latch.remove_gate(gate)
