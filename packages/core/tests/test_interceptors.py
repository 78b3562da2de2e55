"""Interceptors: what they get, what they may change, and that no failing one loses a record."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow
import pytest

from ottla import (
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    Producer,
    ProducerClosedError,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    UndeliveredError,
)
from ottla.errors import IllegalStateError
from ottla.errors.log_throttle import SILENCE_SECONDS
from ottla.interfaces import Header, Interceptor, ProducerRecord
from ottla.plugins.registry import KINDS
from ottla_testkit.mock_producer import MockProducer, build
from simulated_producer import Simulated, choosing, simulated


class RecordingInterceptor:
    """Writes down what it sees, and leaves its mark on every value."""

    def __init__(self, mark: str = "", order: list[str] | None = None) -> None:
        self.mark = mark
        self.order: list[str] = [] if order is None else order
        self.seen: list[tuple[str, Any, Any, Sequence[Header]]] = []
        self.reported: list[tuple[RecordMetadata, Exception | None]] = []
        self.threads: set[str] = set()
        self.closed = 0

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        self.order.append(f"send {self.mark}")
        self.seen.append((topic, key, value, headers))
        return key, value + self.mark if value is not None else None, (*headers, ("by", self.mark.encode()))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.order.append(f"called {self.mark}")
        self.reported.append((metadata, error))
        self.threads.add(threading.current_thread().name)

    def close(self) -> None:
        self.closed += 1


class Failing(RecordingInterceptor):
    """Fails in whatever it does."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        raise LookupError("no place for it")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        raise LookupError("no place for it")

    def close(self) -> None:
        raise LookupError("no place for it")


def simulated_with(*interceptors: Any, **options: Any) -> Any:
    """A simulated producer of text with these interceptors."""
    named = {f"interceptor {number}": each for number, each in enumerate(interceptors)}
    return simulated(1, 1, plugins={"interceptors": named, **TEXT}, **options)


class Text:
    """A serializer that shows in which order things happen."""

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        return None if data is None else data.encode()


TEXT: Mapping[str, Any] = {"value_serializer": Text()}


def written_values(simulation: Simulated) -> list[bytes | None]:
    simulation.run_until_idle()
    return simulation.log()


# Going in


@pytest.mark.rule("producer.send.interceptors")
def test_interceptors_run_in_order_before_serialization() -> None:
    first, second = RecordingInterceptor("1"), RecordingInterceptor("2")
    with simulated_with(first, second) as simulation:
        simulation.producer.send("t", "value", b"key", headers=[("trace", b"x")], partition=0)

        assert written_values(simulation) == [b"value12"]
    assert first.seen == [("t", b"key", "value", (("trace", b"x"),))]
    assert second.seen == [("t", b"key", "value1", (("trace", b"x"), ("by", b"1")))]


@pytest.mark.rule("producer.send.interceptors")
def test_one_shot_header_iterators_are_seen_by_all_and_sent() -> None:
    first, second = RecordingInterceptor("1"), RecordingInterceptor("2")
    with simulated_with(first, second) as simulation:
        simulation.producer.send("t", "a", headers=iter([("trace", b"x")]), partition=0)
        simulation.producer.send("t", "b", headers={"trace": b"x"}, partition=0)
        simulation.run_until_idle()

        assert [record.headers for record in simulation.cluster.topics["t"].log[0]] == [
            (("trace", b"x"), ("by", b"1"), ("by", b"2"))
        ] * 2


def test_no_headers_may_be_given_as_none() -> None:
    interceptor = RecordingInterceptor("1")
    with simulated_with(interceptor) as simulation:
        simulation.producer.send("t", "value", headers=None, partition=0)

        assert written_values(simulation) == [b"value1"]
    assert interceptor.seen == [("t", None, "value", ())]


@pytest.mark.rule("producer.send.interceptors")
def test_an_interceptor_that_raises_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    first, last = RecordingInterceptor("1"), RecordingInterceptor("3")
    with simulated_with(first, Failing(), last) as simulation:
        simulation.producer.send("t", "value", partition=0)

        assert written_values(simulation) == [b"value13"]
    assert "the interceptor 1 failed in on_send; the record is sent without its change: LookupError" in caplog.messages
    assert "the interceptor 1 failed in on_acknowledgement: LookupError" in caplog.messages
    assert "the interceptor 1 failed to close" in caplog.messages
    assert len(last.reported) == last.closed == 1


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (None, "TypeError"),
        (("key", "value"), "TypeError"),
        (["key", "value", ()], "TypeError"),
        (("key", "value", None), "InvalidRecordError"),
    ],
)
def test_an_interceptor_with_a_wrong_result_is_skipped(made: Any, error: str, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(RecordingInterceptor):
        def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
            return made

    with simulated_with(Odd()) as simulation:
        simulation.producer.send("t", "value", partition=0)

        assert written_values(simulation) == [b"value"]
    assert any(
        "failed in on_send; the record is sent without its change: " in line and error in line
        for line in caplog.messages
    )


@pytest.mark.rule("producer.send.interceptors")
def test_an_error_for_every_record_is_a_throttled_log_line_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    with simulated_with(Failing()) as simulation:
        for _ in range(1_000):
            simulation.producer.send("t", "value", partition=0)
        assert len(caplog.messages) == 1
        simulation.clock.advance(SILENCE_SECONDS)
        simulation.producer.send("t", "value", partition=0)

        assert len(caplog.messages) == 2
        assert caplog.messages[-1].endswith("LookupError; 999 more failures since the last line")
        assert len(written_values(simulation)) == 1_001


# What became of it


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_outcomes_come_in_order_before_the_callback_of_the_sender() -> None:
    order: list[str] = []
    first, second = RecordingInterceptor("1", order), RecordingInterceptor("2", order)
    with simulated_with(first, second) as simulation:
        for number in range(3):
            simulation.producer.send(
                "t", str(number), partition=0, on_delivery=lambda _delivery: order.append("callback")
            )
        order.clear()
        simulation.run_until_idle()

    assert order == ["called 1", "called 2", "callback"] * 3
    assert [(metadata.topic, metadata.partition, metadata.offset) for metadata, _error in first.reported] == [
        ("t", 0, 0),
        ("t", 0, 1),
        ("t", 0, 2),
    ]
    assert first.reported[0][0].serialized_value_size == len("012")


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_an_expired_record_is_reported_with_its_partition_and_error() -> None:
    recording, called = RecordingInterceptor(), list[Any]()
    with simulated_with(recording) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        delivery = simulation.producer.send("t", "value", partition=1, on_delivery=called.append)
        simulation.run_until_idle()

        [(metadata, error)] = recording.reported
        assert metadata == RecordMetadata("t", 1, -1, -1, -1, -1)
        assert isinstance(error, DeliveryError)
        assert [(each.metadata, str(each.error)) for each in called] == [(None, str(delivery.exception()))]


@pytest.mark.rule("producer.send.interceptors.outcomes")
@pytest.mark.parametrize(
    ("record", "refused"),
    [
        ({"value": "x" * 2_000_000}, RecordTooLargeError),
        ({"value": "x", "timestamp_ms": -1}, InvalidRecordError),
        ({"value": "x", "headers": [("lone",)]}, InvalidRecordError),
        ({"value": "x", "headers": 5}, InvalidRecordError),
        ({"value": "x", "topic": "no topic"}, InvalidRecordError),
    ],
)
def test_a_record_that_send_refuses_is_reported_at_once_and_raised(
    record: dict[str, Any], refused: type[Exception]
) -> None:
    recording = RecordingInterceptor()
    with simulated_with(recording) as simulation:
        topic = record.pop("topic", "t")
        with pytest.raises(refused) as raised:
            simulation.producer.send(topic, partition=1, **record)

        assert recording.reported == [(RecordMetadata(topic, 1, -1, -1, -1, -1), raised.value)]
        assert not simulation.accumulator.incomplete


def interrupted(interruption: BaseException, monkeypatch: pytest.MonkeyPatch, *, after: str) -> RecordingInterceptor:
    """What an interceptor has got when a send was interrupted *after* so many steps, and the producer is idle."""
    recording = RecordingInterceptor()
    with simulated_with(recording) as simulation:
        append = simulation.producer._blocking_send.append

        def append_and_raise(*given: Any) -> Any:
            if after != "nothing":
                append(*given)
            if after == "the acknowledgement":
                simulation.run_until_idle()
            raise interruption

        with monkeypatch.context() as patch:
            patch.setattr(simulation.producer._blocking_send, "append", append_and_raise)
            with pytest.raises(type(interruption)):
                simulation.producer.send("t", "value", partition=1)
        simulation.run_until_idle()
    return recording


@pytest.mark.rule("producer.send.interceptors.outcomes")
@pytest.mark.parametrize("after", ["nothing", "it was queued"])
def test_an_interrupted_record_is_reported_once(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [(metadata, error)] = interrupted(KeyboardInterrupt(), monkeypatch, after=after).reported

    assert metadata == RecordMetadata("t", 1, -1, -1, -1, -1)
    assert "interrupted by KeyboardInterrupt()" in str(error)


@pytest.mark.rule("producer.send.interceptors.outcomes")
@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), TimeoutError("an alarm")])
def test_a_record_acknowledged_before_the_interruption_is_reported_once(
    interruption: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(metadata, error)] = interrupted(interruption, monkeypatch, after="the acknowledgement").reported

    assert (metadata.offset, error) == (0, None)


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_a_record_queued_before_an_alarm_raises_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarm = TimeoutError("an alarm")

    assert [error for _metadata, error in interrupted(alarm, monkeypatch, after="it was queued").reported] == [alarm]


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_an_interceptor_that_gets_an_error_does_not_retrieve_it() -> None:
    with simulated_with(RecordingInterceptor()) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send("t", "value", partition=0)
        with pytest.raises(UndeliveredError, match="its error was never retrieved"):
            simulation.producer.close()


def test_a_callback_next_to_interceptors_retrieves_the_error() -> None:
    with simulated_with(RecordingInterceptor()) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send("t", "value", partition=0, on_delivery=lambda _delivery: None)

        assert simulation.producer.close().failed == 1


def test_every_record_is_reported_once_even_if_its_batch_is_split() -> None:
    recording = RecordingInterceptor()
    with simulated_with(recording) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        for number in range(20):
            simulation.producer.send("t", str(number), partition=0)
        simulation.run_until_idle()

    assert [metadata.offset for metadata, _error in recording.reported] == list(range(20))


def test_pending_records_are_reported_before_close_returns() -> None:
    recording = RecordingInterceptor()
    with simulated_with(recording, linger_ms=60_000) as simulation:
        simulation.producer.send("t", "value", partition=0)
        with pytest.raises(UndeliveredError):
            simulation.producer.close(0)

    [(_metadata, error)] = recording.reported
    assert isinstance(error, DeliveryError)
    assert recording.closed == 1


# Producers


def test_without_interceptors_send_is_unchanged() -> None:
    with simulated(1) as simulation:
        assert "send" not in vars(simulation.producer)
        assert simulation.producer._engine.interceptors is None


@pytest.mark.rule("producer.send-table.interceptors")
def test_a_table_is_refused_if_an_interceptor_takes_records_only() -> None:
    recording = RecordingInterceptor()
    with (
        simulated_with(recording) as simulation,
        pytest.raises(
            IllegalStateError,
            match="would send rows past the interceptor 0, which has no on_send_table: use a version of the plugin",
        ),
    ):
        simulation.producer.send_table("t", pyarrow.table({"value": [b"a"]}))

    assert not recording.reported


def test_an_overridden_send_runs_after_the_interceptors() -> None:
    class Doubling(MockProducer):
        def send(self, topic: str, value: Any = None, *arguments: Any, **options: Any) -> Any:
            return super().send(topic, value * 2, *arguments, **options)

    with with_interceptor(Doubling, RecordingInterceptor("!")) as producer:
        producer.send("t", "value")

    assert [record.value for record in producer.history] == [b"value!value!"]


def test_a_mock_producer_supports_interceptors() -> None:
    recording = RecordingInterceptor("!")
    producer = with_interceptor(MockProducer, recording)
    producer.auto_complete = False
    producer.send("t", "value", on_delivery=lambda _delivery: producer.close(0))
    producer.raise_next("send", RuntimeError("planned"))
    with pytest.raises(RuntimeError, match="planned"):
        producer.send("t", "other")
    producer.complete_next()

    assert [str(error) for _metadata, error in recording.reported] == ["planned", "None"]
    assert recording.closed == 1
    producer.close()
    assert recording.closed == 1


def with_interceptor(kind: type[MockProducer], recording: RecordingInterceptor) -> Any:
    plugins = {"interceptors": {"recording": recording}, **TEXT}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "choose_plugins", choosing(plugins))
        return kind()


def test_a_dropped_producer_is_not_kept_alive_by_its_send() -> None:
    recording = RecordingInterceptor()
    simulation = Simulated(1, plugins={"interceptors": {"recording": recording}, **TEXT})
    send, gone = simulation.producer.send, weakref.ref(simulation.producer)
    gc.disable()
    try:
        del simulation.producer
        assert gone() is None
    finally:
        gc.enable()
    simulation.thread.join(20.0)

    assert recording.closed == 1
    with pytest.raises(
        ProducerClosedError, match="the producer was garbage-collected; keep a reference to it while its send is used"
    ):
        send("t", "value")


def test_interceptors_of_two_producers_are_independent() -> None:
    one, other = RecordingInterceptor("1"), RecordingInterceptor("2")
    with simulated_with(one) as first, simulated_with(other) as second:
        first.producer.send("t", "a", partition=0)
        second.producer.send("t", "b", partition=0)
        assert written_values(first) == [b"a1"]
        assert written_values(second) == [b"b2"]


def test_many_threads_send_through_interceptors() -> None:
    recording = RecordingInterceptor("!")
    producer: Producer = with_interceptor(MockProducer, recording)
    threads = [threading.Thread(target=lambda: [producer.send("t", "v") for _ in range(200)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close()

    assert len(recording.seen) == len(recording.reported) == 1_200


# Whole records


class Whole:
    """Changes partition and timestamp, and gets back what it set as the context."""

    ottla_spec = 2

    def __init__(self, name: str, **changes: Any) -> None:
        self.name = name
        self.changes = changes
        self.seen: list[ProducerRecord] = []
        self.reported: list[tuple[int, Exception | None, Any]] = []

    def on_send(self, record: ProducerRecord) -> Any:
        self.seen.append(record)
        return attrs.evolve(record, context=(self.name, record.value), **self.changes)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        self.reported.append((metadata.partition, error, context))


@pytest.mark.rule("producer.send.interceptors")
def test_an_interceptor_may_choose_partition_and_timestamp() -> None:
    first, second = Whole("1", partition=1, timestamp_ms=7), Whole("2", key=b"k")
    with simulated_with(first, second) as simulation:
        simulation.producer.send("t", "value", headers={"trace": b"x"})
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[1]
        assert (record.key, record.value, record.timestamp_ms, record.headers) == (
            b"k",
            b"value",
            7,
            (("trace", b"x"),),
        )
    parts: dict[str, Any] = {"topic": "t", "key": None, "value": "value", "headers": (("trace", b"x"),)}
    assert first.seen == [ProducerRecord(**parts, partition=None, timestamp_ms=None)]
    assert second.seen == [ProducerRecord(**parts, partition=1, timestamp_ms=7)]


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_each_interceptor_gets_its_own_context_with_the_outcome() -> None:
    first, former, second = Whole("1"), RecordingInterceptor(""), Whole("2", partition=1)
    with simulated_with(first, former, second) as simulation:
        for value in ("a", "b"):
            simulation.producer.send("t", value)
        simulation.run_until_idle()

    assert first.reported == [(1, None, ("1", "a")), (1, None, ("1", "b"))]
    assert second.reported == [(1, None, ("2", "a")), (1, None, ("2", "b"))]
    assert [metadata.partition for metadata, _error in former.reported] == [1, 1]
    assert [record.context for record in (*first.seen, *second.seen)] == [None] * 4


@pytest.mark.rule("producer.send.interceptors.outcomes")
def test_a_refused_record_is_reported_with_its_context() -> None:
    whole = Whole("1", partition=0)
    with simulated_with(whole) as simulation, pytest.raises(RecordTooLargeError) as refused:
        simulation.producer.send("t", "x" * 2_000_000)

    assert whole.reported == [(0, refused.value, ("1", "x" * 2_000_000))]


@pytest.mark.rule("producer.send.interceptors")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topic": "other"}, "another topic, which cannot be changed"),
        ({"partition": -1}, "on_send returned partition -1"),
        ({"partition": "0"}, "on_send returned partition '0'"),
        ({"timestamp_ms": 1.5}, "on_send returned timestamp_ms 1.5"),
        ({"headers": [("name", "text")]}, "a header's name is str and its value bytes or None"),
        ({"headers": None}, "InvalidRecordError"),
    ],
)
def test_a_wrong_change_is_the_fault_of_the_interceptor(
    changes: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, last = Whole("1", **changes), Whole("2")
    with simulated_with(wrong, last) as simulation:
        simulation.producer.send("t", "value", partition=0)

        assert written_values(simulation) == [b"value"]
    [line] = caplog.messages
    assert line.startswith("the interceptor 0 failed in on_send; the record is sent without its change: ")
    assert said in caplog.text
    assert wrong.reported == [(0, None, None)]
    assert last.reported == [(0, None, ("2", "value"))]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"value": 5}, "0, the interceptor 1"),
        ({"key": b"k", "value": 5}, "0, the interceptor 1"),
        ({"headers": ()}, "1"),
    ],
)
def test_a_refusal_names_the_interceptors_that_changed_the_record(changes: dict[str, Any], names: str) -> None:
    with (
        simulated_with(Whole("1", **changes), Whole("2", value=6)) as simulation,
        pytest.raises(SerializationError) as refused,
    ):
        simulation.producer.send("t", "value")

    assert refused.value.__notes__ == [f"the key, the value or the partition was changed by the interceptor {names}"]


def test_a_refusal_of_a_former_interceptors_value_names_it() -> None:
    former = RecordingInterceptor("!")
    former.on_send = lambda topic, key, value, headers: (key, 5, headers)  # type: ignore[method-assign]
    with simulated_with(former) as simulation, pytest.raises(SerializationError) as refused:
        simulation.producer.send("t", "value")

    assert refused.value.__notes__ == ["the key, the value or the partition was changed by the interceptor 0"]


def test_a_refusal_of_the_programs_own_value_names_no_interceptor() -> None:
    with simulated_with(Whole("1", headers=())) as simulation, pytest.raises(SerializationError) as refused:
        simulation.producer.send("t", 5)

    assert not hasattr(refused.value, "__notes__")


@pytest.mark.rule("producer.send.interceptors.outcomes")
@pytest.mark.parametrize("adding", [lambda: Whole("1", headers=(("more", b""),)), lambda: RecordingInterceptor("!")])
def test_a_wrong_header_of_the_caller_is_no_interceptors_fault(
    adding: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    interceptor = adding()
    with (
        simulated_with(interceptor) as simulation,
        pytest.raises(InvalidRecordError, match="not str and str") as refused,
    ):
        simulation.producer.send("t", "value", headers=[("x", "text")])

    assert caplog.messages == []
    assert interceptor.seen == []
    assert [reported[1] for reported in interceptor.reported] == [refused.value]


def test_a_result_that_is_no_record_is_the_fault_of_the_interceptor(caplog: pytest.LogCaptureFixture) -> None:
    wrong = Whole("1")
    wrong.on_send = lambda record: (record.key, record.value, ())  # type: ignore[method-assign]
    with simulated_with(wrong) as simulation:
        simulation.producer.send("t", "value", partition=0)

        assert written_values(simulation) == [b"value"]
    assert "on_send returned tuple, not a ProducerRecord" in caplog.text


def test_an_interceptor_of_generation_1_is_adapted_by_the_registry() -> None:
    kind = KINDS["interceptor"]

    adapted = kind.former[1].adapt(RecordingInterceptor("!"))

    assert kind.generations == (1, 2)
    assert isinstance(adapted, Interceptor)
    given = ProducerRecord(topic="t", key=1, value="v", headers=(), partition=2, timestamp_ms=3)
    assert adapted.on_send(given) == attrs.evolve(given, value="v!", headers=(("by", b"!"),))
