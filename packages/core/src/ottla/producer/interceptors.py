"""The chain of a producer's interceptors: called before a record is queued, and with its outcome.

`table_interceptors` calls them for the rows of tables.

An interceptor that fails is logged and skipped; its failure loses no record. Without interceptors nothing here is
created, and `send` is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import attrs

from ottla.accumulator.append_permission import AppendPermission
from ottla.accumulator.delivery import Delivery, ObservingCallback, OnDelivery, outcome_of
from ottla.concurrency import io_threads
from ottla.concurrency.calls_apart import CallsApart
from ottla.concurrency.environment import Environment
from ottla.config.values import brief
from ottla.config.wait_limit import check_timeout
from ottla.errors import DeliveryError, IllegalStateError, InvalidPluginError, InvalidRecordError, OttlaError
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.notes import note_once
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import Header, Headers, Interceptor, ProducerRecord, SupportsOnSendTable, supports
from ottla.plugins.former_interceptors import AdaptedInterceptor, FormerInterceptor, three_parts
from ottla.plugins.record_headers import checked_headers
from ottla.producer.callbacks import check_callback
from ottla.producer.record_checks import timestamp_of
from ottla.producer.send_signature import Send
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla.results import RecordMetadata

logger = robust_logger(__name__)

Parts: TypeAlias = tuple[Any, Any, Sequence[Header], int | None, int | None]
"""What interceptors may change of a record: key, value, headers, partition and timestamp."""


class Interceptors:
    """The interceptors of one producer, in order, by their names in the log. For any thread."""

    def __init__(self, interceptors: Mapping[str, Interceptor], *, environment: Environment) -> None:
        self.by_name = interceptors
        self._former = _former(interceptors)
        self._pass = self._on_send if self._former is None else self._on_send_in_parts
        self._throttled_log = ThrottledLog(logger, clock=environment.clock)
        self.apart = CallsApart(environment, "ottla-interceptors")
        """The calls for completed records and tables after `set_apart`."""
        self._set_apart = False

    def set_apart(self) -> None:
        """Make calls for completed records and tables `apart`: an interceptor may be what the I/O thread hangs in."""
        self._set_apart = True

    def are_apart(self) -> bool:
        """Return whether calls for completed records and tables are made `apart` on this thread."""
        return self._set_apart and not io_threads.on_io_thread()

    def check_tables(self) -> None:
        """Raise IllegalStateError if an interceptor would see none of the rows of a table."""
        for name, interceptor in self.by_name.items():
            if not supports(interceptor, SupportsOnSendTable):
                raise IllegalStateError(
                    f"send_table would send rows past the {name}, which has no on_send_table: use a version of the "
                    "plugin that has it, leave it out of interceptor.classes, or send the rows one by one"
                )

    def refuse_sealed(self) -> None:
        """Raise IllegalStateError: the rows of a sealed batch are encoded already."""
        names = ", ".join(self.by_name)
        raise IllegalStateError(
            f"rows of a sealed batch would go past the {names}: use send_table, or a producer without "
            "interceptor.classes"
        )

    def around(self, send: Send, permission: AppendPermission) -> Send:
        """Wrap *send*: records pass the interceptors first; the interceptors get the outcome of refused ones, too.

        A record whose transaction ends meanwhile is refused.
        """

        def intercepted(
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
            if timeout is not None:
                check_timeout(timeout)  # first: a call with wrong arguments is no record for interceptors
            transaction = permission.transaction
            record = self.begin(topic, partition, on_delivery)
            try:
                key, value, given, partition, timestamp_ms = record.intercept(
                    key, value, headers, partition, timestamp_ms
                )
                if permission.transaction != transaction:
                    permission.check(transaction)
                return send(
                    topic,
                    value,
                    key,
                    headers=given,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    on_delivery=record,
                    timeout=timeout,
                )
            except Exception as error:
                record.fail(error)
                raise
            except BaseException as interrupt:  # such as KeyboardInterrupt in a wait
                record.interrupt(interrupt)
                raise

        intercepted.__name__, intercepted.__doc__ = "send", send.__doc__
        return intercepted

    def begin(self, topic: str, partition: int | None, on_delivery: OnDelivery | None) -> InterceptedRecord:
        """A record that the interceptors have not had yet; it becomes the record's `on_delivery`."""
        return InterceptedRecord(self, topic, partition, on_delivery)

    def pass_through(self, record: InterceptedRecord, topic: str, parts: Parts) -> Parts:
        """Call every interceptor with the record, in order, and return what they made of it."""
        return self._pass(record, topic, parts)

    def acknowledge(self, metadata: RecordMetadata, error: Exception | None, contexts: Sequence[Any]) -> None:
        """Call every interceptor with the outcome of a record and with the interceptor's own context.

        *contexts* has one for each interceptor; it is empty if all are None. A `FormerInterceptor` gets no context.
        """
        if self._former is not None:
            for name, former in self._former.items():
                try:
                    former.on_acknowledgement(metadata, error)
                except faults() as cause:
                    self._log_failed_acknowledgement(name, cause)
            return
        for (name, interceptor), context in zip(self.by_name.items(), contexts or repeat(None), strict=False):
            try:
                interceptor.on_acknowledgement(metadata, error, context)
            except faults() as cause:
                self._log_failed_acknowledgement(name, cause)

    def _on_send(self, record: InterceptedRecord, topic: str, parts: Parts) -> Parts:
        key, value, headers, partition, timestamp_ms = parts
        passed = ProducerRecord(
            topic=topic, key=key, value=value, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        contexts: list[Any] = []
        for name, interceptor in self.by_name.items():
            context = None
            try:
                made = _checked(interceptor.on_send(passed), passed)
                if made is not passed and _parts_differ(made, passed):
                    record.changed_by = (*record.changed_by, name)
                context = made.context
                passed = made if context is None else attrs.evolve(made, context=None)
            except faults() as cause:
                self._log_failed_send(name, cause)
            contexts.append(context)
        record.contexts = contexts
        record.partition = passed.partition
        return passed.key, passed.value, passed.headers, passed.partition, passed.timestamp_ms

    def _on_send_in_parts(self, record: InterceptedRecord, topic: str, parts: Parts) -> Parts:
        """The same where all interceptors are former ones, which do without the objects of the newest generation."""
        key, value, headers, partition, timestamp_ms = parts
        assert self._former is not None, "otherwise it is not chosen"
        for name, former in self._former.items():
            try:
                made_key, made_value, made_headers = three_parts(former.on_send(topic, key, value, headers))
                headers = _checked_headers(made_headers, headers)
                if made_key is not key or made_value is not value:
                    record.changed_by = (*record.changed_by, name)
                key, value = made_key, made_value
            except faults() as cause:
                self._log_failed_send(name, cause)
        return key, value, headers, partition, timestamp_ms

    def _log_failed_send(self, name: str, cause: BaseException) -> None:
        self._throttled_log.error(
            (name, "on_send"), "the %s failed in on_send; the record is sent without its change", name, error=cause
        )

    def log_failed_send_table(self, name: str, cause: BaseException) -> None:
        """Log that an interceptor failed, at most once in half a minute."""
        self._throttled_log.error(
            (name, "on_send_table"),
            "the %s failed in on_send_table; the rows are sent without its change",
            name,
            error=cause,
        )

    def log_failed_table_acknowledgement(self, name: str, cause: BaseException) -> None:
        """Log that an interceptor failed, at most once in half a minute."""
        self._throttled_log.error(
            (name, "on_table_acknowledgement"), "the %s failed in on_table_acknowledgement", name, error=cause
        )

    def _log_failed_acknowledgement(self, name: str, cause: BaseException) -> None:
        self._throttled_log.error(
            (name, "on_acknowledgement"), "the %s failed in on_acknowledgement", name, error=cause
        )


@attrs.define(eq=False, repr=False)
class InterceptedRecord(ObservingCallback):
    """One record on its way past the interceptors, and its callback: calls them, then the callback of its `send`."""

    _interceptors: Interceptors
    _topic: str
    partition: int | None
    _on_delivery: OnDelivery | None
    contexts: Sequence[Any] = ()
    """What each interceptor gets back; empty: all get None."""
    changed_by: Sequence[str] = ()
    """The names of interceptors that have changed the key, the value or the partition."""
    _unreported: list[None] = attrs.field(init=False, factory=lambda: [None])
    """Empty once the interceptors have the outcome, or get it now: `pop` is one step for several threads."""

    @property
    def retrieves_error(self) -> bool:
        """Whether calling this retrieves the error for the program: interceptors alone do not."""
        return self._on_delivery is not None

    def intercept(
        self, key: Any, value: Any, headers: Headers | None, partition: int | None, timestamp_ms: int | datetime | None
    ) -> Parts:
        """Check what the caller gave, and pass it through the interceptors. After an exception call `fail`."""
        if self._on_delivery is not None:
            check_callback(self._on_delivery)
        # First: headers may be readable only once, and wrong ones are the caller's fault, not an interceptor's.
        given: Sequence[Header] = () if headers is None else checked_headers(headers)
        milliseconds: Any = timestamp_ms
        if isinstance(timestamp_ms, datetime):
            with suppress(InvalidRecordError):  # `send` refuses it in its turn
                milliseconds = timestamp_of(timestamp_ms)
        return self._interceptors.pass_through(self, self._topic, (key, value, given, partition, milliseconds))

    def fail(self, error: Exception) -> None:
        """Call every interceptor with the error of a record that was not queued, and note there who has changed it.

        If a signal's handler has raised the error, the record may be queued: they get the outcome that comes first.
        """
        if self.changed_by and isinstance(error, InvalidRecordError | InvalidPluginError):
            note_once(error, f"the key, the value or the partition was changed by the {', the '.join(self.changed_by)}")
        if self._is_first():
            self._interceptors.acknowledge(self.unwritten(error), error, self.contexts)

    def interrupt(self, cause: BaseException) -> None:
        """Call every interceptor with the end of a `send` that *cause* has interrupted, unless they have the outcome.

        The record may have been queued: its delivery then calls no interceptor.
        """
        error = OttlaError(f"send was interrupted by {cause!r}; whether its record was queued is not known")
        error.__cause__ = cause
        self.fail(error)

    def unwritten(self, error: Exception) -> RecordMetadata:
        """Metadata of a record that was not written."""
        partition = error.partition if isinstance(error, DeliveryError) else self.partition
        return RecordMetadata(self._topic, partition if isinstance(partition, int) else -1, -1, -1, -1, -1)

    def __call__(self, delivery: Delivery) -> None:
        if self._interceptors.are_apart():
            # Not before the program's callback, which would wait for an interceptor that hangs.
            self._interceptors.apart.add(partial(self._acknowledge, delivery))
            if self._on_delivery is not None:
                self._on_delivery(delivery)
            return
        try:
            self._acknowledge(delivery)
        finally:
            if self._on_delivery is not None:
                self._on_delivery(delivery)

    def _acknowledge(self, delivery: Delivery) -> None:
        metadata, error = outcome_of(delivery)
        if metadata is None:
            assert error is not None, "a record has one or the other"
            metadata = self.unwritten(error)
        if self._is_first():
            self._interceptors.acknowledge(metadata, error, self.contexts)

    def _is_first(self) -> bool:
        """Return whether the caller has the record's first outcome, which alone is passed on."""
        try:
            self._unreported.pop()
        except IndexError:
            return False
        return True


def _former(interceptors: Mapping[str, Interceptor]) -> Mapping[str, FormerInterceptor] | None:
    """The former interceptors that these are made of, or None if one of them is of the newest generation."""
    former = {name: each.former for name, each in interceptors.items() if isinstance(each, AdaptedInterceptor)}
    return former if len(former) == len(interceptors) else None


def _checked(made: object, given: ProducerRecord) -> ProducerRecord:
    """The record that an interceptor has made of the *given* one. Raises for a fault of the interceptor.

    What the caller gave is checked by `send`, which then refuses the record.
    """
    if made is given:
        return given
    if not isinstance(made, ProducerRecord):
        raise TypeError(f"on_send returned {type(made).__name__}, not a ProducerRecord")
    if made.topic != given.topic:
        raise ValueError("on_send returned another topic, which cannot be changed")
    partition, timestamp_ms = made.partition, made.timestamp_ms
    if partition is not given.partition and not _is_partition(partition):
        raise ValueError(f"on_send returned partition {brief(partition)}; it is an int of at least 0, or None")
    if timestamp_ms is not given.timestamp_ms and not _is_timestamp(timestamp_ms):
        raise ValueError(f"on_send returned timestamp_ms {brief(timestamp_ms)}; it is an int from 0 to {TIMESTAMP_MAX}")
    headers = _checked_headers(made.headers, given.headers)
    return made if headers is made.headers else attrs.evolve(made, headers=headers)


def _parts_differ(made: ProducerRecord, given: ProducerRecord) -> bool:
    return made.key is not given.key or made.value is not given.value or made.partition is not given.partition


def _is_partition(made: object) -> bool:
    return made is None or (type(made) is int and made >= 0)


def _is_timestamp(made: object) -> bool:
    return made is None or (type(made) is int and 0 <= made <= TIMESTAMP_MAX)


def _checked_headers(made: Any, given: Sequence[Header]) -> Sequence[Header]:
    return given if made is given else checked_headers(made)
