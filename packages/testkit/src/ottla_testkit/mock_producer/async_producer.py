"""An `AsyncProducer` without a cluster: its calls are those of a `MockProducer`, which never wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any, Unpack

from ottla.accumulator.delivery import Delivery
from ottla.accumulator.event_loops import LaterTurn, running_inbox
from ottla.accumulator.loop_callbacks import LoopCallback
from ottla.aio import AsyncProducer
from ottla.config.keywords import ProducerKeywords
from ottla.errors import InvalidRecordError
from ottla.interfaces import Headers
from ottla.network.cluster import PartitionInfo
from ottla.producer.callbacks import check_callback
from ottla.producer.producer import Producer
from ottla.results import DeliveryReport, TableProgress
from ottla.tables.table_delivery import TableDelivery
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla_testkit.mock_producer.completion_rounds import longer_round
from ottla_testkit.mock_producer.producer import MockProducer
from ottla_testkit.mock_producer.timestamps import AFTER_MAX_MS


class AsyncMockProducer(AsyncProducer):
    """An `AsyncProducer` that connects nowhere, for tests of programs that use asyncio.

    The arguments are those of `MockProducer`. `mock` is the one that it is made of: there a test finds what was sent,
    acts as the brokers and plans errors. With *auto_complete* records are acknowledged at the end of the event loop's
    turn, when all tasks that are ready now have run; without it, a task that awaits a delivery waits until another one
    calls `mock.complete_next`. Callbacks run on the event loop, before the tasks that await their records go on.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        topics: Mapping[str, int] | None = None,
        partitions: int = 1,
        auto_complete: bool = True,
        timestamp_after_max_ms: int | None = AFTER_MAX_MS,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self.mock = MockProducer(
            config,
            topics=topics,
            partitions=partitions,
            auto_complete=auto_complete,
            timestamp_after_max_ms=timestamp_after_max_ms,
            **options,
        )
        """What was sent, and the part of the brokers."""
        self._begin(self.mock)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        if on_delivery is not None:
            try:
                check_callback(on_delivery)
            except (InvalidRecordError, TypeError):  # interceptors get the error, too
                self.mock.send(topic, value, key, headers=headers, partition=partition, on_delivery=on_delivery)
                raise
        if self._needs_memory():
            await self._complete_turn()
        with longer_round(_at_end_of_turn):
            delivery = self.mock.send(
                topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, timeout=timeout
            )
        if on_delivery is not None:
            self._call_on_loop(delivery, LoopCallback(on_delivery))
        return delivery

    async def send_table(
        self,
        topic: str | None,
        table: Any,
        *,
        value: str | Sequence[str] | None = "value",
        key: str | Sequence[str] | EllipsisType | None = ...,
        headers: str | Headers | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        topic_column: str | None = None,
        value_format: str | None = None,
        key_format: str | None = None,
        on_progress: Callable[[TableProgress], object] | None = None,
        timeout: float | None = None,
    ) -> TableDelivery:
        await self._complete_turn()
        return self.mock.send_table(
            topic,
            table,
            value=value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            topic_column=topic_column,
            value_format=value_format,
            key_format=key_format,
            on_progress=on_progress,
            timeout=timeout,
        )

    async def init_transactions(
        self, timeout: float | None = None, *, keep_prepared: bool = False
    ) -> PreparedTransaction | None:
        return self.mock.init_transactions(timeout, keep_prepared=keep_prepared)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any] | Sequence[Any], group_metadata: Any, timeout: float | None = None
    ) -> None:
        self.mock.send_offsets_to_transaction(offsets, group_metadata, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = self.mock.commit_transaction(timeout)
        await LaterTurn()  # behind the callbacks of the completed records
        return report

    async def abort_transaction(self, timeout: float | None = None) -> DeliveryReport:
        report = self.mock.abort_transaction(timeout)
        await LaterTurn()  # behind the callbacks of the completed records
        return report

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        return self.mock.prepare_transaction(timeout)

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> Sequence[PartitionInfo]:
        return self.mock.partitions_for(topic, timeout=timeout)

    async def client_instance_id(self, timeout: float | None = None) -> str | None:
        return self.mock.client_instance_id(timeout)

    async def flush(self, timeout: float | None = None) -> DeliveryReport:
        mock = self.mock
        mock._planned_errors.raise_next("flush")
        with mock._accumulator.unretrieved.reporting():
            mock._parts.rounds.answer_all()
            await LaterTurn()  # behind the callbacks, which retrieve errors, and may have sent records
            mock._parts.rounds.answer_all()
            return Producer.flush(mock, timeout)  # that of the mock would raise the next planned error

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        try:
            await LaterTurn()  # behind the callbacks of the completed records
        finally:  # a task that is cancelled in it closes all the same
            report = self.mock.close(timeout)
        await LaterTurn()  # behind those of the others
        return report

    def _needs_memory(self) -> bool:
        """Return whether the next record may need the memory of those that wait for the end of this turn."""
        mock, batching = self.mock, self.mock._engine.config.batching
        needed = max(batching.buffer_memory // 2, batching.max_request_size + batching.batch_size)
        return mock.auto_complete and mock._accumulator.pool.free < needed and mock.pending > 0

    async def _complete_turn(self) -> None:
        """Complete the records that wait for the end of this turn, and run their callbacks."""
        self.mock._parts.rounds.complete_automatically()
        await LaterTurn()

    def __repr__(self) -> str:
        return repr(self.mock).replace("<MockProducer", "<AsyncMockProducer", 1)


def _at_end_of_turn(function: Callable[[], object]) -> None:
    """Complete the records of all tasks that are ready now together; in a closed loop they stay pending."""
    running_inbox().call_at_end_of_turn(function, if_closed=lambda: None)
