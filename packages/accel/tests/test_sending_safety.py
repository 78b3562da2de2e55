"""`send` in C when memory runs out, the collector comes by, a topic shrinks, or arguments are not what they seem."""

from __future__ import annotations

import enum
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ottla import Delivery, InvalidRecordError, OttlaError
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.delivery import OnDelivery
from ottla_accel.columns import NativeColumns
from simulated_producer import simulated

NOW = 1_700_000_000_000


def native(*leaders: int, **options: Any) -> Any:
    return simulated(*leaders, config={"record.encoder": "native"}, **options)


def columns_of(delivery: Delivery) -> NativeColumns:
    columns = delivery._batch.columns
    assert isinstance(columns, NativeColumns)
    return columns


# Memory


# The collector, too, may be the one that gets none, and then says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_allocation_never_leaves_a_half_appended_record() -> None:
    """Each allocation fails once; callbacks run for exactly the records that were sent, each for its own."""
    testcapi = pytest.importorskip("_testcapi")
    header = [("name", b"content")]
    sent: list[bytes] = []
    reported: list[bytes] = []

    def recorder(value: bytes) -> Callable[..., object]:
        return lambda delivery: reported.append(value) if delivery.metadata is not None else None

    with native(1, linger_ms=1_000) as simulation:
        send = simulation.producer.send
        send("t", b"first", headers=header)
        failures = 0
        # In the first turn none fails: a tracer of coverage needs memory for each line that it has not seen.
        for number in range(-1, 240):
            value, options = b"%d" % number, {"headers": header, "on_delivery": recorder(b"%d" % number)}
            fails = number % 60 // 2 if number >= 0 else 1_000_000
            testcapi.set_nomemory(fails, fails + 1)
            try:
                send("t", value, **options)
                raised = False
            except MemoryError:
                raised = True
            finally:
                testcapi.remove_mem_hooks()
            failures += raised
            if not raised:
                sent.append(value)
        simulation.run_until_idle()

        assert failures
        assert simulation.log() == [b"first", *sent]
        assert reported == sent


def test_memory_of_large_headers_is_returned() -> None:
    with native(1) as simulation:

        def forget_records() -> None:
            for log in simulation.cluster.topics["t"].logs.values():
                log.entries.clear()
                log.records.clear()
            gc.collect()

        simulation.producer.send("t", bytes(501_000))  # whose memory is kept for the next batch
        simulation.run_until_idle()
        forget_records()
        tracemalloc.start()
        try:
            simulation.producer.send("t", b"v", headers=[("large", bytes(500_000))])
            simulation.run_until_idle()
            forget_records()
            left, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert left < 250_000


# The collector


def test_callbacks_in_unreachable_cycles_are_collected() -> None:
    def callback(*_: object) -> None:
        """Waits with the record."""

    with native(1) as simulation:
        simulation.producer.send("t", b"a")
        columns = columns_of(simulation.producer.send("t", b"b", on_delivery=callback))
        held = [each for each in gc.get_referents(columns) if isinstance(each, list)]

        assert gc.is_tracked(columns)
        assert held == [[callback]]


# A topic that was created again


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_partition_that_a_topic_has_lost_takes_no_record(encoder: str) -> None:
    """Although a batch for it is open still."""
    options: dict[str, Any] = {"config": {"record.encoder": encoder}, "max_block_ms": 0, "linger_ms": 60_000}
    with simulated(1, 1, 1, **options) as simulation:
        for partition in range(3):
            simulation.producer.send("t", b"before", partition=partition)
        del simulation.cluster.topics["t"]
        simulation.cluster.create("t", 1)
        simulation.metadata.request_update()
        simulation.run_until(lambda: len(simulation.metadata.cluster.topics["t"].leaders) == 1)

        simulation.producer.send("t", b"after", partition=0)
        with pytest.raises(OttlaError):
            simulation.producer.send("t", b"nowhere", partition=2)


# Arguments that are not what they say


class Bytes(bytes):
    """A subclass of bytes that redefines its behaviour."""

    def __bytes__(self) -> bytes:
        raise AssertionError("this must not be called")


class Lying(bytes):
    """Bytes that claim to be many more."""

    def __len__(self) -> int:
        return 10_000


class Text(str):
    """A name that is another one each time it is encoded."""

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"n" * 3


class Shrinking(list[Any]):
    """A list that is emptied while it is iterated."""

    def __iter__(self) -> Iterator[Any]:
        yield self[0]
        self.clear()


class Pair(tuple[Any, ...]):
    """A pair that says it has three parts."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(("name", b"content", b"and more"))


ODD: list[Callable[[], dict[str, Any]]] = [
    lambda: {"value": Bytes(b"v")},
    lambda: {"value": b"v", "key": Bytes(b"k")},
    lambda: {"value": b"v", "headers": [(Text("name"), b"content")]},
    lambda: {"value": b"v", "headers": [("name", Bytes(b"content"))]},
    lambda: {"value": b"v", "headers": Shrinking([("a", b"1"), ("b", b"2")])},
    lambda: {"value": b"v", "headers": [Pair(("name", b"content"))]},
    lambda: {"value": b"v", "headers": (header for header in [("name", b"content")])},
    lambda: {"value": b"v", "headers": [("name", bytearray(b"content"))]},
    lambda: {"value": b"v", "headers": [("name", None)] * 3 + [None]},
    lambda: {"value": b"v", "timestamp_ms": True},
    lambda: {"value": b"v", "partition": False},
    lambda: {"value": memoryview(b"every other")[::2]},
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_arguments_have_the_same_result_as_in_python(number: int) -> None:
    outcomes = []
    for encoder in ("python", "native"):
        with simulated(1, config={"record.encoder": encoder}) as simulation:
            send = simulation.producer.send
            send("t", b"first", timestamp_ms=NOW)
            options = ODD[number]()
            raised: object = None
            try:
                send("t", **{"timestamp_ms": NOW, **options})
            except Exception as error:
                raised = type(error), str(error)
            send("t", b"last", timestamp_ms=NOW)
            simulation.run_until_idle()
            records = simulation.cluster.topics["t"].log[0]
            sent = sorted(
                (record.key or b"", record.value or b"", record.headers, record.timestamp_ms) for record in records
            )
            outcomes.append((raised, sent))

    assert outcomes[1] == outcomes[0]


def test_a_wrong_len_of_a_bytes_subclass_is_ignored() -> None:
    with native(1) as simulation:
        for _ in range(3):
            simulation.producer.send("t", Lying(b"short"))
        simulation.run_until_idle()

        assert simulation.log() == [b"short"] * 3


# Columns that are used after their end


def test_columns_without_records_are_refused_and_not_read() -> None:
    empty, used = NativeColumns(1_000), NativeColumns(1_000)
    used.append(b"k", b"v", (), NOW)
    used.encode(2)

    for columns in (empty, used):
        with pytest.raises(ValueError, match="no records"):
            columns.encode(2)
        with pytest.raises(ValueError, match="no records"):
            columns.keys()
        with pytest.raises(IndexError, match="no record 0"):
            NativeColumns(1_000).extend(columns, [0])
    assert list(used.facts().value_sizes) == [1]


@pytest.mark.parametrize("indexes", [[1], [-1], [0, 5], [2**62]])
def test_missing_records_cannot_be_moved(indexes: list[int]) -> None:
    columns = NativeColumns(1_000)
    columns.append(b"k", b"v", (), NOW)

    with pytest.raises(IndexError, match="no record"):
        NativeColumns(1_000).extend(columns, indexes)
    with pytest.raises(IndexError, match="no record"):
        columns.run_callbacks(
            [(7, lambda _delivery: None)], ProducerBatch(topic="t", partition=0, columns=columns, now=0.0), 0, -1, print
        )


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_an_uncallable_callback_is_refused_at_once(encoder: str) -> None:
    with simulated(1, config={"record.encoder": encoder}) as simulation:
        simulation.producer.send("t", b"v")
        with pytest.raises(InvalidRecordError, match="on_delivery"):
            simulation.producer.send("t", b"w", on_delivery=5)  # type: ignore[arg-type]
        simulation.run_until_idle()

        assert simulation.log() == [b"v"]


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_callback_with_two_arguments_is_refused_by_send(encoder: str) -> None:
    class Ported:
        def acked(self, err: object, msg: object) -> None:
            """As confluent-kafka calls it."""

        def sound(self, delivery: Delivery) -> None:
            called.append(delivery.partition)

    called: list[int | None] = []
    ported: list[Any] = [lambda err, msg: None, Ported().acked, partial(lambda name, err, msg: None, "name")]
    sound: list[OnDelivery] = [Ported().sound, lambda delivery: called.append(7), partial(Ported.sound, Ported())]
    with simulated(1, config={"record.encoder": encoder}) as simulation:
        simulation.producer.send("t", b"v")
        for each in (*sound, *sound):
            simulation.producer.send("t", b"v", on_delivery=each)
            for other in ported:
                with pytest.raises(TypeError, match=r"^on_delivery is called with one argument, .* takes more: define"):
                    simulation.producer.send("t", b"w", on_delivery=other)
        simulation.run_until_idle()

        assert simulation.log() == [b"v"] * 7
        assert called == [0, 7, 0] * 2


# Foreign names


class Topic(enum.StrEnum):
    """Names as programs keep them."""

    ORDERS = "t"


def test_a_topic_may_be_named_by_an_enum() -> None:
    reported: list[int] = []

    with native(1) as simulation:
        deliveries = [
            simulation.producer.send(
                Topic.ORDERS, b"v", on_delivery=lambda delivery: reported.append(delivery.metadata.offset)
            )
            for _ in range(3)
        ]
        simulation.run_until_idle()

        assert reported == [0, 1, 2]
        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2]
        assert simulation.pool.free == simulation.pool.capacity
