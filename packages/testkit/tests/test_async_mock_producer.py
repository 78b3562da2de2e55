"""`AsyncMockProducer`: the face of an `AsyncProducer`, and behind it the test acts as the brokers."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from ottla import AbortableTransactionError, BrokerError, BufferExhaustedError, Delivery, DeliveryError, ErrorCode
from ottla.aio import AsyncProducer
from ottla.errors import InvalidRecordError, TopicUnavailableError, UndeliveredError
from ottla_testkit.mock_producer import AsyncMockProducer

REFUSED = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)


def values(producer: AsyncMockProducer) -> list[bytes | None]:
    return [record.value for record in producer.mock.history]


def test_a_record_is_acknowledged_without_the_test(async_mock_producer: AsyncMockProducer) -> None:
    async def main() -> None:
        producer: AsyncProducer = async_mock_producer
        assert (await producer.send_and_wait("orders", b"apples", key=b"k")).offset == 0
        delivery = await producer.send("orders", b"a pear")
        assert (await delivery).offset == 1

    asyncio.run(main())

    assert values(async_mock_producer) == [b"apples", b"a pear"]


def test_a_task_waits_until_the_test_acknowledges() -> None:
    async def main() -> None:
        async with AsyncMockProducer(auto_complete=False) as producer:
            waiting = [asyncio.create_task(producer.send_and_wait("orders", value)) for value in (b"a", b"b")]
            await asyncio.sleep(0.05)
            assert (producer.mock.pending, waiting[0].done()) == (2, False)
            producer.mock.error_next(REFUSED)
            producer.mock.complete_next()
            with pytest.raises(DeliveryError, match="NOT_ENOUGH_REPLICAS"):
                await waiting[0]
            assert (await waiting[1]).offset == 0

    asyncio.run(main())


def test_callbacks_run_on_the_event_loop_before_flush_returns(async_mock_producer: AsyncMockProducer) -> None:
    ran: list[tuple[asyncio.AbstractEventLoop, str]] = []

    async def main() -> None:
        producer, loop = async_mock_producer, asyncio.get_running_loop()
        producer.mock.fail_next(REFUSED)
        for _record in range(2):
            await producer.send("orders", b"v", on_delivery=lambda each: ran.append((loop, outcome(each))))
        assert not ran
        await producer.flush()
        assert ran == [(loop, "failed"), (loop, "written")]
        assert asyncio.get_running_loop() is loop

    asyncio.run(main())


def test_a_callback_runs_before_the_task_that_awaits_its_record() -> None:
    """As with a producer: `core/test_async_producer.py` has the same test."""
    order: list[tuple[str, int]] = []

    async def main() -> None:
        async with AsyncMockProducer() as producer:

            async def send(number: int) -> None:
                delivery = await producer.send("orders", b"v", on_delivery=lambda _each: order.append(("cb", number)))
                assert not delivery.done()  # it leaves at the end of the turn
                await delivery
                order.append(("task", number))

            await asyncio.gather(*(send(number) for number in range(3)))

    asyncio.run(main())

    assert order == [(who, number) for number in range(3) for who in ("cb", "task")]


def test_callbacks_have_run_when_a_transaction_was_committed() -> None:
    ran: list[str] = []

    async def main() -> None:
        async with AsyncMockProducer(transactional_id="x") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("orders", b"v", on_delivery=lambda each: ran.append(outcome(each)))
            assert ran == ["written"]

    asyncio.run(main())


def test_a_task_may_send_more_in_one_turn_than_memory_holds() -> None:
    async def main() -> int:
        async with AsyncMockProducer(buffer_memory=100_000, batch_size=1_000, max_request_size=60_000) as producer:
            for _record in range(10):
                await producer.send("orders", bytes(50_000))
            await producer.send_table("orders", pa.table({"value": [bytes(50_000)]}))
            return (await producer.flush()).acknowledged

    assert asyncio.run(main()) == 11


def test_a_task_that_blocks_its_loop_for_a_record_gets_it() -> None:
    async def main() -> int:
        async with AsyncMockProducer() as producer:
            return (await producer.send("orders", b"v")).result(30).offset

    assert asyncio.run(main()) == 0


def test_records_of_a_loop_that_was_closed_stay_pending() -> None:
    producer = AsyncMockProducer()
    loop = asyncio.new_event_loop()
    coroutine = producer.send("orders", b"v")
    with pytest.raises(StopIteration):  # nothing is left that would run another turn
        _run_once_in(loop, coroutine)
    loop.close()

    assert producer.mock.pending == 1
    assert producer.mock.close().acknowledged == 1


def _run_once_in(loop: asyncio.AbstractEventLoop, coroutine: Any) -> None:
    asyncio._set_running_loop(loop)
    try:
        coroutine.send(None)
    finally:
        asyncio._set_running_loop(None)


@pytest.mark.parametrize("end", ["flush", "close"])
def test_callbacks_have_run_when_flush_or_close_returns(end: str) -> None:
    ran: list[str] = []

    async def main() -> None:
        producer = AsyncMockProducer(auto_complete=False)
        producer.mock.fail_next(REFUSED)
        for _record in range(2):
            await producer.send("orders", b"v", on_delivery=lambda each: ran.append(outcome(each)))
        await getattr(producer, end)()
        assert ran == ["failed", "written"]
        await producer.close()

    asyncio.run(main())


def outcome(delivery: Delivery) -> str:
    asyncio.get_running_loop()  # raises elsewhere
    return "failed" if delivery.error else "written"


def test_planned_errors_are_raised_by_coroutines(async_mock_producer: AsyncMockProducer) -> None:
    async def main() -> None:
        producer = async_mock_producer
        producer.mock.raise_next("send", BufferExhaustedError("full"))
        with pytest.raises(BufferExhaustedError):
            await producer.send("orders", b"v")
        with pytest.raises(InvalidRecordError, match="on_delivery"):
            await producer.send("orders", b"v", on_delivery=7)  # type: ignore[arg-type]
        producer.mock.fail_next(REFUSED)
        await producer.send("orders", b"v")
        with pytest.raises(UndeliveredError):
            await producer.flush()

    asyncio.run(main())


@pytest.mark.parametrize("method", ["flush", "begin_transaction", "commit_transaction"])
def test_an_error_can_be_planned_behind_calls_of_coroutines(method: str) -> None:
    async def main() -> list[str]:
        outcomes = []
        async with AsyncMockProducer(transactional_id="x") as producer:
            await producer.init_transactions()
            producer.mock.raise_next(method, AbortableTransactionError("planned"), after=1)
            for _ in range(3):
                try:
                    async with producer.transaction():
                        await producer.send("orders", b"v")
                        await producer.flush()
                    outcomes.append("committed")
                except AbortableTransactionError as error:
                    outcomes.append(str(error))
        return outcomes

    assert asyncio.run(main()) == ["committed", "planned", "committed"]


def test_a_cancelled_close_goes_on(async_mock_producer: AsyncMockProducer) -> None:
    async def main() -> None:
        await async_mock_producer.send("orders", b"v")
        closing = asyncio.create_task(async_mock_producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(main())

    assert async_mock_producer.mock.closed


def test_interceptors_get_the_error_of_a_wrong_callback() -> None:
    class Noting:
        errors: ClassVar[list[str]] = []

        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: Any, error: Exception | None, context: Any) -> None:
            self.errors.append(type(error).__name__)

    async def main() -> None:
        async with AsyncMockProducer(interceptor_classes=[Noting()]) as producer:
            with pytest.raises(InvalidRecordError, match="on_delivery"):
                await producer.send("orders", b"v", on_delivery=7)  # type: ignore[arg-type]

    asyncio.run(main())

    assert Noting.errors == ["InvalidRecordError"]


def test_a_table_and_unknown_topics() -> None:
    async def main() -> None:
        async with AsyncMockProducer(topics={"orders": 3}) as producer:
            assert len(await producer.partitions_for("orders")) == 3
            delivery = await producer.send_table("orders", pa.table({"value": [b"a", b"b"]}))
            assert (await delivery).acknowledged == 2
            with pytest.raises(TopicUnavailableError):
                await producer.send("others", b"v")

    asyncio.run(main())


async def transacted(producer: AsyncProducer, value: bytes) -> None:
    async with producer.transaction():
        await producer.send("orders", value)


async def dropped(producer: AsyncProducer) -> None:
    async with producer.transaction():
        await producer.send("orders", b"dropped")
        raise ValueError("changed my mind")


def test_transactions_are_committed_and_aborted() -> None:
    async def main() -> None:
        async with AsyncMockProducer(transactional_id="mine") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("orders", b"kept")
                await producer.send_offsets_to_transaction({("source", 0): 7}, "group")
            with pytest.raises(ValueError, match="changed my mind"):
                await dropped(producer)
            mock = producer.mock
            assert (mock.commit_count, mock.abort_count, values(producer)) == (1, 1, [b"kept"])
            assert [sent.group.group_id for sent in mock.committed_offsets] == ["group"]
            mock.fail_next(REFUSED)
            with pytest.raises(AbortableTransactionError):
                await transacted(producer, b"lost")
            assert (mock.commit_count, mock.abort_count) == (1, 2)

    asyncio.run(main())


def test_it_takes_the_settings_of_a_producer_and_has_its_name() -> None:
    producer = AsyncMockProducer({"client.id": "me", "compression.type": "lz4"})
    assert "AsyncMockProducer" in repr(producer)
    assert producer.config["compression.type"] == "lz4"
    producer.mock.close()


@pytest.mark.parametrize(
    "name", [name for name, _call in inspect.getmembers(AsyncProducer, inspect.iscoroutinefunction)]
)
def test_each_coroutine_that_waits_is_one_of_the_mock(name: str) -> None:
    """What it does not override waits for an I/O thread, which there is none of."""
    waits: set[Any] = {"__aenter__", "__aexit__", "send_and_wait"}

    assert name in vars(AsyncMockProducer) or name in waits or name.startswith("_")
