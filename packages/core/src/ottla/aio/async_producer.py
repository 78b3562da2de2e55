"""`AsyncProducer`: the methods of a producer as coroutines. All work is the producer's; here tasks wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from os import PathLike
from types import EllipsisType, TracebackType
from typing import Any, Self, Unpack, overload

from ottla.accumulator.delivery import Delivery
from ottla.accumulator.event_loops import LaterTurn, running_inbox
from ottla.accumulator.loop_callbacks import LoopCallback
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.aio.calls import NoThreadError, cancelled, in_background, on_a_thread
from ottla.aio.closing import close_without_thread
from ottla.aio.flushes import FlushesOfTasks
from ottla.aio.lookups import LookupsOfTasks
from ottla.aio.loop_progress import LoopProgress
from ottla.aio.pacing import Pacing
from ottla.aio.transaction_results import result_of
from ottla.aio.waits import until_known, until_ready, until_set
from ottla.concurrency.cancellation import Cancellation
from ottla.config.key_names import without
from ottla.config.keywords import ProducerKeywords
from ottla.config.wait_limit import check_timeout
from ottla.errors import (
    AbortableTransactionError,
    InvalidRecordError,
    OttlaError,
    UndeliveredError,
)
from ottla.errors.notes import noted_on
from ottla.interfaces import Headers, MetricName
from ottla.network.cluster import PartitionInfo
from ottla.plugins.serializer_lookups import Lookup
from ottla.producer.build import build_nonblocking_send
from ottla.producer.callbacks import UNCHECKED, check_callback
from ottla.producer.nonblocking_send import PendingSend
from ottla.producer.producer import Producer
from ottla.producer.record_checks import check_topic_name
from ottla.producer.reports import ON_A_LOOP, report_of_flush
from ottla.results import DeliveryReport, RecordMetadata, TableProgress
from ottla.results.call_hints import ASYNC_HINTS, SYNCHRONOUS_HINTS, ListedWithoutHints, with_call_hints
from ottla.tables.progress import check_on_progress
from ottla.tables.table_delivery import TableDelivery
from ottla.transactions.prepared_transaction import PreparedTransaction


@with_call_hints(ASYNC_HINTS | SYNCHRONOUS_HINTS)
class AsyncProducer(metaclass=ListedWithoutHints):
    """A producer for asyncio. Tasks may share one, also tasks of several event loops on several threads.

    It takes the settings of `Producer` and raises the same errors. No method blocks the event loop: a task waits where
    a thread would wait. Use it in an `async with` block, or await `close`. Making one reads files that the settings
    name, and imports plugins.

    A cancelled task queues nothing more, and stops waiting. What it has queued is sent, and a commit or close goes on.
    Transactions of several processes, and batches of a `TableSealer`, are for `Producer` only.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerKeywords]) -> None:
        self._begin(Producer(config, **options))

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], /, *, table: str | None = None, **options: Unpack[ProducerKeywords]
    ) -> Self:
        """A producer with the settings in a file; see `Producer.from_file`."""
        from ottla.config.settings import from_file

        return cls(without(from_file(path, table=table), options), **options)

    def _begin(self, producer: Producer) -> None:
        self._producer = producer
        self.config = producer.config
        """The settings in force, as `Producer.config` has them."""
        self.application_metrics = producer.application_metrics
        """Metrics that the program adds, as `Producer.application_metrics`."""
        # The first is kept, because the second has only a weak reference to it.
        self._slow, self._send = build_nonblocking_send(
            producer._engine, producer._check_sendable, event_loop=RUNNING_LOOP
        )
        self._flushes = FlushesOfTasks(producer._accumulator.flushes)
        self._lookups = LookupsOfTasks(producer._accumulator.flushes.environment)
        self._pacing = Pacing()
        self._checked_callback: object = UNCHECKED

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
        """Queue a record and return its delivery; `await` that for the record's metadata or error.

        The arguments and errors are those of `Producer.send`. Waits while the topic is not known, while
        `buffer.memory` is used up, and for lookups of a serializer: at most *timeout* seconds in total, or
        `max.block.ms`. 0 never waits: the error then says what the record would have waited for. *on_delivery* is
        called on the event loop of this task, with its context variables.

        If the task is cancelled in this call, the record was not queued.
        """
        pacing = self._pacing
        pacing.sends_left -= 1
        if pacing.sends_left <= 0:
            await pacing.pause()  # first: a task that is cancelled here has queued nothing
        if on_delivery is not None and getattr(on_delivery, "__code__", None) is not self._checked_callback:
            try:
                self._checked_callback = check_callback(on_delivery)
            except (InvalidRecordError, TypeError):  # interceptors get the error, too
                self._slow.send(topic, value, key, headers=headers, partition=partition, on_delivery=on_delivery)
                raise
        delivery = self._send(
            topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, timeout=timeout
        )
        if isinstance(delivery, PendingSend):
            delivery = await self._queue(delivery)
        if on_delivery is not None:
            self._call_on_loop(delivery, LoopCallback(on_delivery))
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        timeout: float | None = None,
    ) -> RecordMetadata:
        """Send a record, and wait until it is acknowledged; returns its metadata, or raises its DeliveryError.

        *timeout* limits the waits of `send`, before the record is queued. From then on `delivery.timeout.ms` limits the
        wait. To wait for less time, use `asyncio.timeout`.

        If the task is cancelled after the record was queued, as by `asyncio.timeout`, the record is sent all the same.
        """
        delivery = await self.send(
            topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, timeout=timeout
        )
        return await delivery

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
        """Queue the rows of a table; await the delivery that is returned for the outcome of all rows.

        See `Producer.send_table`. The table is read and encoded on a separate thread. *on_progress* is called on the
        event loop of this task: while this call runs, at its end, and when the delivery was awaited.

        If the task is cancelled in this call, no more rows are queued. Those that were queued before are sent, unless
        they are in a transaction that is aborted.
        """
        if on_progress is not None:
            check_on_progress(on_progress)
            on_progress = LoopProgress(asyncio.get_running_loop(), on_progress)
        columns = {"value": value, "key": key, "headers": headers, "partition": partition, "timestamp": timestamp}
        cancellation = Cancellation()
        # Now: when the thread begins, another task may have ended this transaction.
        calls = self._producer._table_calls
        transaction = calls.transaction
        return await on_a_thread(
            name="send_table",
            call=lambda: calls.send(
                topic,
                table,
                columns,
                topic_column=topic_column,
                value_format=value_format,
                key_format=key_format,
                on_progress=on_progress,
                timeout=timeout,
                cancellation=cancellation,
                transaction=transaction,
            ),
            cancellation=cancellation,
        )

    # Transactions

    async def init_transactions(
        self, timeout: float | None = None, *, keep_prepared: bool = False
    ) -> PreparedTransaction | None:
        """Take `transactional.id` over; see `Producer.init_transactions`."""
        producer = self._producer
        with producer._call_times.txn_init.timed(producer._clock):
            calls = producer._transactional("init_transactions")
            return await result_of(calls.initialize(timeout, keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """Begin a transaction; sends no request and waits for nothing. See `Producer.begin_transaction`."""
        self._producer.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any] | Sequence[Any], group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Commit a consumer's positions with the transaction; see `Producer.send_offsets_to_transaction`."""
        producer = self._producer
        with producer._call_times.txn_send_offsets.timed(producer._clock):
            calls = producer._transactional("send_offsets_to_transaction")
            await result_of(calls.send_offsets(offsets, group_metadata, timeout))

    async def commit_transaction(self, timeout: float | None = None) -> DeliveryReport:
        """Send queued records, and commit the transaction; see `Producer.commit_transaction`."""
        producer = self._producer
        with producer._call_times.txn_commit.timed(producer._clock):
            return await result_of(producer._transactional("commit_transaction").end(timeout, commit=True))

    async def abort_transaction(self, timeout: float | None = None) -> DeliveryReport:
        """Drop queued records, and abort the transaction; see `Producer.abort_transaction`."""
        producer = self._producer
        with producer._call_times.txn_abort.timed(producer._clock):
            return await result_of(producer._transactional("abort_transaction").end(timeout, commit=False))

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Send queued records, and let another process end the transaction; see `Producer.prepare_transaction`."""
        producer = self._producer
        with producer._call_times.txn_prepare.timed(producer._clock):
            return await result_of(producer._transactional("prepare_transaction").prepare(timeout))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction for an `async with` block: committed at its end, aborted when it raises or is cancelled.

        The block's own error is raised, with a note if the abort failed, too. A task that is cancelled during the
        commit does not stop it: the transaction is committed, or fails. The next block waits for that first: if the
        commit fails, it aborts that transaction, and raises the error.
        """
        try:
            if (unawaited := self._producer._transactional("transaction").unawaited_end()) is not None:
                await result_of(unawaited)
            self.begin_transaction()
        except AbortableTransactionError as error:  # a commit whose task was cancelled has failed
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                await self.abort_transaction()
            raise
        try:
            yield self
        except GeneratorExit:  # the coroutine is closed, and cannot wait
            in_background(name="abort_transaction", call=self._producer.abort_transaction)
            raise
        except BaseException as error:
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except AbortableTransactionError as error:
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                await self.abort_transaction()
            raise

    # Reading

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """The topic's partitions in order, each with its leader; see `Producer.partitions_for`."""
        if timeout is not None:
            check_timeout(timeout)
        producer = self._producer
        producer._lifecycle.check()
        check_topic_name(topic)
        engine = producer._engine
        seconds = engine.config.batching.max_block if timeout is None else timeout
        with engine.queueing.counters.producer.metadata_wait.timed(producer._clock):
            await until_known(engine.queueing.routes, topic, seconds=seconds, timeout=timeout)
        return engine.metadata.cluster.partitions(topic)

    @overload
    def metrics(self, /) -> Mapping[MetricName, float]: ...

    @overload
    def metrics(self, name: str, /, *, topic: str | None = None, node: int | None = None) -> float: ...

    def metrics(
        self, name: str | None = None, /, *, topic: str | None = None, node: int | None = None
    ) -> Mapping[MetricName, float] | float:
        """Every metric's value now, or that of one of them; see `Producer.metrics`."""
        return self._producer.metrics() if name is None else self._producer.metrics(name, topic=topic, node=node)

    async def client_instance_id(self, timeout: float | None = None) -> str | None:
        """The id under which brokers collect the metrics of this producer; see `Producer.client_instance_id`."""
        if timeout is not None:
            check_timeout(timeout)
        engine = self._producer._engine
        found = self._producer.client_instance_id(0)
        if found is None and engine.telemetry is not None:
            await until_set(
                engine.telemetry.id_decided, engine.config.batching.max_block if timeout is None else timeout
            )
            found = self._producer.client_instance_id(0)
        return found

    # Ending

    async def flush(self, timeout: float | None = None) -> DeliveryReport:
        """Send everything queued immediately, and wait for it; see `Producer.flush`.

        Callbacks of this loop have run when it returns.
        """
        if timeout is not None:
            check_timeout(timeout)
        producer = self._producer
        producer._lifecycle.check_process()
        accumulator = producer._accumulator
        with accumulator.unretrieved.reporting():
            with producer._call_times.flush.timed(producer._clock):
                in_time = await self._flushes.flush(timeout)
            await LaterTurn()  # behind the callbacks of the completed records
            return report_of_flush(
                producer._report, timeout, in_time=in_time, obstacle=producer._obstacle, lock_timeout=ON_A_LOOP
            )

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        """Refuse new records, send queued ones for at most *timeout* seconds, fail the rest; see `Producer.close`.

        Callbacks of this loop have run when it returns.
        """
        if self._producer._lifecycle.forked:
            return self._producer.close(timeout)  # does nothing; the loop is the parent's, too
        try:
            report = await on_a_thread(name="close", call=lambda: self._producer.close(timeout))
        except NoThreadError:
            report = await close_without_thread(self._producer, timeout)
        await LaterTurn()  # behind the callbacks of the completed records
        return report

    def __repr__(self) -> str:
        producer = getattr(self, "_producer", None)  # None: the constructor has failed
        return object.__repr__(self) if producer is None else repr(producer).replace("<Producer", "<AsyncProducer", 1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):  # the coroutine is closed, and cannot wait
            in_background(name="close", call=self._producer.close)
            return
        log = self._producer._lifecycle.log_undelivered
        with noted_on(error, UndeliveredError, doing="closing the producer", log=log):
            await self.close()

    # Waiting

    async def _queue(self, pending: PendingSend) -> Delivery:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        step = pending.step
        try:
            while not isinstance(step, Delivery):
                assert step is not None, "it was advanced when it was made"
                if isinstance(step, Lookup):
                    step = await self._lookups.step_after(step, pending, started_at=started_at)
                    continue
                waited = loop.time() - started_at
                if not await until_ready(step, pending.limit.seconds - waited):
                    pending.time_out(waited=waited)
                step = pending.advance()
        except Exception as error:  # of a lookup; interceptors get the others from the pending record
            pending.cancel(error)
            raise
        except BaseException:  # cancelled; or GeneratorExit, when the coroutine is closed in its wait
            pending.cancel(cancelled("the task that sent the record was cancelled; nothing was queued"))
            raise
        return step

    def _call_on_loop(self, delivery: Delivery, callback: LoopCallback) -> None:
        inbox = running_inbox()
        if not inbox.add(delivery, callback):
            inbox.add_completed(delivery, callback)
