"""`send` in C does what `send` in Python does, or leaves it to it."""

from __future__ import annotations

import gc
import inspect
import re
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ottla_accel
import simulated_producer
from ottla import (
    Delivery,
    DeliveryError,
    InvalidRecordError,
    Producer,
    ProducerClosedError,
    RecordMetadata,
    UndeliveredError,
)
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.delivery import OnDelivery
from ottla.errors import ErrorCode, OttlaError
from ottla.interfaces import Header, Interceptor, ProducerRecord, TopicView
from ottla_accel.columns import NativeColumns
from simulated_producer import Simulated, simulated

pytestmark = pytest.mark.unmeasured

NOW = 1_700_000_000_000


@contextmanager
def native(*leaders: int, **options: Any) -> Iterator[Simulated]:
    with simulated(*leaders, config={"record.encoder": "native"}, **options) as simulation:
        assert type(simulation.producer.send).__name__ == "builtin_function_or_method"
        yield simulation


class Unchanged:
    """An interceptor, around which `send` is another function."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        pass


@pytest.mark.parametrize("encoder", ["native", "python"])
@pytest.mark.parametrize("interceptors", [(), (Unchanged(),)], ids=["no interceptor", "an interceptor"])
def test_send_has_its_signature_and_documentation_with_each_encoder(
    encoder: str, interceptors: Sequence[Interceptor]
) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "record.encoder": encoder, "interceptor.classes": interceptors}
    producer = Producer({key: value for key, value in settings.items() if value})
    try:
        _self, *expected = inspect.signature(Producer.send).parameters.values()
        found = inspect.signature(producer.send).parameters.values()
        assert [(each.name, each.kind, each.default) for each in found] == [
            (each.name, each.kind, each.default) for each in expected
        ]
        assert producer.send.__name__ == "send"
        assert inspect.getdoc(producer.send) == inspect.getdoc(Producer.send)
    finally:
        producer.close(0)


def outcome(simulation: Simulated, arguments: dict[str, Any]) -> object:
    """The result of a call of `send`: an error's type and message, or the record's position."""
    try:
        delivery = simulation.producer.send("t", **arguments)
    except Exception as error:
        return type(error), str(error)
    return delivery


values = st.none() | st.binary(max_size=30) | st.sampled_from(["text", 1, bytearray(b"array"), memoryview(b"view")])
header_lists = st.sampled_from(
    [
        (),
        [],
        [("h", b"1")],
        (("h", b"1"), ("h", None)),
        [("é" * 40, b"x" * 200)],
        {"mapping": b"1"},
        [("h", "text")],
        [("h",)],
        ["hh"],
        [["h", b"1"]],
        [(b"h", b"1")],
        [("\ud800", b"1")],
        7,
    ]
)
calls = st.lists(
    st.fixed_dictionaries(
        {"value": values, "key": values},
        optional={
            "headers": header_lists,
            "partition": st.sampled_from([None, 0, 1, 2, True, "1", -1]),
            "timestamp_ms": st.sampled_from([None, 0, NOW, NOW - 10**9, -1, 2**63 - 1, 2**63, 1.5, "now"]),
        },
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls=calls)
def test_every_call_has_the_same_result_as_in_python(calls: list[dict[str, Any]]) -> None:
    seen = {}
    for encoder in ("python", "native"):
        with simulated(1, 2, 1, config={"record.encoder": encoder}, max_block_ms=0) as simulation:
            outcomes = [outcome(simulation, dict(call)) for call in calls]
            simulation.run_until_idle()
            seen[encoder] = [
                _place(each, call) if isinstance(each, Delivery) else each
                for each, call in zip(outcomes, calls, strict=True)
            ]
            logs = simulation.cluster.topics["t"].log
            seen[encoder].append(
                sorted(
                    (partition if record.key is not None else -1, record.key, record.value, record.headers)
                    for partition, log in logs.items()
                    for record in log
                )
                if not any(None in (call["value"], call["key"]) for call in calls)
                else sum(map(len, logs.values()))
            )
    assert seen["native"] == seen["python"]


def _place(delivery: Delivery, call: dict[str, Any]) -> object:
    metadata = delivery.result(0)
    chosen_by_chance = call["key"] is None and call.get("partition") is None
    return (
        -1 if chosen_by_chance else metadata.partition,
        metadata.serialized_key_size,
        metadata.serialized_value_size,
        metadata.timestamp_ms if call.get("timestamp_ms") is not None else None,
    )


def test_a_delivery_is_the_one_of_the_core() -> None:
    with native(1) as simulation:
        first, second = (simulation.producer.send("t", value, partition=0) for value in (b"a", b"b"))
        assert (type(second), second.done()) == (Delivery, False)
        simulation.run_until_idle()

        assert (first.result(0).offset, second.result(0).offset) == (0, 1)
        assert "at offset 1" in repr(second)


def test_records_are_appended_in_c_once_a_batch_is_open() -> None:
    with native(1) as simulation:
        deliveries = [simulation.producer.send("t", b"v", key=b"k") for _ in range(3)]

        columns = deliveries[0]._batch.columns
        assert isinstance(columns, NativeColumns)
        assert len(columns) == 3
        assert len({id(delivery._batch) for delivery in deliveries}) == 1


def test_records_of_many_partitions_and_topics_go_where_they_belong() -> None:
    """What is prefetched for a partition may be that of another one, of another topic, or of a batch that is gone."""
    partitions = {"t": 70, "few": 3, "many": 300}
    rounds = 6
    with native(*[1] * partitions["t"]) as simulation:
        for topic in ("few", "many"):
            simulation.cluster.create(topic, *[1] * partitions[topic])
            simulation.know(topic)
        send = simulation.producer.send
        for number in range(rounds):
            for topic, count in partitions.items():
                for partition in range(count):
                    send(topic, b"%d" % number, partition=partition)
                    send(topic, b"again", partition=partition)
            if number % 2:
                simulation.run_until_idle()
                gc.collect()

        expected = [each for number in range(rounds) for each in (b"%d" % number, b"again")]
        for topic, count in partitions.items():
            logs = simulation.cluster.topics[topic].log
            assert {partition: [record.value for record in log] for partition, log in logs.items()} == dict.fromkeys(
                range(count), expected
            )


def test_a_finalizer_may_send_to_more_partitions_during_an_append() -> None:
    """It moves what `send` remembers of partitions; address sanitizer sees a place that is used after that."""

    class Sends:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            simulation.producer.send("many", b"f", partition=299)

    threshold = gc.get_threshold()
    with native(*[1] * 70) as simulation:
        simulation.cluster.create("many", *[1] * 300)
        simulation.know("many")
        for _ in range(2):
            simulation.producer.send("t", b"v", partition=69)
        Sends()
        gc.set_threshold(1)
        try:
            simulation.producer.send("t", b"v", partition=69)
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        simulation.run_until_idle()

        assert simulation.log(69) == [b"v"] * 3
        assert [record.value for record in simulation.cluster.topics["many"].log[299]] == [b"f"]


def test_keyed_records_of_many_partitions_go_where_python_sends_them() -> None:
    seen = {}
    for encoder in ("python", "native"):
        with simulated(*[1] * 200, config={"record.encoder": encoder}) as simulation:
            for number in range(2_000):
                simulation.producer.send("t", b"%d" % number, key=b"key-%d" % (number % 700))
                if number % 500 == 499:
                    simulation.run_until_idle()
            seen[encoder] = {
                partition: [(record.key, record.value) for record in log]
                for partition, log in simulation.cluster.topics["t"].log.items()
            }
    assert seen["native"] == seen["python"]
    assert sum(map(len, seen["native"].values())) == 2_000


@pytest.mark.parametrize("file", ["sending.pyx", "sending.pyi"])
def test_send_in_c_has_the_parameters_of_send_in_python(file: str) -> None:
    source = Path(ottla_accel.__file__).with_name(file).read_text()
    [parameters] = re.findall(
        r"^    def send\(\s*(self,.*?),?\s*\)(?: -> Delivery)?:", source, re.MULTILINE | re.DOTALL
    )
    described: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef send({parameters}): pass", described)
    expected = inspect.signature(Producer.send).parameters.values()

    assert [
        (each.name, each.kind, each.default) for each in inspect.signature(described["send"]).parameters.values()
    ] == [(each.name, each.kind, each.default) for each in expected]


def test_callbacks_run_in_order_with_the_offsets_of_the_log() -> None:
    reported: list[tuple[int, RecordMetadata | None, OttlaError | None]] = []

    def recorder(number: int) -> OnDelivery:
        return lambda delivery: reported.append((number, delivery.metadata, delivery.error))

    with native(1) as simulation:
        for number in range(50):
            simulation.producer.send(
                "t",
                bytes(number),
                key=b"k" if number % 2 else None,
                timestamp_ms=NOW + number,
                on_delivery=recorder(number),
            )
        simulation.run_until_idle()

    assert [number for number, _metadata, _error in reported] == list(range(50))
    assert reported[49] == (49, RecordMetadata("t", 0, 49, NOW + 49, 1, 49), None)
    assert type(reported[48][1]) is RecordMetadata
    assert reported[48] == (48, RecordMetadata("t", 0, 48, NOW + 48, -1, 48), None)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_callbacks_added_later_run_in_the_order_of_their_records(acknowledged: bool) -> None:
    """However they were given: with the first record of a batch, with a later one, or to a delivery."""
    reported: list[tuple[int, str, bool]] = []

    def recorder(number: int, how: str) -> OnDelivery:
        return lambda delivery: reported.append((number, how, delivery.metadata is not None))

    with native(1) as simulation:
        sent = [
            simulation.producer.send("t", b"v", on_delivery=recorder(number, "sent") if number % 3 else None)
            for number in range(30)
        ]
        for number in reversed(range(0, 30, 2)):
            sent[number].add_done_callback(recorder(number, "added"))
        if not acknowledged:
            simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        simulation.run_until_idle()

    order = [(number, how == "added") for number, how, _ok in reported]
    assert order == sorted(order), "those that were added come behind the record's own"
    assert {(number, how) for number, how, _ok in reported} == {(n, "sent") for n in range(30) if n % 3} | {
        (n, "added") for n in range(0, 30, 2)
    }
    assert {ok for _number, _how, ok in reported} == {acknowledged}


def test_metadata_that_a_callback_keeps_does_not_change() -> None:
    kept: list[RecordMetadata] = []
    hashes: list[int] = []

    def recorder(delivery: Delivery) -> None:
        metadata = delivery.metadata
        assert metadata is not None
        hashes.append(hash(metadata))
        if metadata.offset % 3:
            kept.append(metadata)

    with native(1) as simulation:
        for number in range(30):
            simulation.producer.send("t", b"v" * number, timestamp_ms=1_000 + number // 4, on_delivery=recorder)
        simulation.run_until_idle()

    reported = [
        RecordMetadata(
            topic="t",
            partition=0,
            offset=number,
            timestamp_ms=1_000 + number // 4,
            serialized_key_size=-1,
            serialized_value_size=number,
        )
        for number in range(30)
    ]
    assert kept == [metadata for metadata in reported if metadata.offset % 3]
    assert hashes == list(map(hash, reported))


@pytest.mark.parametrize("kept", [0, 1, 3], ids=["none", "each", "each third"])
def test_each_callback_gets_the_sizes_and_the_index_of_its_record(kept: int) -> None:
    sizes = [(key_size, value_size) for key_size in (-1, 0, 2) for value_size in (-1, 0, 300, 300)]
    records = [sizes[number * 5 % len(sizes)] for number in range(5_000)]
    reported: list[tuple[Any, ...]] = []
    keeping: list[object] = []

    def recorder(delivery: Delivery) -> None:
        metadata = delivery.result()
        reported.append(
            (delivery._index, metadata.offset, metadata.serialized_key_size, metadata.serialized_value_size)
        )
        if kept and len(reported) % kept == 0:
            keeping.append(metadata)

    batch = ProducerBatch(topic="t", partition=0, columns=NativeColumns(2**30), now=0.0)
    for key_size, value_size in records:
        key, value = (None if size < 0 else bytes(size) for size in (key_size, value_size))
        batch.append(key, value, (), NOW, recorder)
    batch.complete_and_call_back(Acknowledged(base_offset=100))

    assert reported == [(index, 100 + index, *each) for index, each in enumerate(records)]


def test_a_callback_that_changes_its_delivery_harms_no_other_record() -> None:
    reported: list[RecordMetadata | None] = []

    def replace(delivery: Any) -> None:
        delivery.metadata = delivery.metadata._replace(topic="u", serialized_value_size=7)

    def corrupt(delivery: Any) -> None:
        delivery.metadata = ["no", "metadata"]

    def remove(delivery: Any) -> None:
        del delivery.metadata, delivery._index

    with native(1) as simulation:
        for change in (replace, corrupt, remove):
            simulation.producer.send("t", b"v", on_delivery=change)
            simulation.producer.send(
                "t", b"v", on_delivery=lambda delivery: reported.append(delivery.metadata), timestamp_ms=NOW
            )
        simulation.run_until_idle()

    assert reported == [RecordMetadata("t", 0, offset, NOW, -1, 1) for offset in (1, 3, 5)]


def test_callbacks_add_no_work_for_the_garbage_collector() -> None:
    reported: list[int] = []
    counts: list[int] = []

    def recorder(delivery: Delivery) -> None:
        reported.append(delivery.result().offset)
        counts.append(gc.get_count()[0])

    with native(1) as simulation:
        for _ in range(2_000):
            simulation.producer.send("t", b"v", on_delivery=recorder)
        gc.disable()
        try:
            simulation.run_until_idle()
        finally:
            gc.enable()

    assert reported == list(range(2_000))
    assert counts[-1] - counts[0] < 100, "an object for each callback"


def test_a_callback_that_raises_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[int] = []

    def fails(_delivery: object) -> None:
        raise SystemExit("no")

    with native(1) as simulation:
        simulation.producer.send("t", b"a")
        simulation.producer.send("t", b"b", on_delivery=fails)
        simulation.producer.send("t", b"c", on_delivery=lambda *_: reported.append(1))
        simulation.run_until_idle()

    assert reported == [1]
    assert "delivery callback for topic 't', partition 0 raised" in caplog.text


def test_callbacks_of_records_that_failed_get_their_error() -> None:
    reported: list[tuple[object, object]] = []
    with native(1) as simulation:
        simulation.cluster.brokers[1].silent = True
        for _ in range(2):
            simulation.producer.send(
                "t", b"a", on_delivery=lambda delivery: reported.append((delivery.metadata, delivery.error))
            )
        simulation.producer.close(0)

    assert [(metadata, type(error)) for metadata, error in reported] == [(None, DeliveryError)] * 2


def test_a_closed_producer_refuses_records() -> None:
    with native(1) as simulation:
        simulation.producer.send("t", b"a")
        simulation.run_until_idle()
        simulation.producer.close()

        with pytest.raises(ProducerClosedError):
            simulation.producer.send("t", b"b")


def test_a_dropped_producer_is_not_kept_alive_by_its_send() -> None:
    with simulated(1, config={"record.encoder": "native"}) as simulation:
        kept = weakref.ref(simulation.producer)
        send = simulation.producer.send
        send("t", b"a")
        simulation.run_until_idle()
        simulation.producer = None  # type: ignore[assignment]
        gc.collect()

        assert kept() is None
        with pytest.raises(ProducerClosedError, match="garbage-collected"):
            send("unknown", b"a")
        simulation.thread.join(0)  # it was asked to end
        simulation.producer = Producer({"bootstrap.servers": "127.0.0.1:1"})  # for the context's end


def test_an_overridden_send_is_called_for_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    class Marking(simulated_producer.SimulatedProducer):
        def send(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> Delivery:
            return super().send(topic, b"marked " + value, key, **options)

    monkeypatch.setattr(simulated_producer, "SimulatedProducer", Marking)
    with simulated(1, config={"record.encoder": "native"}) as simulation:
        for value in (b"a", b"b", b"c"):
            simulation.producer.send("t", value)
        simulation.run_until_idle()

        assert simulation.log() == [b"marked a", b"marked b", b"marked c"]


@pytest.mark.rule("producer.send.interceptors", "producer.send.interceptors.outcomes")
def test_interceptors_run_before_send_and_get_its_results() -> None:
    class Marking:
        def __init__(self) -> None:
            self.reported: list[tuple[int, bool]] = []

        def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
            return key, b"marked " + value, (*headers, ("by", b"us"))

        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
            self.reported.append((metadata.offset, error is None))

    marking, called = Marking(), list[Any]()
    plugins = {"interceptors": {"marking": marking}}
    with simulated(1, plugins=plugins, config={"record.encoder": "native"}) as simulation:
        for value in (b"a", b"b", b"c"):
            simulation.producer.send(
                "t", value, on_delivery=lambda delivery: called.append((delivery.metadata, delivery.error))
            )
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send("t", b"lost")
        with pytest.raises(UndeliveredError, match="its error was never retrieved"):
            simulation.producer.close()

        assert [(record.value, record.headers) for record in simulation.cluster.topics["t"].log[0]] == [
            (b"marked " + value, (("by", b"us"),)) for value in (b"a", b"b", b"c")
        ]
    assert marking.reported == [(0, True), (1, True), (2, True), (-1, False)]
    assert [(metadata.offset, error) for metadata, error in called] == [(0, None), (1, None), (2, None)]


def test_a_partitioner_of_many_keys_at_once_is_used() -> None:
    class Last:
        def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
            return 0

        def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
            return [0] * len(keys)

    with simulated(1, plugins={"partitioner": Last()}, config={"record.encoder": "native"}) as simulation:
        simulation.producer.send("t", b"first", key=b"k")
        simulation.producer.send("t", b"second", partition=0)
        simulation.producer.send("t", b"third", key=b"k")
        simulation.run_until_idle()

        assert simulation.log() == [b"first", b"second", b"third"]


def test_serializers_run_before_the_fast_path() -> None:
    with simulated(1, config={"record.encoder": "native", "value.serializer": str.encode}) as simulation:
        simulation.producer.send("t", "text")
        simulation.run_until_idle()

        assert simulation.log() == [b"text"]


def test_keys_are_ignored_if_the_configuration_says_so() -> None:
    with native(1, 1, partitioner_ignore_keys="true") as simulation:
        for number in range(20):
            simulation.producer.send("t", b"v", key=b"%d" % number)
        simulation.run_until_idle()

        assert sorted(len(simulation.log(partition)) for partition in (0, 1)) == [0, 20]  # one stay


def test_many_calls_leave_nothing_behind() -> None:
    value, key, header = b"value", b"key", ("name", b"content")
    callback = lambda *_: None  # noqa: E731 - one whose references can be counted

    def send_some(simulation: Simulated) -> None:
        for _ in range(200):
            simulation.producer.send("t", value, key, headers=[header], on_delivery=callback)
            with pytest.raises(InvalidRecordError):
                simulation.producer.send("t", value, key, headers=[header, 1])  # type: ignore[list-item]
        simulation.run_until_idle()

    with native(1) as simulation:
        send_some(simulation)
        gc.collect()
        before = [sys.getrefcount(thing) for thing in (value, key, header, callback)]
        send_some(simulation)
        gc.collect()

        assert [sys.getrefcount(thing) for thing in (value, key, header, callback)] == before


def test_threads_lose_and_duplicate_nothing_while_garbage_is_collected() -> None:
    threshold = gc.get_threshold()
    reported: list[bytes] = []
    with native(1, 1, 1, batch_size=500) as simulation:

        def recorder(value: bytes) -> OnDelivery:
            return lambda _delivery: reported.append(value)

        def work(thread: int) -> None:
            for number in range(300):
                value = b"%d-%d" % (thread, number)
                simulation.producer.send("t", value, key=value[:1], on_delivery=recorder(value))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        gc.set_threshold(1)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for each in threads:
                each.start()
            while any(each.is_alive() for each in threads):
                simulation.round(until=simulation.clock())
        finally:
            gc.set_threshold(*threshold)
            sys.setswitchinterval(interval)
        simulation.run_until_idle()
        logs = [simulation.log(partition) for partition in range(3)]

    expected = sorted(b"%d-%d" % (thread, number) for thread in range(4) for number in range(300))
    assert sorted(value for log in logs for value in log if value is not None) == expected
    assert sorted(reported) == expected
    for log in logs:
        for thread in range(4):
            numbers = [int(value[2:]) for value in log if value is not None and value.startswith(b"%d-" % thread)]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize("record", [{"partition": 0}, {}, {"key": b"k"}], ids=["partition", "sticky", "key"])
def test_a_failed_record_without_a_reader_is_logged_as_lost_at_once(
    record: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with native(1, 1) as simulation:
        for _ in range(3):
            simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for _ in range(3):
            simulation.producer.send("t", b"a", **record)
        simulation.run_until_idle()
        simulation.round(until=simulation.clock())

        [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert "3 records failed, and no delivery or callback is left to report the error" in line
        with pytest.raises(UndeliveredError):
            simulation.producer.close()


def test_a_dropped_delivery_with_an_unread_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with native(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        delivery = simulation.producer.send("t", b"a")
        simulation.run_until_idle()
        simulation.round(until=simulation.clock())
        assert "ERROR" not in {record.levelname for record in caplog.records}

        del delivery
        simulation.round(until=simulation.clock())

        assert [record.levelname for record in caplog.records].count("ERROR") == 1
        with pytest.raises(UndeliveredError):
            simulation.producer.close()
