"""All requirements for an `Interceptor`, of generation 2.

```python
class TestMine(InterceptorConformance):
    @pytest.fixture
    def interceptor(self):
        return MyInterceptor()
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, cast

import attrs
import pytest

from ottla import BrokerError, DeliveryError, ErrorCode, InvalidRecordError, RecordMetadata
from ottla.errors import with_article
from ottla.interfaces import Header, Interceptor, ProducerRecord
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import together
from ottla_testkit.conformance.harness.copies import copied
from ottla_testkit.conformance.harness.nonwaiting_calls import check_does_not_wait
from ottla_testkit.conformance.harness.schedules import check_orders
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads
from ottla_testkit.conformance.interceptor_tables import CONTENTS, GIVEN, Given, TableRequirements

Made: TypeAlias = tuple[Any, Any, tuple[Header, ...]]

TOPICS: Final = ("orders", "x", "a.b-c_d" * 30)
HEADERS: Final[Sequence[tuple[Header, ...]]] = (
    (),
    (("trace", b"1"), ("nothing", None), ("trace", b""), ("\u00e9", b"\0")),
)
_WRITTEN: Final = RecordMetadata("orders", 3, 42, 1_700_000_000_000, -1, 5)
_UNWRITTEN: Final = RecordMetadata("orders", -1, -1, -1, -1, -1)
_OUTCOMES: Final[Sequence[tuple[RecordMetadata, Exception | None]]] = (
    (_WRITTEN, None),
    (_WRITTEN._replace(offset=-1), None),
    (_UNWRITTEN, InvalidRecordError("the value for topic 'orders' must be bytes")),
    (
        _UNWRITTEN._replace(partition=3),
        DeliveryError("refused", topic="orders", partition=3, attempts=1, possibly_persisted=False),
    ),
    (_UNWRITTEN._replace(topic="never sent to"), BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
    (_UNWRITTEN, RuntimeError()),
)

_THREADS: Final = 8
_SCHEDULED: Final = 4
_TIMES: Final = 200


class InterceptorConformance(TableRequirements):
    """Tests of an interceptor: derive a class `Test...` from it, and override the fixture `interceptor`."""

    subject: ClassVar[str] = "interceptor"
    contract: ClassVar[type] = Interceptor
    records: ClassVar[Sequence[tuple[Any, Any]]] = (
        (None, b"value"),
        (b"key", b"value"),
        (b"key", None),
        (b"", b""),
        (b"ann", CONTENTS),
    )
    """Keys and values that the interceptor gets, as they are given to `send`; also in tables, if it takes them."""
    keeps_types: ClassVar[bool] = True
    """Whether bytes stay bytes, or become None: there may be no serializer after the interceptor."""

    @pytest.fixture
    def interceptor(self) -> Interceptor:
        """The interceptor under test; a new one for each test."""
        raise NotImplementedError("give a fixture `interceptor` that returns your Interceptor")

    @pytest.fixture(autouse=True)
    def records_of_this_test_alone(self) -> None:
        """Give each test data of its own, which no earlier test has let the interceptor change."""
        vars(self)["records"] = [copied(record) for record in self.records]

    def test_it_has_every_method_of_the_contract(self, interceptor: Interceptor) -> None:
        check_contract(interceptor, Interceptor)

    def test_every_record_can_be_sent(self, interceptor: Interceptor) -> None:
        for topic in TOPICS:
            for headers in HEADERS:
                for key, value in self.records:
                    self._send(interceptor, key, value, topic=topic, headers=headers)

    def test_it_accepts_records_changed_by_another_interceptor(self, interceptor: Interceptor) -> None:
        for key, value in self.records:
            made = self._send(interceptor, key, value, headers=HEADERS[1])
            self._send(interceptor, made[0], made[1], headers=made[2])

    def test_parts_besides_key_and_value_stay(self, interceptor: Interceptor) -> None:
        for key, value in self.records:
            given = _record(key, value, headers=GIVEN.headers)
            record = attrs.evolve(given, partition=GIVEN.partition, timestamp_ms=GIVEN.timestamp_ms)
            made = self._send_record(interceptor, record)
            self._check_kept("on_send()", GIVEN, Given(tuple(made.headers), made.partition, made.timestamp_ms))

    def test_its_arguments_are_not_changed(self, interceptor: Interceptor) -> None:
        for key, value in self.records:
            before = copied((key, value))
            self._send(interceptor, key, value)
            check((key, value) == before, f"{before!r} was changed into {(key, value)!r}: it is the caller's")

    def test_every_call_returns_at_once(self, interceptor: Interceptor) -> None:
        for key, value in self.records:
            check_does_not_wait(
                "on_send()",
                lambda key=key, value=value: self._send(interceptor, key, value),  # type: ignore[misc]
                timeout=self.timeout,
                waiting="the caller of send() waits for it",
            )
        check_does_not_wait(
            "on_acknowledgement()",
            lambda: self._report(interceptor, _WRITTEN, None),
            timeout=self.timeout,
            waiting="the I/O thread waits for it, and with it all other records",
        )

    def test_every_outcome_is_accepted(self, interceptor: Interceptor) -> None:
        for metadata, error in (*_OUTCOMES, *_OUTCOMES):  # also of records that it did not get
            self._report(interceptor, metadata, error)

    def test_its_context_comes_back_with_any_outcome(self, interceptor: Interceptor) -> None:
        for key, value in self.records:
            for metadata, error in _OUTCOMES:
                self._send(interceptor, key, value)
                context = interceptor.on_send(_record(key, value)).context
                self._report(interceptor, metadata, error, context)

    def test_outcomes_may_come_while_other_records_are_sent(self, interceptor: Interceptor) -> None:
        records = [(key, value, self._alike(interceptor, key, value)) for key, value in self.records]

        def send(first: int) -> None:
            for turn in range(_TIMES):
                key, value, expected = records[(first + turn) % len(records)]
                made = self._send(interceptor, key, value)
                check(
                    expected is None or made == expected,
                    f"by many threads at once, {(key, value)!r} became {made!r}, and alone {expected!r}",
                )

        def report() -> None:
            for turn in range(_TIMES):
                self._report(interceptor, *_OUTCOMES[turn % len(_OUTCOMES)])

        works: list[Callable[[], object]] = [lambda first=first: send(first) for first in range(_THREADS)]  # type: ignore[misc]
        together(self.timeout * 3, [*works, report], call="on_send()")

    def test_threads_may_change_at_any_line(self, interceptor: Interceptor) -> None:
        contexts: list[object] = []
        alike = {number: self._alike(interceptor, *record) for number, record in enumerate(self.records)}
        alone = [self._send_record(interceptor, _record(*record)).context for record in (*self.records, *self.records)]
        own = None not in alone and len(set(map(id, alone))) == len(alone)

        def send(first: int) -> None:
            for turn in range(_SCHEDULED * len(self.records)):
                number = (first + turn) % len(self.records)
                key, value = self.records[number]
                made = self._send_record(interceptor, _record(key, value))
                expected = alike[number]
                check(
                    expected is None or (made.key, made.value, tuple(made.headers)) == expected,
                    f"{(key, value)!r} became {(made.key, made.value, tuple(made.headers))!r}, and alone {expected!r}",
                )
                contexts.append(made.context)
                check(
                    not own or len(set(map(id, contexts))) == len(contexts),
                    "two records got the same object as their `context`, and each one has its own alone",
                )

        check_orders([partial(send, first) for first in range(_SCHEDULED)], "state that calls share needs a lock")

    def test_close_ends_background_work(self, started_threads: StartedThreads, interceptor: Interceptor) -> None:
        with self._closed_after(interceptor, started_threads):
            for key, value in self.records:
                self._send(interceptor, key, value)
            self._report(interceptor, _WRITTEN, None)

    # Shared by the tests

    def _send(
        self,
        interceptor: Interceptor,
        key: Any,
        value: Any,
        *,
        topic: str = "orders",
        headers: tuple[Header, ...] = (),
    ) -> Made:
        made = self._send_record(interceptor, _record(key, value, topic=topic, headers=headers))
        return made.key, made.value, tuple(made.headers)

    def _send_record(self, interceptor: Interceptor, record: ProducerRecord) -> ProducerRecord:
        key, value, topic = record.key, record.value, record.topic
        what = f"on_send() of the key {_shown(key)}, the value {_shown(value)} and {len(record.headers)} headers"
        try:
            made: Any = interceptor.on_send(record)
        except Exception as error:
            fail(f"{what} raised {error!r}; the record would go on without what it adds", error)
        check(
            isinstance(made, ProducerRecord),
            f"{what} returned {_shown(made)}; it must be a ProducerRecord",
        )
        check(made.topic == topic, f"{what} returned the topic {made.topic!r}; it cannot be changed")
        for name, number in (("partition", made.partition), ("timestamp_ms", made.timestamp_ms)):
            check(
                number is None or (type(number) is int and number >= 0),
                f"{what} returned {name} {number!r}; it must be an int of at least 0, or None",
            )
        _check_headers(what, made.headers)
        for part, before, after in (("key", key, made.key), ("value", value, made.value)):
            kept = not isinstance(before, bytes) or isinstance(after, bytes | None)
            check(
                kept or not self.keeps_types,
                f"{what} made {with_article(type(after).__name__)} of the {part}, which no producer without a "
                "serializer takes; keeps_types = False allows it",
            )
        return cast(ProducerRecord, made)

    def _alike(self, interceptor: Interceptor, key: Any, value: Any) -> Made | None:
        """Return the interceptor's result for a record, or None if repeated calls differ."""
        once, again = self._send(interceptor, key, value), self._send(interceptor, key, value)
        return once if once == again else None

    def _report(
        self, interceptor: Interceptor, metadata: RecordMetadata, error: Exception | None, context: Any = None
    ) -> None:
        try:
            interceptor.on_acknowledgement(metadata, error, context)
        except Exception as raised:
            fail(f"on_acknowledgement() of {metadata} and {error!r} raised {raised!r}", raised)


def _record(key: Any, value: Any, *, topic: str = "orders", headers: tuple[Header, ...] = ()) -> ProducerRecord:
    return ProducerRecord(topic=topic, key=key, value=value, headers=headers, partition=None, timestamp_ms=None)


def _check_headers(what: str, headers: Any) -> None:
    check(
        isinstance(headers, Sequence) and not isinstance(headers, str | bytes),
        f"{what} returned headers of the type {type(headers).__name__}; they must be a sequence of pairs",
    )
    for header in headers:
        check(
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and isinstance(header[1], bytes | None),
            f"{what} returned the header {_shown(header)}; it must be a pair of str and bytes or None",
        )


def _shown(data: Any) -> str:
    shown = repr(data)
    return shown if len(shown) < 60 else f"{shown[:60]}..."
