"""Serializers that set headers, and those that wait for a lookup before they serialize."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from ottla import Producer, ProducerClosedError
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.concurrency import io_threads
from ottla.errors import InvalidRecordError, NotPreparedError, SerializationError, TopicUnavailableError
from ottla.interfaces import Header
from ottla.network.nonblocking_metadata_wait import MetadataWait
from ottla.plugins.serializer_lookups import MAX_LOOKUPS, Lookup
from ottla.producer.build import build_nonblocking_send
from ottla.producer.nonblocking_send import NonblockingSend, PendingSend
from ottla.producer.serialization import PartSerializer, RecordSerializer
from ottla_testkit.manual_clock import ManualClock
from simulated_producer import Simulated, simulated

BLOCK = 60.0


class Tagging:
    """Adds a header to each record; *also* changes the headers, too."""

    sets_headers = True

    def __init__(self, name: str, also: Callable[[list[Any]], object] = lambda _headers: None) -> None:
        self._name = name
        self._also = also

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        assert isinstance(headers, list)
        headers.append((self._name, str(data).encode()))
        self._also(headers)
        return None if data is None else str(data).encode()


class Schemas(Tagging):
    """Needs the id of each type that it serializes, from a registry whose responses take *seconds*."""

    def __init__(self, *, clock: ManualClock | None = None, seconds: float = 0.0, finds: bool = True) -> None:
        super().__init__("schema")
        self.known: set[str] = set()
        self.lookups: list[tuple[str, Any, Sequence[Header], float]] = []
        self._clock = clock
        self._seconds = seconds
        self._finds = finds

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        made = super().serialize(topic, data, headers)
        if type(data).__name__ not in self.known:
            raise NotPreparedError(f"the schema of {type(data).__name__} is not known")
        return made

    def serialize_column(self, topic: str, column: Any) -> Any:
        if str(column.type) not in self.known:
            raise NotPreparedError(f"the schema of {column.type} is not known")
        return pa.array([str(cell) for cell in column.to_pylist()], pa.string())

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.lookups.append((topic, data, headers, timeout))
        if self._clock is not None:
            self._clock.advance(self._seconds)
        if self._finds:
            self.known.add(str(data.type) if isinstance(data, pa.Array) else type(data).__name__)


def log(simulation: Simulated) -> list[Any]:
    simulation.run_until_idle()
    return simulation.cluster.topics["t"].log[0]


# Headers


@pytest.mark.rule("producer.send.serializer-headers")
def test_headers_of_both_serializers_follow_those_of_the_record() -> None:
    with simulated(1, plugins={"value_serializer": Tagging("value"), "key_serializer": Tagging("key")}) as simulation:
        simulation.producer.send("t", 1, 2, headers={"own": b"x"})
        simulation.producer.send("t", 3)
        simulation.producer.send("t", None, 4)

        assert [(record.key, record.value, record.headers) for record in log(simulation)] == [
            (b"2", b"1", (("own", b"x"), ("value", b"1"), ("key", b"2"))),
            (None, b"3", (("value", b"3"),)),
            (b"4", None, (("value", b"None"), ("key", b"4"))),
        ]


@pytest.mark.rule("producer.send.serializer-headers")
def test_the_caller_keeps_the_headers_that_it_gave() -> None:
    given = [("own", b"x")]
    with simulated(
        1, plugins={"value_serializer": Tagging("value", also=lambda headers: headers.pop(0))}
    ) as simulation:
        simulation.producer.send("t", 1, headers=given)

        assert [record.headers for record in log(simulation)] == [(("value", b"1"),)]
    assert given == [("own", b"x")]


@pytest.mark.rule("producer.send.serializer-headers")
@pytest.mark.parametrize("bad", [("name", "text"), (7, b""), "pair", ("a", b"b", b"c")])
def test_a_header_that_a_serializer_set_wrongly_is_an_error_of_it(bad: Any) -> None:
    with simulated(
        1, plugins={"value_serializer": Tagging("v", also=lambda headers: headers.append(bad))}
    ) as simulation:
        with pytest.raises(SerializationError, match=r"^the value for topic 't' could not be serialized: a header"):
            simulation.producer.send("t", 1)

        assert simulation.accumulator.incomplete == 0


def test_a_serializer_without_the_flag_gets_headers_that_it_cannot_change() -> None:
    class Plain:
        def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
            assert isinstance(headers, tuple)
            return b"plain"

    with simulated(1, plugins={"value_serializer": Plain(), "key_serializer": Tagging("key")}) as simulation:
        simulation.producer.send("t", 1, 2)

        assert [(record.value, record.headers) for record in log(simulation)] == [(b"plain", (("key", b"2"),))]


# Lookups


@pytest.mark.rule("producer.send.lookup")
def test_send_waits_for_a_lookup_only_while_the_serializer_needs_it() -> None:
    serializer = Schemas()
    with simulated(1, plugins={"value_serializer": serializer}, max_block_ms=60_000) as simulation:
        for value in (1, 2, "text", 3):
            simulation.producer.send("t", value, headers={"own": b"x"})

        assert [(record.value, record.headers) for record in log(simulation)] == [
            (str(value).encode(), (("own", b"x"), ("schema", str(value).encode()))) for value in (1, 2, "text", 3)
        ]
    own = (("own", b"x"),)
    assert serializer.lookups == [("t", 1, own, BLOCK), ("t", "text", own, BLOCK)]


@pytest.mark.rule("producer.send.lookup")
def test_lookups_of_value_and_key_share_the_time_of_one_call() -> None:
    clock = ManualClock()
    value, key = Schemas(clock=clock, seconds=40.0), Schemas(clock=clock, seconds=10.0)
    serializer = made_with(value, key, clock=clock)

    made_key, made_value, _headers, waited = serializer.serialize("t", "k", 1, (), None)

    assert (made_key, made_value, waited) == (b"k", b"1", 50.0)
    assert [lookup[3] for lookup in (*value.lookups, *key.lookups)] == [60.0, 20.0]


def made_with(value: Any, key: Any = None, *, clock: ManualClock | None = None) -> RecordSerializer:
    return RecordSerializer(
        key=PartSerializer("key", key),
        value=PartSerializer("value", value),
        max_block=BLOCK,
        clock=clock or ManualClock(),
    )


@pytest.mark.rule("producer.send.lookup")
def test_time_spent_on_metadata_is_missing_for_a_lookup() -> None:
    clock = ManualClock()
    serializer = Schemas(clock=clock)
    made = made_with(serializer, clock=clock)
    made.await_topic = lambda _topic, *, timeout: clock.advance(15.0)

    assert made.serialize("t", None, 1, (), None)[3] == 15.0
    assert [lookup[3] for lookup in serializer.lookups] == [45.0]
    assert made.serialize("t", None, 1, (), None)[3] == 0.0, "without a lookup nothing waits"


def nonblocking(simulation: Simulated) -> NonblockingSend:
    """The `send` of an event loop."""
    producer = simulation.producer
    slow, _quick = build_nonblocking_send(producer._engine, producer._check_sendable, event_loop=RUNNING_LOOP)
    return slow


def send_and_time_out(sender: NonblockingSend, topic: Any) -> None:
    pending = sender.send(topic, 1, timeout=0)
    assert isinstance(pending, PendingSend)
    assert isinstance(pending.step, MetadataWait)
    pending.time_out(waited=0.0)


@pytest.mark.rule("producer.send.lookup")
@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("no topic!", InvalidRecordError),
        ("", InvalidRecordError),
        (7, InvalidRecordError),
        ("m", TopicUnavailableError),
    ],
)
def test_nothing_is_looked_up_for_a_topic_that_is_none(topic: Any, error: type[Exception]) -> None:
    """A schema would be registered for it, and stay."""
    serializer = Schemas()
    with simulated(1, plugins={"value_serializer": serializer}) as simulation:
        with pytest.raises(error):
            simulation.producer.send(topic, 1, timeout=0)
        with pytest.raises(error):
            send_and_time_out(nonblocking(simulation), topic)

    assert serializer.lookups == []


def test_nothing_is_looked_up_for_a_producer_that_takes_no_records() -> None:
    serializer = Schemas()
    with simulated(1, plugins={"value_serializer": serializer}) as simulation:
        without_waiting = nonblocking(simulation)
        simulation.producer.close(0)
        for send in (simulation.producer.send, without_waiting.send):
            with pytest.raises(ProducerClosedError):
                send("t", 1)

    assert serializer.lookups == []


FAULTS: dict[str, tuple[Any, str]] = {
    "raises": (
        lambda _topic, _data, _headers, timeout: 1 / 0,
        "the value for topic 't' could not be serialized: its lookup failed: .*ZeroDivisionError: division by zero",
    ),
    "never prepared": (
        lambda _topic, _data, _headers, timeout: None,
        rf"was not prepared by {MAX_LOOKUPS} lookups of its serializer \(serializer \S+Schemas\)",
    ),
}


@pytest.mark.rule("producer.send.lookup", "producer.send.refused.silent")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lookup_that_fails_refuses_its_record_only(fault: str) -> None:
    serializer = Schemas()
    prepare, said = FAULTS[fault]
    with simulated(1, plugins={"value_serializer": serializer}) as simulation:
        serializer.prepare = prepare  # type: ignore[method-assign]
        simulation.producer._serialize.__self__._value.prepares = serializer  # type: ignore[attr-defined]
        with pytest.raises(SerializationError, match=said):
            simulation.producer.send("t", 1)
        del serializer.prepare
        simulation.producer.send("t", 2)

        assert [record.value for record in log(simulation)] == [b"2"]


@pytest.mark.rule("producer.send.lookup")
def test_a_lookup_longer_than_max_block_refuses_its_record() -> None:
    clock = ManualClock()
    serializer = Schemas(clock=clock, seconds=BLOCK, finds=False)
    said = r"which did not finish within max\.block\.ms: 60\.0 s \(serializer \S+Schemas\)"
    with pytest.raises(SerializationError, match=said):
        made_with(serializer, clock=clock).serialize("t", None, 1, (), None)

    assert len(serializer.lookups) == 1


def test_a_serializer_that_python_takes_for_false_is_prepared() -> None:
    class Empty:
        prepared = False

        def __len__(self) -> int:
            return 0

        def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
            if not self.prepared:
                raise NotPreparedError("nothing is known yet")
            return b"7"

        def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
            self.prepared = True

    with simulated(1, plugins={"value_serializer": Empty()}) as simulation:
        simulation.producer.send("t", 7)

        [record] = log(simulation)
        assert record.value == b"7"


def test_a_serializer_that_cannot_prepare_must_not_ask_for_it() -> None:
    class Lost:
        def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
            raise NotPreparedError("no schema")

    for serializer in (Lost(), type("Tagged", (Lost,), {"sets_headers": True})()):
        with (
            simulated(1, plugins={"value_serializer": serializer}) as simulation,
            pytest.raises(SerializationError, match="could not be serialized: no schema") as caught,
        ):
            simulation.producer.send("t", 1)
        assert isinstance(caught.value.__cause__, NotPreparedError)


@pytest.mark.rule("producer.send.lookup")
def test_a_callback_does_not_wait_for_a_lookup() -> None:
    serializer = Schemas()
    with simulated(1, plugins={"value_serializer": serializer}) as simulation:
        io_threads.enter()
        try:
            with pytest.raises(
                SerializationError, match="a callback cannot wait for that; send the record from another"
            ):
                simulation.producer.send("t", 1)
        finally:
            io_threads.leave()

    assert serializer.lookups == []


@pytest.mark.rule("producer.send.lookup")
def test_without_waiting_a_record_gets_the_lookup_that_it_needs() -> None:
    serializer = Schemas()
    both = made_with(serializer)
    lookup = both.try_serialize("t", b"k", 1, (("own", b"x"),))
    assert isinstance(lookup, Lookup)
    helper = threading.Thread(target=lookup.prepare, args=(7.0,))
    helper.start()
    helper.join(30.0)

    assert serializer.lookups == [("t", 1, (("own", b"x"),), 7.0)]
    assert both.try_serialize("t", b"k", 1, (("own", b"x"),)) == (b"k", b"1", (("own", b"x"), ("schema", b"1")))


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_memoryview_that_was_released_is_an_invalid_record(part: str) -> None:
    released = memoryview(b"data")
    released.release()
    record: dict[str, Any] = {"value": b"value", part: released}
    with (
        simulated(1) as simulation,
        pytest.raises(InvalidRecordError, match=f"the {part} for topic 't' cannot be read: .*released memoryview"),
    ):
        simulation.producer.send("t", **record)


def test_data_that_must_be_bytes_is_refused_with_the_key_that_changes_it() -> None:
    with (
        simulated(1, plugins={"value_serializer": Schemas()}) as simulation,
        pytest.raises(InvalidRecordError, match=r"the key for topic 't' must be bytes, not str.*key\.serializer"),
    ):
        simulation.producer.send("t", 1, "text")


# Columns


@pytest.mark.rule("producer.send.lookup")
def test_a_column_waits_for_the_lookup_of_its_type() -> None:
    serializer = Schemas()
    table = pa.table({"value": [1, 2]})
    with simulated(1, max_block_ms=60_000) as simulation:
        simulation.producer._engine.plugins.value_formats._made["schemas"] = serializer
        sent = simulation.producer.send_table("t", table, value_format="schemas")

        assert [record.value for record in log(simulation)] == [b"1", b"2"]
        assert sent.exception(0) is None
    [(topic, column, headers, timeout)] = serializer.lookups
    assert (topic, column.type, headers, timeout) == ("t", pa.int64(), (), BLOCK)


def test_a_failed_lookup_refuses_a_table_before_its_first_row() -> None:
    serializer = Schemas(finds=False)
    with simulated(1) as simulation:
        simulation.producer._engine.plugins.value_formats._made["schemas"] = serializer
        with pytest.raises(SerializationError, match=r"value_format='schemas': column 'value' .* was not prepared"):
            simulation.producer.send_table("t", pa.table({"value": [1]}), value_format="schemas")

        assert simulation.accumulator.incomplete == 0


def test_a_closed_producer_is_reported_by_send_with_lookups() -> None:
    with simulated(1, plugins={"value_serializer": Schemas()}) as simulation:
        producer: Producer = simulation.producer
        producer.close(0)
        with pytest.raises(ProducerClosedError):
            producer.send("t", 1)
