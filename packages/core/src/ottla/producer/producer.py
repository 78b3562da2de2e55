"""The public producer: sends records and tables from any thread, and runs transactions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from os import PathLike
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, overload

from ottla.accumulator.append_permission import AppendPermission, CheckSendable
from ottla.accumulator.batch import UNASSIGNED
from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.accumulator.partitioner_calls import partition_of
from ottla.accumulator.topic_routes import Route
from ottla.concurrency import io_threads
from ottla.config.in_force import SettingsInForce, changes
from ottla.config.key_names import without
from ottla.config.wait_limit import check_timeout
from ottla.errors import (
    AbortableTransactionError,
    IllegalStateError,
    OttlaError,
    UndeliveredError,
)
from ottla.errors.notes import noted_on
from ottla.errors.secret import hide_settings
from ottla.interfaces import Header, Headers, MetricName, PluginMetrics
from ottla.network.cluster import PartitionInfo
from ottla.plugins.record_headers import checked_headers
from ottla.producer import build as assembly
from ottla.producer.blocking_send import STICKY, BlockingSend
from ottla.producer.callbacks import UNCHECKED, check_callback
from ottla.producer.components import Engine
from ottla.producer.creation_place import creation_place
from ottla.producer.lifecycle import Lifecycle
from ottla.producer.not_copyable import refuse_copy
from ottla.producer.record_checks import timestamp_of
from ottla.producer.reports import report_of_flush, reports_of, undelivered
from ottla.producer.table_calls import TableCalls
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.results import DeliveryReport, TableProgress
from ottla.results.call_hints import PRODUCER_HINTS, ListedWithoutHints, with_call_hints

if TYPE_CHECKING:  # most programs need none of these at run time
    from ottla.config.keywords import ProducerKeywords
    from ottla.producer.transactions import Transactions
    from ottla.tables.table_delivery import TableDelivery
    from ottla.transactions.prepared_transaction import PreparedTransaction
    from ottla.transactions.shared_transaction import SharedTransaction

_new: Final = object.__new__


@with_call_hints(PRODUCER_HINTS)
class Producer(metaclass=ListedWithoutHints):
    """Sends records to Kafka. Threads may share one; a forked process needs its own.

    *config* has Kafka's dotted names; keywords are the same names with `_` for `.`. Raises ConfigError, which lists
    every problem, and PluginError, which says what to install. Does not wait for brokers: it connects in the
    background, also if nothing is sent.

    It has one thread, the I/O thread, which does all I/O and runs callbacks. A `with` block closes it at its
    end. A producer that was not closed is closed when the program ends, which takes at most 30 seconds; if records were
    lost by then, the log says so. All time-outs of methods are in seconds.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerKeywords]) -> None:
        # From here on no variable holds a plain secret: an error may pass with all of them in its frames.
        config, options = hide_settings(config or {}), hide_settings(options)
        self._begin(assembly.build(config, options))

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], /, *, table: str | None = None, **options: Unpack[ProducerKeywords]
    ) -> Self:
        """A producer with the settings in a file, a properties file as Java reads it, or TOML if it ends in `.toml`.

        Keywords replace settings of the file. *table* and the errors are those of `ottla.config.settings.from_file`.
        """
        from ottla.config.settings import from_file  # here: other programs need no parser of TOML

        return cls(without(from_file(path, table=table), options), **options)

    def _begin(
        self, engine: Engine, blocking_send: Callable[[Engine, CheckSendable], BlockingSend] = BlockingSend
    ) -> None:
        """Begin with these parts. A mock producer has a *blocking_send* of its own."""
        queueing = engine.queueing
        self._engine = engine
        self._accumulator = queueing.accumulator
        self._known_routes = queueing.routes.known
        partitioner = queueing.partitioner
        self._partition = partitioner.partition
        self._partition_record = partitioner.partition_record
        self._choose_partition = partitioner.choose
        self._sticky = partitioner.sticky
        self._ignores_keys = partitioner.ignores_keys
        self._keyed_appender = queueing.keyed_appender
        self.config: SettingsInForce = engine.settings_in_force()
        """The settings in force, defaults and adjusted ones included; `config.source(key)` says where each came from.
        Secrets are hidden."""
        self.application_metrics: PluginMetrics = engine.plugins.objects.metrics.application
        """Metrics that the program adds (KIP-1076), for `metrics`, reporters and brokers; their group is "application",
        and their tags are the client id and those that they are added with. `close` removes them."""
        self._transactions = engine.transactions
        self._open_transaction = None if engine.transactions is None else engine.transactions.manager
        self._call_times, self._clock = queueing.counters.producer, engine.clock
        self._serializer = serializer = assembly.build_serializer(engine)
        self._serialize, self._takes_bytes = serializer.serialize, not serializer.changes_bytes
        self._checked_callback: object = UNCHECKED
        self._report, self._obstacle = reports_of(queueing.accumulator, engine.transactions), engine.obstacle
        self._lifecycle = Lifecycle(
            engine.io_thread,
            queueing.accumulator,
            queueing.routes,
            engine.config.delivery.delivery_timeout,
            close_plugins=engine.plugins.close,
            on_blocked=engine.set_interceptors_apart,
            report=self._report,
            transactional=engine.transactions is not None,
            name=f"{engine.plugins.client_id} (made at {creation_place()})",
            exit_code=engine.config.delivery.undelivered_exit_code,
        )
        self._check_sendable = partial(_check_sendable, self._lifecycle, queueing.accumulator.permission)
        self._blocking_send = blocking_send(engine, self._check_sendable)
        serializer.await_topic = self._blocking_send.find_route
        self._table_calls = TableCalls(engine, self._blocking_send.find_route)
        self._unclosed = weakref.finalize(self, self._lifecycle.abandon)
        self._unclosed.atexit = False
        try:
            # Not Producer.send: a test or a tool may have put another one into its place in the class.
            send = assembly.choose_send(self, engine, overridden=type(self).send is not _SEND)
            if send is not None:
                self.send = send  # type: ignore[method-assign]
            self._lifecycle.start()
            engine.reporting.start()
        except BaseException:  # as Ctrl-C in a wait: without this producer, its I/O thread must not go on
            self._unclosed.detach()
            if self._lifecycle.started:
                self._lifecycle.close(0.0)
            else:
                engine.plugins.close(0.0)
            raise

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """Queue a record and return its delivery, the future of its result.

        *value* and *key* are bytes, bytearray, memoryview or None, or what their serializer takes; a value of None is a
        tombstone. *headers* are pairs of a name and bytes or None, or a mapping of such; None is no headers. Without
        *partition* the partitioner chooses. *timestamp_ms* is in milliseconds since 1970, or a datetime with a time
        zone; by default it is the current time.

        *on_delivery* is called on the I/O thread, once the record is acknowledged or has failed, with a delivery of the
        record: read its `error` or its `metadata`. After this call, the error counts as retrieved, unless the call
        raises. A function that cannot take one argument raises TypeError.

        Blocks only while the topic is not known yet, while `buffer.memory` is used up, and for lookups of a serializer:
        at most *timeout* seconds altogether, or `max.block.ms`. 0 never waits: the error then says what for. Inside a
        callback it never waits, either. When it raises, the record was not queued: InvalidRecordError
        or its subclasses RecordTooLargeError and SerializationError, TopicUnavailableError, SecurityError,
        BufferExhaustedError, ProducerClosedError, ProducerFailedError, InvalidPluginError for a fault of the
        partitioner. With a `transactional.id` also IllegalStateError outside of a transaction, and
        AbortableTransactionError or FatalTransactionError when the transaction has failed. The delivery reports later
        errors.

        For any thread, and for signal handlers, as every method is: critical sections finish before a handler runs.
        IllegalStateError reports a call that interrupted another one; that is possible only with a third-party
        `record.encoder`, and in `__del__`.
        """
        if timeout is not None:
            check_timeout(timeout)  # also where nothing waits: a wrong one must not be found only in an outage
        # 15 ns for a function or method that was checked before, a third of a call of `check_callback`
        if on_delivery is not None and getattr(on_delivery, "__code__", None) is not self._checked_callback:
            kind: object = type(on_delivery)
            if kind is partial:
                kind = getattr(on_delivery.func, "__code__", None)  # type: ignore[attr-defined]
            if kind is not self._checked_callback:
                self._checked_callback = check_callback(on_delivery)
        # Plugins and waits may take until another transaction is open, to which the record does not belong.
        transactions = self._open_transaction
        transaction = 0 if transactions is None else transactions.begun
        # Before the serializers, which get them: some headers are readable only once.
        checked: Sequence[Header] = checked_headers(headers) if headers else ()
        waited = 0.0
        if not self._takes_bytes or type(value) is not bytes or (key is not None and type(key) is not bytes):
            key, value, checked, waited = self._serialize(topic, key, value, checked, timeout)
        if timestamp_ms is not None and (type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX):
            timestamp_ms = timestamp_of(timestamp_ms)
        try:
            route: Route | None = self._known_routes[topic]
        except (KeyError, TypeError):  # an object that cannot be hashed is no name, either
            route = None  # found below: here its errors would have this one as their context
        if route is None or (
            partition is not None and (type(partition) is not int or not 0 <= partition < route.view.partitions)
        ):
            record = (key, value, checked, timestamp_ms, on_delivery)
            route, waited = self._blocking_send.find_partition(topic, partition, record, waited, timeout)
        if partition is not None:
            if route.unassigned.open is not None:
                # The records of the unassigned batch came first.
                self._accumulator.keyed_appender.assign_partitions(route.topic)
            chosen = partition
            batch = route.queues[chosen].open
        elif self._sticky and (key is None or self._ignores_keys) and route.unassigned.open is None:
            chosen = STICKY
            batch = route.sticky_batch
        elif self._keyed_appender is not None:
            chosen = UNASSIGNED  # without a key, too, if keyed records came first: partitions keep their order
            batch = route.unassigned.open
        else:
            if self._partition_record is None:
                chosen = partition_of(self._partition, topic, key, route.view)
            else:
                chosen = self._choose_partition(topic, (key, value, checked, timestamp_ms, on_delivery), route.view)
            batch = route.queues[chosen].open
        if batch is not None and (transactions is None or transactions.begun == transaction):
            index = batch.append(key, value, checked, timestamp_ms, on_delivery)
            if index is not None:
                delivery = _new(Delivery)  # a call of __init__ costs 40 ns more than the two lines that follow
                delivery._batch, delivery._index = batch, index
                return delivery
        record = (key, value, checked, timestamp_ms, on_delivery)
        return self._blocking_send.append(topic, partition, chosen, record, route, waited, timeout, transaction)

    def send_table(
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
        """Queue the rows of a table and return the delivery of all of them.

        *table* is a table of pyarrow, polars, pandas or duckdb, a Parquet or Arrow file's path, a pyarrow dataset, or
        an iterable of record batches. The others name its columns, None for none; a column "key" is the key if *key* is
        not given. Values and keys are bytes or text and go as they are, past the serializers. With *value_format*,
        "json" or another serializer plugin that takes whole columns, the value is made of one column of any type that
        the plugin takes. A list names several columns, which become its fields; `"*"` is all other columns.
        *key_format* does the same for keys, without `"*"`; interceptors get the keys that it has made. *headers*
        names a column, or gives the headers of all rows, as `send` takes them. *topic_column* names a column of topics;
        a null there means *topic*, which may be None. Needs pyarrow.

        *on_progress* is called with a TableProgress on this thread, at most four times a second and at the end, and on
        the thread that waits for the delivery's result. An exception that it raises is logged.

        Raises IllegalStateError if the producer has an interceptor without `SupportsOnSendTable`, which would see none
        of the rows. Blocks as `send` does: for each batch of rows at most `max.block.ms`, or for all of them together
        *timeout* seconds. When the table as a whole cannot be sent, it raises InvalidRecordError, or another error of
        `send`, before the first row is queued. An error in the middle of a table carries the `delivery` of the rows
        before. A row that cannot be sent fails alone, in the delivery.
        """
        columns = {"value": value, "key": key, "headers": headers, "partition": partition, "timestamp": timestamp}
        return self._table_calls.send(
            topic,
            table,
            columns,
            topic_column=topic_column,
            value_format=value_format,
            key_format=key_format,
            on_progress=on_progress,
            timeout=timeout,
            transaction=self._table_calls.transaction,
        )

    def send_sealed(self, batch: SealedBatch) -> TableDelivery:
        """Queue a batch that an `ottla.tables.sealed.TableSealer` made, perhaps in another process.

        The batch goes to its partition unchanged, behind the records that are queued there; the delivery is that of its
        rows. Blocks and raises as `send_table` does. Raises IllegalStateError on a producer with interceptors: the rows
        are encoded already.
        """
        return self._table_calls.send_sealed(batch)

    # Transactions

    def init_transactions(
        self, timeout: float | None = None, *, keep_prepared: bool = False
    ) -> PreparedTransaction | None:
        """Take `transactional.id` over: fence the producer that had it, and abort its open transaction.

        Call it once, before the first transaction. It waits at most `max.block.ms`, or *timeout* seconds, and then
        raises TransactionTimeoutError; the same call again waits for the same outcome. That holds for every transaction
        method that takes a *timeout*. Each raises IllegalStateError in the wrong state of the transaction, or inside a
        callback.
        Raises TransactionError when the cluster refuses the id or its time-out.
        With *keep_prepared* (KIP-939) a prepared transaction stays open and is returned; commit or abort it.
        """
        with self._call_times.txn_init.timed(self._clock):
            return self._transactional("init_transactions").initialize(timeout, keep_prepared=keep_prepared).wait()

    def begin_transaction(self) -> None:
        """Begin a transaction: records sent from now on become visible together, or not at all.

        Sends no request and does not block. Raises AbortableTransactionError while the previous one must be aborted,
        and FatalTransactionError, or its subclass ProducerFencedError, when this producer can write no more
        transactions.
        """
        with self._call_times.txn_begin.timed(self._clock):
            self._transactional("begin_transaction").begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, Any] | Sequence[Any],
        group_metadata: Any,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's positions with the transaction: the next offset to read, by (topic, partition).

        An offset is an int or an OffsetAndMetadata. A list of confluent-kafka's TopicPartition is taken, too, as are
        the mappings of kafka-python and aiokafka. *group_metadata* is the group's id, or better a ConsumerGroupMetadata
        or what the consumer of one of these clients returns: with it the coordinator refuses a consumer that has lost
        its partitions, and this raises AbortableTransactionError. Raises InvalidRecordError for an invalid offset or
        group. Waits for the coordinator.
        """
        with self._call_times.txn_send_offsets.timed(self._clock):
            self._transactional("send_offsets_to_transaction").send_offsets(offsets, group_metadata, timeout).wait()

    def commit_transaction(self, timeout: float | None = None) -> DeliveryReport:
        """Send queued records, and commit the transaction, which makes its records visible.

        Waits until every record is acknowledged and the coordinator has taken the commit; returns the counts since the
        last report. Raises AbortableTransactionError when a record failed: call `abort_transaction` then.
        FatalTransactionError, and its subclass ProducerFencedError, mean that this producer can do nothing more.
        """
        with self._call_times.txn_commit.timed(self._clock):
            return self._transactional("commit_transaction").end(timeout, commit=True).wait()

    def abort_transaction(self, timeout: float | None = None) -> DeliveryReport:
        """Drop queued records, and abort the transaction: `read_committed` consumers never see its records.

        Records that were dropped fail with TransactionAbortedError. Waits for the coordinator; returns the counts since
        the last report. Raises FatalTransactionError, or its subclass ProducerFencedError, when this producer can do
        nothing more.
        """
        with self._call_times.txn_abort.timed(self._clock):
            return self._transactional("abort_transaction").end(timeout, commit=False).wait()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction for a `with` block: committed at its end, aborted when it raises.

        The block's own error is raised, with a note if the abort failed, too. When the commit raises
        AbortableTransactionError, the transaction has been aborted, and another one may be begun.
        """
        try:
            self.begin_transaction()
        except AbortableTransactionError as error:  # the one before has failed, after its commit ran out of time
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                self.abort_transaction()
            raise
        try:
            yield self
        except BaseException as error:
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except AbortableTransactionError as error:
            with noted_on(error, OttlaError, doing="aborting the transaction"):
                self.abort_transaction()
            raise

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Send queued records, and let `ottla.transactions.complete`, in any process, end the transaction.

        Raises AbortableTransactionError when a record failed. `commit_transaction` and `abort_transaction` can
        end it, too.
        """
        with self._call_times.txn_prepare.timed(self._clock):
            return self._transactional("prepare_transaction").prepare(timeout).wait()

    def join_transaction(self, shared: SharedTransaction) -> None:
        """Join a transaction that another process opened and will end; see SharedTransaction for the rules.

        Call it instead of `init_transactions` and `begin_transaction`, on a producer with the same `transactional.id`,
        once for each transaction to join. Sends no request: whether the transaction is still open is known only from
        the response to the first records. If the brokers are those of another cluster, no record is sent there, and
        this call raises TransactionError, or `leave_transaction` if the cluster is not known yet.
        """
        self._transactional("join_transaction").join(shared)

    def leave_transaction(self, timeout: float | None = None) -> DeliveryReport:
        """Send queued records and wait for them; the transaction stays open, and may be joined once more.

        Raises AbortableTransactionError when a record failed, or ProducerFencedError when the transaction is over
        for its brokers. Then report that to the process that opened it, which must not commit it, and close this
        producer.
        """
        return self._transactional("leave_transaction").leave(timeout).wait()

    def _transactional(self, method: str) -> Transactions:
        self._lifecycle.check()
        if self._transactions is None:
            raise IllegalStateError(f"{method} needs a producer with a transactional.id")
        return self._transactions

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """The topic's partitions in order, each with its leader, from the newest metadata.

        Blocks as `send` does while the topic is not known yet, at most *timeout* seconds, or `max.block.ms`, and raises
        what `send` raises then: InvalidRecordError for an invalid name, TopicUnavailableError, SecurityError,
        ProducerClosedError.
        """
        if timeout is not None:
            check_timeout(timeout)
        self._lifecycle.check()
        self._blocking_send.wait_for_topic(topic, timeout=timeout)
        return self._engine.metadata.cluster.partitions(topic)

    @overload
    def metrics(self, /) -> Mapping[MetricName, float]: ...

    @overload
    def metrics(self, name: str, /, *, topic: str | None = None, node: int | None = None) -> float: ...

    def metrics(
        self, name: str | None = None, /, *, topic: str | None = None, node: int | None = None
    ) -> Mapping[MetricName, float] | float:
        """The current values of all metrics, by their names and tags in the Java client; also after `close`.

        `str` of the result is a short form for people. With a *name*, such as "record-send-rate", it is the value of
        that metric: of the whole producer, or of a *topic* or a *node* (a broker's id). An average or a maximum without
        events is NaN. Waits for nothing. Raises ValueError if no metric has the name, or several of plugins have it.
        """
        if name is None:
            return self._engine.metric_values.snapshot()
        return self._engine.metric_values.value(name, topic=topic, node=node)

    def client_instance_id(self, timeout: float | None = None) -> str | None:
        """The id under which brokers collect the metrics of this producer (KIP-714), as Kafka writes it.

        Waits at most `max.block.ms`, or *timeout* seconds, until a broker has assigned one. Returns None if none did in
        time, or no broker collects metrics. Inside a callback it does not wait, nor after `close`. Raises
        IllegalStateError with `enable.metrics.push=false`.
        """
        if timeout is not None:
            check_timeout(timeout)
        telemetry, config = self._engine.telemetry, self._engine.config
        if not config.observation.metrics_push:
            raise IllegalStateError("client_instance_id needs a producer with enable.metrics.push=true")
        self._lifecycle.check_process()
        if telemetry is None:
            return None
        seconds = config.batching.max_block if timeout is None else timeout
        return telemetry.client_instance_id(0.0 if io_threads.on_io_thread() else seconds)

    # Ending

    def flush(self, timeout: float | None = None) -> DeliveryReport:
        """Send everything queued immediately, and wait for it, for at most *timeout* seconds if that is given.

        Each record is acknowledged or fails within `delivery.timeout.ms`. Returns the counts since the last report.
        Raises FlushTimeoutError when time runs out (nothing is dropped), UndeliveredError when a record failed since
        the last report and its error was not retrieved, and IllegalStateError inside a delivery callback.
        """
        if timeout is not None:
            check_timeout(timeout)
        if io_threads.on_io_thread():
            raise IllegalStateError(
                "flush inside a delivery callback would wait for itself; call it from another thread"
            )
        self._lifecycle.check_process()
        with self._accumulator.unretrieved.reporting():
            with self._call_times.flush.timed(self._clock):
                in_time = self._accumulator.flush(timeout=timeout)
            return report_of_flush(self._report, timeout, in_time=in_time, obstacle=self._obstacle)

    def close(self, timeout: float | None = None) -> DeliveryReport:
        """Refuse new records, send queued ones for at most *timeout* seconds, fail the rest, and stop.

        Without *timeout* it takes at most `delivery.timeout.ms`; 0 fails queued records immediately. Inside a delivery
        callback it acts as with 0, and returns without waiting. Raises UndeliveredError as `flush` does. Closing again
        is harmless, and so is closing a producer of the parent process in a forked child.
        """
        if timeout is not None:
            check_timeout(timeout)  # before the producer counts as closed: it is still to be closed at exit
        self._unclosed.detach()
        report, unretrieved, error = self._lifecycle.close(timeout)
        if unretrieved:
            raise undelivered(report, unretrieved, error) from error
        return report

    def __repr__(self) -> str:
        unclosed = getattr(self, "_unclosed", None)  # None: the constructor has failed, and a debugger shows the object
        if unclosed is None:
            return object.__repr__(self)
        config, closed = self.config, "" if unclosed.alive else ", closed"
        return f"<{type(self).__name__} {config['client.id']}{closed}: {changes(config)}>"

    __reduce__ = refuse_copy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with noted_on(error, UndeliveredError, doing="closing the producer", log=self._lifecycle.log_undelivered):
            self.close()


_SEND: Final = Producer.send


def _check_sendable(state: Lifecycle, permission: AppendPermission, transaction: int | None = None) -> None:
    """Raise if the producer takes no records, or none in this *transaction*: it is closed, or another one is open."""
    state.check()
    permission.check(transaction)
