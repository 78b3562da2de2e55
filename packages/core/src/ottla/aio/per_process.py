"""One `AsyncProducer` in each process, made when it is first needed: for servers that fork, or have no lifespan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from ottla.aio.async_producer import AsyncProducer
from ottla.config.keywords import ProducerKeywords
from ottla.producer.per_process import OnePerProcess
from ottla.results import DeliveryReport


class AsyncPerProcess(OnePerProcess[AsyncProducer]):
    """An `AsyncProducer` in each process, for all event loops there."""

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        """Close the producer of this process, if there is one; see `AsyncProducer.close`.

        The next call makes a new one.
        """
        made = self._made
        if made is None:
            return DeliveryReport({})
        with self._closing(made):
            return await made.close(timeout)


def per_process(config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerKeywords]) -> AsyncPerProcess:
    """A function that returns the `AsyncProducer` of the current process, and makes it at the first call there.

    As with `ottla.per_process`, nothing is read, checked or connected before the first call. That call blocks the event
    loop for a moment.
    """
    return AsyncPerProcess(AsyncProducer, config or {}, options)
