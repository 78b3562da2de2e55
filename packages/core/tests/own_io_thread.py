"""The I/O thread of a real producer, with its parts, for tests that look into it."""

from __future__ import annotations

from ottla.producer.components import Engine
from ottla.sender.io_thread import IoThread


def io_thread_of(engine: Engine) -> IoThread:
    """The thread of this engine, which is no mock producer's."""
    assert isinstance(engine.io_thread, IoThread)
    return engine.io_thread
