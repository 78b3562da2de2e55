"""`AsyncProducer` without a network: what interceptors get of records that are refused while a task waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ottla import InvalidRecordError, ProducerClosedError, RecordMetadata, SerializationError
from ottla.aio import AsyncProducer
from ottla.errors import NotPreparedError
from ottla.interfaces import Header, ProducerRecord
from simulated_producer import Simulated, simulated


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(main, 20)

    return asyncio.run(limited())


def asynchronous(world: Simulated) -> AsyncProducer:
    made = object.__new__(AsyncProducer)
    made._begin(world.producer)
    return made


class Noting:
    """An interceptor that notes the errors of records."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.errors: list[type[Exception] | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: object) -> None:
        self.errors.append(None if error is None else type(error))


class BrokenRegistry:
    """A serializer whose lookup fails."""

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        raise NotPreparedError

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        raise OSError("the registry does not respond")


def test_interceptors_get_the_error_of_a_lookup() -> None:
    noting = Noting()
    plugins = {"interceptors": {"noting": noting}, "value_serializer": BrokenRegistry()}
    with simulated(1, plugins=plugins) as world:
        with pytest.raises(SerializationError, match="the registry does not respond"):
            run(asynchronous(world).send("t", b"v"))

        assert noting.errors == [SerializationError]


def test_interceptors_get_the_error_of_a_wrong_callback() -> None:
    noting = Noting()
    wrong: list[Any] = [5, lambda: None]
    with simulated(1, plugins={"interceptors": {"noting": noting}}) as world:
        producer = asynchronous(world)
        for on_delivery in wrong:
            with pytest.raises((InvalidRecordError, TypeError), match="on_delivery"):
                run(producer.send("t", b"v", on_delivery=on_delivery))

        assert noting.errors == [InvalidRecordError, TypeError]


@pytest.mark.parametrize("end", [lambda task: task.cancel(), None], ids=["cancelled", "closed"])
def test_interceptors_get_the_error_of_a_send_that_was_given_up(end: Callable[[Any], object] | None) -> None:
    noting = Noting()
    with simulated(1, know=False, plugins={"interceptors": {"noting": noting}}) as world:

        async def main() -> None:
            call = asynchronous(world).send("t", b"v")
            if end is None:
                call.send(None)
                call.close()
                return
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            end(task)
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main())

        assert noting.errors == [ProducerClosedError]
