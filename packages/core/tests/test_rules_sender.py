"""The rules of the rounds: what is due when, what an answer means, what comes back in which order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edited_broker import edited_machine
from machine import Machine
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.delivery import Delivery
from ottla.errors import (
    BrokerError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    InvalidPluginError,
    OttlaError,
    ProtocolError,
    UnsupportedVersionError,
)
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors.gzip import ottla_compressor
from ottla.protocol import PRODUCE
from ottla.recordbatch.parse import Record
from ottla.recordbatch.sealed_records import SealedRecords
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.pending_response import Response


def machine_with_topic(*leaders: int, compressor: Compressor | None = None, **options: float) -> Machine:
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    return Machine(cluster, compressor=compressor, **options)  # type: ignore[arg-type]  # every option is a number


def warm(machine: Machine) -> Machine:
    """The same machine, with its connections made, its topic known, and nothing left to do."""
    for partition in range(len(machine.cluster.topics["t"].leaders)):
        machine.send(b"warm", partition=partition)
    machine.run_until_idle()
    pass_time(machine, 1.0)
    for broker in machine.cluster.brokers.values():
        broker.requests.clear()
    for log in machine.cluster.topics["t"].logs.values():
        log.records.clear()
    machine.network.waits.clear()
    return machine


def pass_time(machine: Machine, seconds: float) -> None:
    """Rounds for just so long, though nothing may be due for longer."""
    end = machine.clock() + seconds
    while machine.clock() < end:
        machine.sender.run_once(machine.clock(), until=end)


def produced(machine: Machine, broker: int = 1) -> int:
    return sum(name == "Produce" for name, _version in machine.cluster.brokers[broker].requests)


def take(machine: Machine, *codes: ErrorCode | None) -> None:
    """Responses of broker 1 to its next Produce requests; None: no response."""
    machine.cluster.brokers[1].codes.extend(codes)


# Rounds


@pytest.mark.rule("sender.round.metadata")
def test_metadata_is_requested_until_a_partition_has_a_leader() -> None:
    machine = warm(machine_with_topic(1, 1))
    machine.cluster.topics["t"].leaders[0] = -1
    take(machine, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    delivery = machine.send(b"a")
    machine.run(10.0)
    assert not delivery.done()

    machine.cluster.topics["t"].leaders[0] = 1
    machine.run_until_idle()

    assert delivery.result().offset == 0


@pytest.mark.rule("sender.round.metadata")
def test_a_topic_without_a_leader_stays_in_use_while_records_wait() -> None:
    machine = warm(machine_with_topic(1, delivery_timeout=2_000.0))
    machine.cluster.topics["t"].leaders[0] = -1
    machine.metadata.request_update()
    pass_time(machine, 700.0)
    assert "t" not in machine.metadata.topics
    delivery = machine.send(b"a")
    pass_time(machine, 700.0)

    assert not delivery.done()
    assert "t" in machine.metadata.topics


@pytest.mark.rule("sender.round.mute", "sender.order")
def test_with_one_in_flight_the_next_batch_waits_for_the_response() -> None:
    machine = warm(machine_with_topic(1, 2, max_in_flight=1, request_timeout=8.0))
    take(machine, None)
    machine.send(b"first", partition=0)
    machine.round()
    machine.cluster.topics["t"].leaders[0] = 2  # another broker, where nothing is in flight
    machine.metadata.request_update()
    machine.send(b"second", partition=0)
    pass_time(machine, 5.0)

    assert machine.metadata.cluster.leader("t", 0) == 2
    assert produced(machine, 2) == 0
    machine.run_until_idle()
    assert machine.log() == [b"first", b"first", b"second"]


@pytest.mark.rule("sender.round.waits")
def test_a_round_waits_until_the_linger_ends_and_not_again() -> None:
    machine = warm(machine_with_topic(1, linger=5.0))
    started = machine.clock()
    machine.send(b"a")
    machine.run_until_idle()

    assert machine.clock() - started == pytest.approx(5.0)
    assert machine.network.waits == [pytest.approx(5.0)]


@pytest.mark.rule("sender.round.waits", "accumulator.ready.backoff.grows")
def test_a_batch_is_retried_exactly_when_its_backoff_ends() -> None:
    machine = warm(machine_with_topic(1))
    times: list[float] = []
    take(machine, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 6)
    delivery = machine.send(b"a")
    started = machine.clock()
    while not delivery.done():
        before = produced(machine)
        machine.round()
        if produced(machine) > before:
            times.append(machine.clock() - started)

    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert len(machine.network.waits) == 6


@pytest.mark.rule("sender.round.waits", "sender.round.expire")
@pytest.mark.parametrize("where", ["in flight", "in backoff", "without a leader", "lingering"])
def test_an_expired_record_fails_on_time_in_any_state(where: str) -> None:
    machine = warm(machine_with_topic(1, linger=99.0 if where == "lingering" else 0.0, delivery_timeout=7.0))
    if where == "in flight":
        machine.cluster.brokers[1].silent = True
    elif where == "in backoff":
        take(machine, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
    elif where == "without a leader":
        machine.cluster.topics["t"].leaders[0] = -1
        take(machine, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    started = machine.clock()
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert isinstance(delivery.exception(), DeliveryTimeoutError)
    assert machine.clock() - started == pytest.approx(7.0)


@pytest.mark.rule("sender.round.spin", "sender.round.unready")
def test_while_a_broker_is_down_rounds_are_few_for_any_queue_size() -> None:
    machine = warm(machine_with_topic(1, 2, batch_size=500, growing=False))
    machine.cluster.brokers[1].up = False
    for number in range(1_000):
        machine.send(bytes(200), partition=number % 2)
    rounds = 0
    end = machine.clock() + 30.0
    while machine.clock() < end:
        machine.round()
        rounds += 1

    assert len(machine.log(partition=1)) == 500
    assert rounds < 1_000  # half of them for what partition 1 had


@pytest.mark.rule("sender.round.unready", "sender.round.waits")
def test_a_round_ends_when_a_broker_may_be_tried_again() -> None:
    machine = warm(machine_with_topic(1))
    machine.cluster.brokers[1].up = False
    machine.round()
    machine.send(b"a")
    machine.network.waits.clear()
    machine.run(5.0)

    # Reconnects after 0.05, 0.1, 0.2, 0.4 ... s: each wait ends with one of them, and none is much longer.
    assert max(machine.network.waits) <= 1.0
    assert len(machine.network.waits) < 30


@pytest.mark.rule("sender.round.more", "sender.round.waits")
def test_later_batches_of_a_partition_are_sent_without_delay() -> None:
    machine = warm(machine_with_topic(1, batch_size=500, growing=False, linger=60.0))
    started = machine.clock()
    for _ in range(40):
        machine.send(bytes(400))
    machine.accumulator.flush(timeout=0)
    machine.run_until_idle()

    assert machine.clock() == started
    assert produced(machine) == 40


@pytest.mark.rule("sender.round.more", "accumulator.drain.fault")
def test_batches_behind_unencodable_ones_are_sent_at_once() -> None:
    machine = warm(machine_with_topic(1, batch_size=300, growing=False))
    seal = machine.accumulator._drained.seal
    faults = [True, True, True, False, False]

    def seal_or_raise(batch: ProducerBatch, node: int) -> SealedRecords:
        if faults.pop(0):
            raise ZeroDivisionError("a fault in a codec")
        return seal(batch, node)

    machine.accumulator._drained.seal = seal_or_raise
    deliveries = [machine.send(bytes(250)) for _ in range(5)]
    started = machine.clock()

    machine.run_until_idle()

    assert machine.clock() == started
    assert [delivery.exception() is None for delivery in deliveries] == [False, False, False, True, True]


@attrs.define
class Returning:
    """Says it is gzip, and returns whatever it was made with."""

    made: Any
    codec_id: int = 1

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> Any:
        return self.made

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        raise AssertionError("nothing was compressed")


@pytest.mark.rule("accumulator.drain.fault")
@pytest.mark.parametrize(
    ("made", "returned"),
    [
        (None, "NoneType, not bytes"),
        ("text", "str, not bytes"),
        (5, "int, not bytes"),
        ([b"bytes"], "list, not bytes"),
        (b"", "no bytes"),
        (bytearray(), "no bytes"),
    ],
)
def test_a_codec_that_returns_no_bytes_fails_its_batch_and_is_named(made: Any, returned: str) -> None:
    machine = warm(machine_with_topic(1, compressor=Returning(made)))
    delivery = machine.send(b"a")
    started = machine.clock()

    machine.run_until_idle()

    assert machine.clock() == started
    said = rf"it could not be encoded: the compressor \S*Returning returned {returned}"
    with pytest.raises(DeliveryError, match=said) as caught:
        delivery.result(0)
    assert isinstance(caught.value.__cause__, InvalidPluginError)
    assert machine.pool.free == machine.pool.capacity


# Answers


@pytest.mark.rule("sender.answer.duplicate")
def test_a_duplicate_is_acknowledged_with_unknown_offset_and_timestamp() -> None:
    machine = edited_machine(
        {0: lambda answer: attrs.evolve(answer, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=5)}
    )
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == -1
    assert produced(machine) == 1


@pytest.mark.rule("sender.answer.duplicate")
def test_a_duplicate_keeps_the_timestamp_of_the_record() -> None:
    machine = edited_machine(
        {0: lambda a: attrs.evolve(a, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, log_append_time_ms=9_000)}
    )
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().timestamp_ms == 0


GZIP = ottla_compressor()


@attrs.define
class Slow:
    """Takes two seconds for a batch."""

    clock: ManualClock | None = None
    codec_id: int = GZIP.codec_id

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        if self.clock is not None:
            self.clock.advance(2.0)
        return GZIP.compress(chunks, level=level)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return GZIP.decompress(buffer, limit=limit)


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_time_of_compression_is_no_part_of_the_request_timeout(partitions: int) -> None:
    compressor = Slow()
    machine = machine_with_topic(*[1] * partitions, compressor=compressor, request_timeout=1.0, retries=0)
    machine.cluster.compressors = {GZIP.codec_id: GZIP}
    warm(machine)
    compressor.clock = machine.clock
    machine.network.freeze(1)
    deliveries = [machine.send(b"a" * 1_000, partition=partition) for partition in range(partitions)]
    pass_time(machine, 2.0 * partitions + 0.5)  # half a second after the request was sent
    machine.network.thaw(1)

    machine.run_until_idle()

    assert [delivery.result().offset for delivery in deliveries] == [0] * partitions


@pytest.mark.rule("sender.answer.unknown-topic")
def test_a_topic_unknown_to_its_broker_is_warned_about_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    take(machine, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == 0
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "broker 1 did not take records for partition t-0: UNKNOWN_TOPIC_OR_PARTITION" in warning
    assert "it may not exist, or this user may not describe it" in warning


@pytest.mark.rule("sender.answer.missing")
def test_a_partition_missing_in_the_response_is_retried() -> None:
    machine = edited_machine({1: lambda _answer: None})
    deliveries = [machine.send(b"a", partition=partition) for partition in (0, 1)]

    machine.run_until_idle()

    assert [delivery.result().offset for delivery in deliveries] == [0, 1]
    assert machine.log(partition=1) == [b"a", b"a"]  # it may have been written


@pytest.mark.rule("sender.answer.missing", "batch.possibly")
def test_a_partition_missing_in_every_response_fails_as_maybe_written() -> None:
    machine = edited_machine({1: lambda _answer: None}, retries=0)
    delivery = machine.send(b"a", partition=1)

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert error.possibly_persisted
    assert isinstance(error.__cause__, ProtocolError)


@pytest.mark.rule("sender.answer.each")
def test_each_partition_of_a_response_has_its_own_action() -> None:
    machine = edited_machine(
        {1: lambda answer: attrs.evolve(answer, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, base_offset=-1)}
    )
    allowed, forbidden = (machine.send(b"a", partition=partition) for partition in (0, 1))

    machine.run_until_idle()

    assert allowed.result().offset == 0
    error = forbidden.exception()
    assert error is not None
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produced(machine) == 1


@pytest.mark.rule("sender.answer.refresh")
def test_metadata_of_a_stale_leader_is_requested_before_the_backoff_ends() -> None:
    machine = warm(machine_with_topic(1, 2))
    machine.cluster.topics["t"].leaders[0] = 2
    delivery = machine.send(b"a", partition=0)
    started = machine.clock()

    machine.run_until_idle()

    assert delivery.result().offset == 0
    assert machine.clock() - started == pytest.approx(0.1)  # the batch's own backoff, and nothing for metadata
    assert (produced(machine, 1), produced(machine, 2)) == (1, 1)


@pytest.mark.rule("sender.answer.retriable")
def test_an_error_without_stale_metadata_requests_no_metadata() -> None:
    machine = warm(machine_with_topic(1))
    take(machine, ErrorCode.NOT_ENOUGH_REPLICAS)
    machine.send(b"a")

    machine.run_until_idle()

    assert [name for name, _version in machine.cluster.brokers[1].requests] == ["Produce", "Produce"]


# Lost


@pytest.mark.rule("sender.lost.connection")
def test_a_disconnect_retries_each_batch_of_all_requests_once() -> None:
    machine = warm(machine_with_topic(1, 1, batch_size=100, growing=False))
    machine.cluster.brokers[1].silent = True
    deliveries = [machine.send(b"%d" % number * 90, partition=number % 2) for number in range(6)]
    for _ in range(3):
        machine.sender.run_once(machine.clock(), until=machine.clock())  # a round that does not wait
    assert machine.client.in_flight() == 3
    machine.cluster.brokers[1].silent = False
    machine.network.cut(1)

    machine.run_until_idle()

    assert sorted(delivery.result().offset for delivery in deliveries) == [0, 0, 1, 1, 2, 2]
    assert {delivery._batch.attempts for delivery in deliveries} == {2}


@pytest.mark.rule("sender.lost.version")
def test_a_request_without_a_common_version_fails_all_its_batches() -> None:
    machine = machine_with_topic(1, 1, compressor=Zstd())
    machine.cluster.brokers[1].versions[PRODUCE.key] = (3, 6)
    deliveries = [machine.send(b"a", partition=partition) for partition in (0, 1)]

    machine.run_until_idle()

    for delivery in deliveries:
        error = delivery.exception()
        assert error is not None
        assert isinstance(error.__cause__, UnsupportedVersionError)
        assert not error.possibly_persisted
    assert machine.sender.idle


@pytest.mark.rule("sender.acks-0")
def test_with_acks_0_an_unwritten_request_is_retried() -> None:
    machine = warm(machine_with_topic(1, acks=0))
    machine.network.takes.append(0)  # the socket is full
    delivery = machine.send(b"a")
    machine.network.schedule.later(0.0, lambda: setattr(machine.cluster.brokers[1], "up", False))
    machine.run(3.0)
    assert not delivery.done()

    machine.cluster.brokers[1].up = True
    machine.run_until_idle()

    assert delivery.result().offset == -1
    assert machine.log() == [b"a"]


# Trying again


@pytest.mark.rule("sender.retry.attempts")
@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_batch_is_retried_as_often_as_configured(retries: int) -> None:
    machine = warm(machine_with_topic(1, retries=retries))
    take(machine, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 10)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert produced(machine) == retries + 1
    error = delivery.exception()
    assert error is not None
    assert error.attempts == retries + 1


@pytest.mark.rule("sender.retry.time")
def test_a_response_after_the_delivery_timeout_causes_no_retry() -> None:
    machine = warm(machine_with_topic(1, request_timeout=5.0, delivery_timeout=5.0))
    take(machine, None)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert isinstance(delivery.exception(), DeliveryTimeoutError)
    machine.run(10.0)
    assert produced(machine) == 1


# Order


@pytest.mark.rule("sender.order.throttled")
def test_with_guaranteed_order_a_throttled_partition_stays_muted() -> None:
    machine = warm(machine_with_topic(1, 2, max_in_flight=1))
    machine.cluster.brokers[1].throttle_ms = 3_000
    take(machine, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    machine.cluster.topics["t"].leaders[0] = 2  # not throttled, but the partition is
    delivery = machine.send(b"a", partition=0)
    started = machine.clock()

    machine.run_until_idle()

    assert delivery.result().offset == 0
    assert machine.clock() - started == pytest.approx(3.0)
    assert produced(machine, 2) == 1


@pytest.mark.rule("accumulator.expire.muted", "producer.callback.order")
def test_with_guaranteed_order_batches_expire_in_order() -> None:
    machine = warm(machine_with_topic(1, max_in_flight=1, batch_size=100, growing=False, delivery_timeout=5.0))
    machine.cluster.brokers[1].silent = True
    reported: list[int] = []
    for number in range(5):
        machine.send(
            bytes(90),
            on_delivery=lambda delivery, number=number: reported.append(number if delivery.error else -1),  # type: ignore[misc]  # the default binds it
        )

    machine.run_until_idle()

    assert reported == [0, 1, 2, 3, 4]


CODES = st.sampled_from(
    [
        ErrorCode.NONE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.REQUEST_TIMED_OUT,
        None,
    ]
)


@pytest.mark.rule("sender.order", "sender.split.too-large", "producer.callback.order")
@given(st.lists(CODES, max_size=12), st.lists(st.integers(2, 400), min_size=1, max_size=12), st.booleans())
def test_with_one_in_flight_any_responses_lose_and_reorder_nothing(
    codes: list[ErrorCode | None], sizes: list[int], moves: bool
) -> None:
    machine = warm(machine_with_topic(1, 2, max_in_flight=1, batch_size=500, request_timeout=2.0))
    machine.cluster.brokers[1].codes = deque(codes)
    values = [b"%02d" % number * (size // 2) for number, size in enumerate(sizes)]
    reported: list[int] = []
    deliveries = []
    for number, value in enumerate(values):
        if number == 3 and moves:
            machine.cluster.topics["t"].leaders[0] = 2

        def note(_delivery: Delivery, number: int = number) -> None:
            reported.append(number)

        deliveries.append(machine.send(value, on_delivery=note))
        machine.round()

    machine.run_until_idle()

    delivered = [value for value, delivery in zip(values, deliveries, strict=True) if delivery.exception() is None]
    log = machine.log()
    first_places = [log.index(value) for value in delivered]
    assert first_places == sorted(first_places)
    assert reported == list(range(len(values)))
    if ErrorCode.MESSAGE_TOO_LARGE not in codes:
        assert delivered == values
    assert machine.pool.free == machine.pool.capacity


# Splitting


class Zstd:
    """Says it is zstd, which not every broker takes."""

    codec_id = 4

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        return b"".join(chunks)

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return bytes(buffer)


class Picky(SimulatedBroker):
    """A broker that takes no batch of more than so many bytes, compressed or not."""

    limit = 2_000

    def answer(self, frame: bytes) -> Response:
        api_key = int.from_bytes(frame[:2], "big")
        if api_key == PRODUCE.key:
            self.codes.append(ErrorCode.MESSAGE_TOO_LARGE if len(frame) > self.limit else ErrorCode.NONE)
        return super().answer(frame)


def _unreadable(_batch: ProducerBatch) -> Sequence[Record]:
    raise ZeroDivisionError("a fault in a codec")


def picky_machine(**options: float) -> Machine:
    cluster = SimulatedCluster()
    cluster.brokers[1] = Picky(cluster=cluster, id=1)
    cluster.create("t", 1)
    return Machine(cluster, **options)  # type: ignore[arg-type]  # every option is a number


@pytest.mark.rule("sender.split.too-large", "batch.split.deliveries")
@pytest.mark.parametrize("max_in_flight", [1, 5])
def test_a_batch_that_is_too_large_arrives_in_parts_once_and_in_order(max_in_flight: int) -> None:
    machine = picky_machine(max_in_flight=max_in_flight, batch_size=100_000)
    values = [b"%03d" % number * 40 for number in range(200)]
    deliveries = [machine.send(value) for value in values]

    machine.run_until_idle()

    arrived = [value or b"" for value in machine.log()]
    # Requests behind one that was too large arrive before its parts: one in flight, or idempotence, keeps the order.
    assert (arrived if max_in_flight == 1 else sorted(arrived)) == values
    assert [arrived[delivery.result().offset] for delivery in deliveries] == values
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.rule("sender.split.attempt", "sender.round.waits")
def test_parts_are_sent_at_once_even_without_remaining_retries() -> None:
    machine = picky_machine(batch_size=100_000, retries=0)
    deliveries = [machine.send(bytes(100)) for _ in range(100)]
    started = machine.clock()

    machine.run_until_idle()

    assert machine.clock() == started
    assert sorted(delivery.result().offset for delivery in deliveries) == list(range(100))


@pytest.mark.rule("sender.split.attempt", "sender.retry.attempts")
@pytest.mark.parametrize("waits", [0, 2])
def test_a_part_has_the_attempts_of_its_batch_before_the_split(waits: int) -> None:
    machine = warm(machine_with_topic(1, retries=1))
    concurrent = [ErrorCode.CONCURRENT_TRANSACTIONS] * waits  # which are no retries
    take(machine, *concurrent, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS)
    deliveries = [machine.send(bytes(50)), machine.send(bytes(50))]

    machine.run_until_idle()

    assert sorted(delivery.result().offset for delivery in deliveries) == [0, 1]


@pytest.mark.rule("sender.split.flight")
def test_after_a_split_only_the_parts_have_delivery_times() -> None:
    machine = warm(machine_with_topic(1, delivery_timeout=6.0))
    machine.accumulator.report()
    take(machine, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE, None)
    reported: list[OttlaError | None] = []
    for _ in range(2):
        machine.send(bytes(50), on_delivery=lambda delivery: reported.append(delivery.error))
    started = machine.clock()

    machine.run_until_idle()

    assert machine.clock() - started == pytest.approx(6.0)
    assert [type(error) for error in reported] == [type(None), DeliveryTimeoutError]
    report = machine.accumulator.report()[0]
    assert (report.acknowledged, report.failed, report.possibly_persisted) == (1, 1, 1)
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.rule("sender.split.single")
def test_after_complete_splitting_only_records_too_large_alone_fail() -> None:
    machine = picky_machine(batch_size=100_000)
    deliveries = [machine.send(bytes(3_000 if number == 3 else 100)) for number in range(8)]

    machine.run_until_idle()

    errors = [delivery.exception() for delivery in deliveries]
    assert [number for number, error in enumerate(errors) if error] == [3]
    assert "(max.message.bytes); raise the topic's max.message.bytes or send smaller records" in str(errors[3])
    assert isinstance(errors[3].__cause__, BrokerError) if errors[3] else False


@pytest.mark.rule("sender.split.format")
@pytest.mark.parametrize("newest", [1, 2], ids=["v0", "v1"])
def test_a_batch_of_an_older_format_is_split_too(newest: int) -> None:
    machine = picky_machine(batch_size=100_000)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, newest)
    deliveries = [machine.send(bytes(3_000 if number == 3 else 100)) for number in range(30)]

    machine.run_until_idle()

    assert [number for number, delivery in enumerate(deliveries) if delivery.exception()] == [3]
    assert len(machine.log()) == 29


@pytest.mark.rule("accumulator.split.learns")
def test_a_topic_that_refused_a_batch_gets_smaller_ones() -> None:
    machine = picky_machine(batch_size=100_000)
    for _ in range(200):
        machine.send(bytes(100))
    machine.run_until_idle()
    machine.cluster.brokers[1].requests.clear()
    refused = machine.cluster.brokers[1].codes

    for _ in range(200):
        machine.send(bytes(100))
    machine.run_until_idle()

    assert not refused
    assert produced(machine) <= 200 * 120 // 900


@pytest.mark.rule("sender.split.too-large")
def test_compressed_batches_are_split_too() -> None:
    gzip = ottla_compressor()
    machine = machine_with_topic(1, compressor=gzip, batch_size=50_000)
    machine.cluster.compressors = {gzip.codec_id: gzip}
    take(machine, ErrorCode.MESSAGE_TOO_LARGE)
    deliveries = [machine.send(b"%03d" % number * 30) for number in range(50)]

    machine.run_until_idle()

    assert produced(machine) >= 3
    assert [delivery.result().offset for delivery in deliveries] == list(range(50))


@pytest.mark.rule("sender.split.fault")
def test_a_batch_that_cannot_be_split_fails_alone_with_the_cause() -> None:
    machine = warm(machine_with_topic(1, 1, compressor=None, max_in_flight=1))
    handler = machine.sender._response_handler
    handler._splitter = attrs.evolve(handler._splitter, records=_unreadable)
    take(machine, ErrorCode.MESSAGE_TOO_LARGE)
    deliveries = [machine.send(b"a", partition=partition) for partition in (0, 0, 1)]
    started = machine.clock()

    machine.run_until_idle()

    assert machine.clock() == started
    for delivery in deliveries[:2]:
        assert "a fault in a codec" in str(delivery.exception())
        assert "MESSAGE_TOO_LARGE" in str(delivery.exception())
    after = machine.send(b"after", partition=0)
    machine.run_until_idle()
    assert after.result().offset == 0
    assert machine.pool.free == machine.pool.capacity


def test_after_a_round_the_sender_says_when_the_next_one_is_due() -> None:
    machine = Machine(SimulatedCluster.of(1), linger=0.25)
    machine.cluster.create("t", 1)
    machine.send(b"first")
    machine.run_until_idle()
    sent_at = machine.clock()
    machine.send(b"lingers")

    machine.sender.run_once(machine.clock(), until=machine.clock())

    assert machine.sender.due_at == pytest.approx(sent_at + 0.25)


def test_only_a_round_with_requests_skips_the_poll_and_only_if_it_may() -> None:
    machine = Machine(SimulatedCluster.of(1))
    machine.cluster.create("t", 1)
    machine.send(b"first")
    machine.run_until_idle()
    machine.network.awaits_events = True
    now = machine.clock()
    found = [machine.sender.run_once(now, until=now, may_skip_poll=may) for may in (False, True)]
    machine.send(b"second")
    found.append(machine.sender.run_once(now, until=now, may_skip_poll=True))

    assert found == [False, False, True]
