"""Rounds that are broken off: at every single call, and whatever they were doing, the producer is whole afterwards."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ottla
from ottla import AbortableTransactionError, Delivery
from ottla.concurrency import io_threads
from ottla.errors import DeliveryTimeoutError, ErrorCode
from ottla_testkit.simulation import SimulatedNetwork
from simulated_producer import Simulated, simulated
from tracing import tracing

pytestmark = pytest.mark.unmeasured  # it traces calls itself

FAILS_ALONE = ("could not be encoded", "could not be split", "the transaction was aborted", "cannot be committed")
"""Errors that fail a batch and not its round."""

STEP = 8
"""The gate breaks off at each so many'th of some thousand places, the long form at all of them."""

DROPPED_GENERATOR = "ignore::pytest.PytestUnraisableExceptionWarning"
"""A fault in an abandoned generator has no effect."""

PACKAGE = str(Path(ottla.__file__).parent)


class Fault(Exception):
    """An exception that no part of the producer expects."""


class Breaker:
    """Breaks off what it watches with a Fault at the n-th call of a function of ours, once."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self.ways: dict[int, int] = {}
        self._at = at

    @contextmanager
    def watching(self) -> Iterator[None]:
        with tracing(self._note) if self.calls < self._at else nullcontext():
            yield

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and _counts(frame):
            self.calls += 1
            if self._at == sys.maxsize:
                self.ways.setdefault(_way_to(frame), self.calls)
            if self.calls == self._at:
                raise Fault(f"call {self._at}: {frame.f_code.co_qualname}")


def _counts(frame: FrameType) -> bool:
    """Whether it runs code of ours. Locks do not count: they are taken and given back as one step."""
    name = frame.f_code.co_filename
    return name.startswith(PACKAGE) and not name.endswith(("locks.py", "signals.py"))


def _way_to(frame: FrameType | None) -> int:
    way = []
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        way.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return hash(tuple(way))


class InterruptedProducer:
    """A producer whose rounds, or whose recoveries from rounds, are broken off."""

    def __init__(self, simulation: Simulated, breaker: Breaker, *, recovering: bool = False) -> None:
        self.simulation = simulation
        self.sent: dict[bytes, Delivery] = {}
        self.called: Counter[bytes] = Counter()
        self.failed = 0  # because their batch could not be encoded: that fails the batch and not the round
        run_once, recover = simulation.sender.run_once, simulation.sender.recover

        def broken(now: float, **how: Any) -> bool:
            with breaker.watching():
                return run_once(now, **how)

        def broken_recovery(cause: BaseException, now: float) -> None:
            with breaker.watching():
                recover(cause, now)

        if recovering:
            simulation.sender.recover = broken_recovery  # type: ignore[method-assign]
        else:
            simulation.sender.run_once = broken  # type: ignore[method-assign]
        simulation.round = self.round  # type: ignore[method-assign]

    def round(self, *, until: float = float("inf")) -> None:
        """A round as the I/O thread runs it."""
        io_threads.enter()
        try:
            self.simulation.rounds.run(self.simulation.clock(), until)
        finally:
            io_threads.leave()

    def send(self, value: bytes, *, partition: int) -> None:
        def note(_delivery: Delivery) -> None:
            self.called[value] += 1

        on_delivery = note if value.endswith(b"!") else None
        self.sent[value] = self.simulation.producer.send("t", value, partition=partition, on_delivery=on_delivery)

    def check(self, *, once: bool) -> None:
        """All is over, and well."""
        simulation = self.simulation
        simulation.run_until_idle()
        log = {partition: simulation.log(partition) for partition in (0, 1)}
        for value, delivery in self.sent.items():
            assert delivery.done(), value
            error = delivery.exception(timeout=0)
            if error is not None:
                assert any(reason in str(error) for reason in FAILS_ALONE), error
                assert not once or error.possibly_persisted or value not in log[0] + log[1]
                self.failed += 1
                continue
            metadata = delivery.result(timeout=0)
            assert value in log[metadata.partition], value
            assert metadata.offset == -1 or log[metadata.partition][metadata.offset] == value
        counts = Counter(value for values in log.values() for value in values)
        assert not once or set(counts.values()) <= {1}, counts
        assert self.called == Counter(value for value in self.sent if value.endswith(b"!"))
        assert simulation.pool.free == simulation.pool.capacity
        assert not simulation.accumulator.incomplete
        assert not len(simulation.sender._in_flight)
        for numbers in simulation.sender._sequences._partitions.values():
            assert not numbers.in_flight
            assert not numbers.on_the_wire


def records(made: InterruptedProducer) -> None:
    """Batches that are written, refused for now, too large, and lost with their connection."""
    simulation, codes = made.simulation, made.simulation.cluster.brokers[1].codes
    codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE])
    for partition in (0, 1):
        made.send(b"%d first" % partition, partition=partition)
    simulation.run_until_idle()
    for partition in (0, 1):
        made.send(b"%d second!" % partition, partition=partition)
        made.send(b"%d third" % partition, partition=partition)
    codes.append(ErrorCode.MESSAGE_TOO_LARGE)
    simulation.run_until_idle()
    made.send(b"lost", partition=0)
    made.send(b"lost, too!", partition=1)
    simulation.round(until=simulation.clock())
    simulation.network.cut(1)
    made.check(once=not simulation.sender._sequences.off)
    report = simulation.producer.close()
    assert report.acknowledged == len(made.sent) - made.failed
    assert report.failed == made.failed
    assert report.pending == 0


def transactions(made: InterruptedProducer) -> None:
    """Transactions that are committed, with positions too, and one that is aborted."""
    simulation, producer, visible = made.simulation, made.simulation.producer, Counter[bytes]()
    producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        values = [b"%d of %d!" % (number, partition) for partition in (0, 1)]
        for partition, value in enumerate(values):
            made.send(value, partition=partition)
        producer.send_offsets_to_transaction({("in", 0): number}, "g")
        simulation.cluster.brokers[1].codes.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        simulation.round(until=simulation.clock())
        try:
            producer.commit_transaction() if number < 2 else producer.abort_transaction()
        except AbortableTransactionError:
            producer.abort_transaction()
        else:
            visible.update(values if number < 2 else [])
    made.check(once=True)
    topic = simulation.cluster.topics["t"]
    assert Counter(topic.committed(0) + topic.committed(1)) == visible
    producer.close()


def after_faults(made: InterruptedProducer) -> None:
    """Rounds that have failed with answers read, requests written, batches drained and half completed."""
    simulation, poll, polls = made.simulation, made.simulation.network.poll, iter(range(1_000_000))

    def failing(timeout: float) -> None:
        poll(timeout)
        if next(polls) % 7 == 6:
            raise Fault("after a poll")

    simulation.network.poll = failing  # type: ignore[method-assign]
    records(made)


def run(scenario: Callable[[InterruptedProducer], None], breaker: Breaker, **config: Any) -> None:
    """A scenario that is broken off at one call, and its end."""
    with simulated(1, 1, know=False, **config) as simulation:
        simulation.cluster.sources["in"] = 1
        made = InterruptedProducer(simulation, breaker, recovering=scenario is after_faults)
        simulation.know("t")
        scenario(made)


def places(scenario: Callable[[InterruptedProducer], None], **config: Any) -> list[int]:
    """The numbers of the calls, one for each way that leads from the round to a function."""
    breaker = Breaker(sys.maxsize)
    run(scenario, breaker, **config)
    return sorted(breaker.ways.values())


SCENARIOS = pytest.mark.parametrize(
    ("scenario", "config"),
    [
        (records, {"enable_idempotence": True}),
        (records, {"enable_idempotence": False}),
        (transactions, {"transactional_id": "x"}),
        (after_faults, {"enable_idempotence": True}),
        (after_faults, {"enable_idempotence": False}),
    ],
    ids=["numbered", "without numbers", "transactions", "recovery, numbered", "recovery"],
)


@pytest.mark.rule("producer.thread.whole")
@pytest.mark.filterwarnings(DROPPED_GENERATOR)
@SCENARIOS
def test_an_interrupted_round_costs_no_record(
    scenario: Callable[[InterruptedProducer], None], config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for at in places(scenario, **config)[::STEP]:
        run(scenario, Breaker(at), **config)


@pytest.mark.slow
@pytest.mark.skipif("OTTLA_EVERY_CALL" not in os.environ, reason="takes a minute: set OTTLA_EVERY_CALL")
@pytest.mark.filterwarnings(DROPPED_GENERATOR)
@SCENARIOS
@pytest.mark.parametrize("offset", range(1, STEP))
def test_a_round_interrupted_at_any_call_costs_no_record(
    scenario: Callable[[InterruptedProducer], None],
    config: dict[str, Any],
    offset: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    for at in places(scenario, **config)[offset::STEP]:
        run(scenario, Breaker(at), **config)


class Refusing(SimulatedNetwork):
    """Whose system fails as often as a test says, instead of waiting."""

    failures: int = 0

    def poll(self, timeout: float) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        super().poll(timeout)


@pytest.mark.rule("producer.thread.whole")
@pytest.mark.parametrize("failures", [1, 5])
def test_a_failing_select_costs_its_rounds_and_no_record(failures: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with simulated(1, network=Refusing) as simulation:
        assert isinstance(simulation.network, Refusing)
        InterruptedProducer(simulation, Breaker(0))  # with rounds as the I/O thread runs them
        first = simulation.producer.send("t", b"first")
        simulation.network.failures = failures
        simulation.run_until_idle()
        second = simulation.producer.send("t", b"second")
        simulation.run_until_idle()

        assert [first.result().offset, second.result().offset] == [0, 1]
        assert simulation.log() == [b"first", b"second"]
        assert simulation.accumulator.pool.free == simulation.accumulator.pool.capacity
    assert "Cannot allocate memory" in caplog.text
    assert "the I/O thread works again after" in caplog.text


def test_a_failed_round_ends_the_attempt_that_it_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is time in the queue: the record waits for the next round, and not for the broker's answer."""

    def fail(*_arguments: Any) -> None:
        raise Fault("while the request is written")

    with simulated(1) as simulation:
        InterruptedProducer(simulation, Breaker(0))  # with rounds as the I/O thread runs them
        with monkeypatch.context() as faulty:
            faulty.setattr(simulation.sender._client, "send", fail)
            delivery = simulation.producer.send("t", b"v")
            simulation.round()
        failed_at = simulation.clock()
        batch = delivery._place()[0]
        assert (batch.response_lost, batch.maybe_written) == (True, True)
        simulation.run_until_idle()

        [lost, last] = delivery.story().tries
        assert lost.answered_at == failed_at
        assert last.response == "acknowledged at offset 0"


def test_a_round_that_fails_after_it_was_given_up_repairs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1) as simulation:
        recovered: list[BaseException] = []
        simulation.sender.recover = lambda cause, now: recovered.append(cause)  # type: ignore[method-assign]
        simulation.thread.give_up()

        simulation.thread._rounds.failed(Fault("a plugin has returned at last"))

        assert recovered == []
    assert caplog.messages == []


ROUND_PARTS: dict[str, Callable[[Simulated], tuple[object, str]]] = {
    "the round": lambda simulation: (simulation.sender, "run_once"),
    "the drain of a lone batch": lambda simulation: (simulation.accumulator, "drain_lone"),
    "the sequence numbers": lambda simulation: (simulation.sender._sequences, "resolve"),
    "the poll": lambda simulation: (simulation.sender._client, "poll"),
    "the recovery": lambda simulation: (simulation.sender, "recover"),
}


@pytest.mark.rule("producer.thread.bounded")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("part", ROUND_PARTS)
def test_records_expire_although_every_round_fails(part: str, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_how: Any) -> None:
        raise Fault(part)

    timeouts: dict[str, Any] = {"delivery_timeout_ms": 5_000, "request_timeout_ms": 2_000, "linger_ms": 0}
    with simulated(*[1] * partitions, network=Refusing, **timeouts) as simulation, monkeypatch.context() as faulty:
        assert isinstance(simulation.network, Refusing)
        InterruptedProducer(simulation, Breaker(0))  # with rounds as the I/O thread runs them
        simulation.network.failures = sys.maxsize if part == "the recovery" else 0
        faulty.setattr(*ROUND_PARTS[part](simulation), fail)
        deliveries = [simulation.producer.send("t", b"v", partition=partition) for partition in range(partitions)]
        while simulation.clock() < 8.0:
            simulation.round(until=simulation.clock() + 0.1)
            simulation.clock.advance(0.1)

        assert all(delivery.done() for delivery in deliveries)
        assert {type(delivery.exception()) for delivery in deliveries} == {DeliveryTimeoutError}

        faulty.undo()
        simulation.network.failures = 0
        last = simulation.producer.send("t", b"last", partition=0)
        simulation.run_until_idle()
        assert last.result().offset >= 0


class Ending(SimulatedNetwork):
    """After whose next wait the system's memory ends, at one allocation, before the network is called again."""

    testcapi: Any = None
    fails: int | None = None

    def poll(self, timeout: float) -> None:
        self.end()
        super().poll(timeout)
        fails, self.fails = self.fails, None
        if fails is not None:
            self.testcapi.set_nomemory(fails, fails + 1)

    def send(self, node: int, chunks: Any) -> bool:
        self.end()
        return super().send(node, chunks)

    def end(self) -> None:
        if self.testcapi is not None:
            self.testcapi.remove_mem_hooks()


@pytest.mark.rule("producer.thread.whole")
@pytest.mark.filterwarnings(DROPPED_GENERATOR)
def test_memory_that_ends_as_a_response_arrives_costs_no_record(caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it ends, also between the calls of functions."""
    caplog.set_level(logging.CRITICAL)
    testcapi = pytest.importorskip("_testcapi")
    with simulated(1, network=Ending) as simulation:
        network: Any = simulation.network
        network.testcapi = testcapi
        made = InterruptedProducer(simulation, Breaker(0))
        run_once = simulation.sender.run_once

        def ended(now: float, **how: Any) -> bool:
            try:
                return run_once(now, **how)
            finally:
                network.end()

        simulation.sender.run_once = ended  # type: ignore[method-assign]
        for number in range(120):
            made.send(b"%d" % number, partition=0)
            simulation.round(until=simulation.clock())
            network.fails = number
            simulation.run_until_idle()

            assert simulation.pool.free == simulation.pool.capacity, number
        made.check(once=True)
        assert simulation.log() == list(made.sent)
