"""The producer for asyncio: the same settings, plugins and guarantees, and no call that blocks the event loop."""

from ottla.aio.async_producer import AsyncProducer

__all__ = ["AsyncProducer"]
