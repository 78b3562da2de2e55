"""An `await` of a table's delivery: errors count as retrieved when the task gets them, and not before."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest

from machine import columns
from ottla import TableDeliveryError
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.batch_result import expect_callbacks, give_up_callbacks
from ottla.accumulator.delivery_counts import DeliveryCounts
from ottla.accumulator.error_reads import ErrorReads
from ottla.errors import DeliveryError
from ottla.tables.table_delivery import TableDelivery, _Progress


class Table:
    """A table whose rows are in two batches of three, and the counts that flush and close raise from."""

    def __init__(self) -> None:
        self.counts = DeliveryCounts()
        self.delivery = TableDelivery("t")
        self.batches = [ProducerBatch(topic="t", partition=0, columns=columns(100_000), now=0.0) for _ in range(2)]
        self.delivery.begin_chunk(6)
        for number, batch in enumerate(self.batches):
            for _ in range(3):
                batch.append(None, b"v", (), 0, None)
            self.delivery.add(batch, offset=0, rows=range(3 * number, 3 * number + 3))

    def complete(self, number: int, *, fails: bool = True) -> None:
        """Complete a batch as the I/O thread does: callbacks first, then the counts."""
        error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)
        batch = self.batches[number]
        batch.complete_and_call_back(Failed(error=error) if fails else Acknowledged(base_offset=0))
        self.counts.add([batch])

    def unretrieved(self) -> int:
        """How many errors a flush would raise for now."""
        return self.counts.take_report([])[1]


async def begun(table: Table) -> asyncio.Task[Any]:
    """A task that waits for the table."""

    async def wait() -> Any:
        return await table.delivery

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


def test_a_cancelled_wait_leaves_the_errors_to_another_task_that_waits() -> None:
    async def main() -> None:
        table = Table()
        task, cancelled = await begun(table), await begun(table)
        table.complete(0)
        cancelled.cancel()
        await asyncio.sleep(0)

        assert table.unretrieved() == 0
        table.complete(1)
        with pytest.raises(TableDeliveryError, match="6 of 6 rows"):
            await task
        assert table.unretrieved() == 0

    asyncio.run(main())


@pytest.mark.parametrize(("reads", "unretrieved"), [(False, 6), (True, 0)])
def test_a_raising_callback_leaves_what_it_has_not_read_to_others(reads: bool, unretrieved: int) -> None:
    table = Table()

    def faulty(delivery: TableDelivery) -> None:
        if reads:
            delivery.exception(0)
        raise KeyError("fault")

    table.delivery.add_done_callback(faulty)
    table.complete(0)
    assert table.unretrieved() == 0
    table.complete(1)

    assert table.unretrieved() == unretrieved


def test_a_callback_that_returns_has_the_errors() -> None:
    table = Table()
    table.delivery.add_done_callback(lambda _delivery: None)
    for number in range(2):
        table.complete(number)
    _Progress(table.delivery._chunks, expecting=table.delivery._expecting).give_up()  # a later wait is cancelled

    assert table.unretrieved() == 0


def test_a_callback_that_has_run_keeps_no_table() -> None:
    table = Table()
    table.delivery.add_done_callback(lambda _delivery: None)
    for number in range(2):
        table.complete(number)
    kept = weakref.ref(table.delivery)
    gc.disable()
    try:
        del table
        assert kept() is None
    finally:
        gc.enable()


def test_the_errors_are_left_to_flush_when_the_last_task_is_cancelled() -> None:
    async def main() -> None:
        table = Table()
        tasks = [await begun(table) for _ in range(2)]
        table.complete(0)
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)

        assert table.unretrieved() == 3

    asyncio.run(main())


def test_errors_of_a_wait_that_was_cancelled_are_left_to_flush() -> None:
    async def main() -> None:
        table = Table()
        task = await begun(table)
        task.cancel()
        await asyncio.wait([task])
        table.complete(0)
        table.complete(1)
        assert table.unretrieved() == 6

    asyncio.run(main())


@pytest.mark.parametrize("failed", [1, 2])
def test_errors_of_a_wait_cancelled_after_the_failure_are_left_to_flush(failed: int) -> None:
    async def main() -> None:
        table = Table()
        task = await begun(table)
        for number in range(failed):
            table.complete(number)
        assert table.unretrieved() == 0  # the task is about to get them
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert table.unretrieved() == 3 * failed

    asyncio.run(main())


def test_a_flush_during_a_wait_leaves_the_errors_to_it() -> None:
    async def main() -> None:
        table = Table()
        task = await begun(table)
        table.complete(0)
        assert table.unretrieved() == 0
        table.complete(1, fails=False)
        assert table.unretrieved() == 0
        with pytest.raises(TableDeliveryError) as refused:
            await task
        assert refused.value.result.failed == 3
        assert table.unretrieved() == 0

    asyncio.run(main())


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_errors_of_a_wait_whose_loop_is_closed_are_left_to_flush(failed: int) -> None:
    table = Table()
    loop = asyncio.new_event_loop()

    async def wait() -> None:
        await table.delivery

    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    for number in range(failed):
        table.complete(number)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    del task
    for number in range(failed, 2):
        table.complete(number)

    assert table.unretrieved() == 6


def test_a_wait_that_ends_by_its_time_limit_leaves_nothing_behind() -> None:
    async def main() -> None:
        table = Table()
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(table.delivery, 0.001)
        table.complete(0)
        assert not table.batches[1]._added  # they do not follow the batches any more

    asyncio.run(main())


def test_the_callback_of_a_table_gets_the_errors_of_all_batches() -> None:
    table = Table()
    called: list[TableDelivery] = []
    table.delivery.add_done_callback(called.append)
    table.complete(0)
    assert table.unretrieved() == 0
    table.complete(1)

    assert called == [table.delivery]
    assert table.unretrieved() == 0


def unheard(delivery: TableDelivery) -> None:
    delivery.observe(lambda _result, _error: None)


def callback(delivery: TableDelivery) -> None:
    delivery.add_done_callback(lambda _delivery: None)


@pytest.mark.parametrize(("register", "errors"), [(unheard, (3, 3)), (callback, (0, 3))])
def test_errors_are_expected_by_callbacks_that_run_on_another_thread(
    register: Callable[[TableDelivery], None], errors: tuple[int, int]
) -> None:
    table = Table()
    register(table.delivery)
    batch = table.batches[0]
    error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)
    assert batch.complete(Failed(error=error)) is not None
    expect_callbacks(batch)
    table.counts.add([batch])
    report = table.counts.take_report([], leave_errors=False)[1]
    give_up_callbacks(batch)

    assert (report, report + table.unretrieved()) == errors


def test_a_wait_is_a_generator_that_may_be_closed() -> None:
    async def main() -> None:
        table = Table()
        waiting: Generator[Any, None, Any] = table.delivery.__await__()
        next(waiting)
        table.complete(0)
        waiting.close()
        table.complete(1)
        assert table.unretrieved() == 6

    asyncio.run(main())


@pytest.mark.rule("producer.report.retrieved")
def test_failed_rows_that_were_read_are_not_reported() -> None:
    table = Table()
    for number in range(2):
        table.complete(number)
    with pytest.raises(DeliveryError):
        table.delivery.metadata(0)
    assert table.batches[0].failed_reads.unread == 2

    assert [*table.delivery.failed_rows()] == [*range(6)]
    assert table.unretrieved() == 0


def test_a_wait_that_is_given_up_while_it_expects_errors_keeps_none() -> None:
    class GivenUp(ErrorReads):
        """Errors that another thread gives up just before they are expected."""

        def expect_all(self) -> None:
            wait.give_up()
            super().expect_all()

    table = Table()
    table.complete(0)
    [batch, _other] = table.batches
    batch.error_reads = GivenUp(batch.count)
    wait = _Progress(table.delivery._chunks, expecting=set())

    wait.expect_errors(batch, 0)

    assert batch.error_reads.unread == 3
