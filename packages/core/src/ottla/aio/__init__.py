"""The producer for asyncio: the same settings, plugins and guarantees, and no call that blocks the event loop."""

from ottla.aio.async_producer import AsyncProducer
from ottla.aio.per_process import per_process

__all__ = ["AsyncProducer", "per_process"]
