"""The delivery machine as tests build it: real parts, a clock that the test moves, no threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.splitting import Splitter
from ottla.accumulator.time_settings import TimeSettings
from ottla.concurrency.environment import Environment
from ottla.interfaces import Columns, ColumnsKind, Compressor, Mechanism, Step
from ottla.metrics import Counters
from ottla.network import NetworkClient
from ottla.network.authentication import Authentication, AuthExecutor, Computation
from ottla.network.backoff import Backoff
from ottla.network.cluster import Broker, Cluster, Topic
from ottla.network.metadata import Metadata
from ottla.protocol import PRODUCE
from ottla.recordbatch.objects import ObjectEncoder
from ottla.sender.node_latency import NodeLatencyStats
from ottla.sender.produce_messages import supported_formats
from ottla.sender.produce_response_handler import ProduceResponseHandler
from ottla.sender.sender import Sender
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster, SimulatedNetwork

CONSTANT = Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5)


def columns(limit: int) -> Columns:
    made = ObjectEncoder().columns(ColumnsKind.OBJECTS, limit)
    assert made is not None
    return made


def cluster_of(*leaders: int, topic: str = "t") -> Cluster:
    """A cluster whose one topic has these leaders."""
    return Cluster(
        brokers={node: Broker(id=node, host=f"broker-{node}", port=9092) for node in leaders if node >= 0},
        topics={topic: Topic(name=topic, leaders=leaders, epochs=(0,) * len(leaders))},
    )


class Queues:
    """An accumulator with its pool and clock; `wakes` counts the wake-ups of the I/O thread."""

    def __init__(
        self,
        *,
        batch_size: int = 16_384,
        linger: float = 0.005,
        buffer_memory: int = 1_000_000,
        delivery_timeout: float = 120.0,
        max_block: float = 0.0,
        growing: bool = True,
        max_request_size: int = 1_000_000,
        sequences: Sequences | None = None,
    ) -> None:
        self.clock = ManualClock()
        environment = Environment(clock=self.clock)
        self.wakes = 0
        self.on_wake: Callable[[], object] = lambda: None
        self.pool = BufferPool(buffer_memory, environment=environment)
        self.accumulator = RecordAccumulator(
            sizes=BatchSizes(target=batch_size, max_bytes=max_request_size, growing=growing),
            times=TimeSettings(
                linger=linger, delivery_timeout=delivery_timeout, max_block=max_block, retry_backoff=CONSTANT
            ),
            pool=self.pool,
            columns=columns,
            seal=Sealer(None).seal,
            key_partitioner=None,
            sequences=sequences or Sequences(off=True),
            io_loop=WokenLoop(self.wake),
            environment=environment,
        )

    def wake(self) -> None:
        self.wakes += 1
        self.on_wake()

    def append(
        self,
        value: bytes = b"value",
        *,
        topic: str = "t",
        partition: int = 0,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        record = (None, value, (), 0, on_delivery)
        return Delivery(*self.accumulator.appender.append(topic, partition, record, len(value)))


class Machine:
    """Everything below the face against a simulated cluster; `run` lets simulated time pass."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        acks: int = -1,
        retries: int = 2**31 - 1,
        max_in_flight: int = 5,
        batch_size: int = 16_384,
        linger: float = 0.0,
        buffer_memory: int = 32_000_000,
        request_timeout: float = 30.0,
        delivery_timeout: float = 120.0,
        setup_timeout: float = 10.0,
        max_idle: float = float("inf"),
        max_request_size: int = 1_000_000,
        growing: bool = True,
        availability_timeout: float = 0.0,
        compressor: Compressor | None = None,
        rebootstraps: bool = True,
        rebootstrap_trigger: float = 300.0,
        mechanism: Mechanism | None = None,
        helper: AuthExecutor | None = None,
        first_helper: AuthExecutor | None = None,
    ) -> None:
        self.clock = ManualClock()
        environment = Environment(clock=self.clock)
        self.cluster = cluster
        self.network = SimulatedNetwork(cluster, self.clock)
        self.metadata = Metadata(
            bootstrap=[("seed", 9092)],
            max_age=300.0,
            max_idle=300.0,
            refresh_backoff=CONSTANT,
            wake=self.network.wakeup,
            environment=environment,
        )
        self.client = NetworkClient(
            selector=self.network,
            metadata=self.metadata,
            authentication=_authentication(mechanism, helper, first_helper) if mechanism is not None else None,
            client_id="test",
            max_in_flight=max_in_flight,
            request_timeout=request_timeout,
            max_idle=max_idle,
            reconnect_backoff=Backoff(initial=0.05, maximum=1.0, random=lambda: 0.5),
            rebootstraps=rebootstraps,
            rebootstrap_trigger=rebootstrap_trigger,
            setup_backoff=Backoff(initial=setup_timeout, maximum=setup_timeout, random=lambda: 0.5),
            chance=Random(0),
            clock=self.clock,
        )
        self.pool = BufferPool(buffer_memory, environment=environment)
        self.latency_stats = NodeLatencyStats(availability_timeout)
        sequences = Sequences(off=True)
        sealer = Sealer(
            compressor, formats_of=lambda node: supported_formats(self.client.supported_versions(node, PRODUCE))
        )
        self.accumulator = RecordAccumulator(
            sizes=BatchSizes(target=batch_size, max_bytes=max_request_size, growing=growing, ratio=sealer.ratio),
            times=TimeSettings(linger=linger, delivery_timeout=delivery_timeout, max_block=0.0, retry_backoff=CONSTANT),
            pool=self.pool,
            columns=columns,
            seal=sealer.seal,
            key_partitioner=None,
            sequences=sequences,
            io_loop=WokenLoop(self.network.wakeup),
            environment=environment,
        )
        counters = Counters()
        self.sender = Sender(
            accumulator=self.accumulator,
            client=self.client,
            metadata=self.metadata,
            latency_stats=self.latency_stats,
            response_handler=ProduceResponseHandler(
                accumulator=self.accumulator,
                metadata=self.metadata,
                sequences=sequences,
                splitter=Splitter(target=batch_size, columns=columns, records=sealer.records),
                retries=retries,
                delivery_timeout=delivery_timeout,
                client_id="test",
                counters=counters,
            ),
            acks=acks,
            max_request_size=max_request_size,
            request_timeout=request_timeout,
            delivery_timeout=delivery_timeout,
            keep_order=max_in_flight == 1,
            client_id="test",
            sequences=sequences,
            counters=counters,
        )

    def send(
        self, value: bytes, *, topic: str = "t", partition: int = 0, on_delivery: OnDelivery | None = None
    ) -> Delivery:
        record = (None, value, (), 0, on_delivery)
        return Delivery(*self.accumulator.appender.append(topic, partition, record, len(value)))

    def round(self) -> None:
        self.sender.run_once(self.clock())

    def run(self, seconds: float) -> None:
        """Rounds until so much simulated time has passed."""
        end = self.clock() + seconds
        for _ in range(100_000):
            if self.clock() >= end:
                return
            self.round()
        raise AssertionError("the machine spins: a hundred thousand rounds and no time passed")

    def run_until_idle(self) -> None:
        """Rounds until everything queued has its outcome."""
        for _ in range(100_000):
            if self.sender.idle:
                return
            self.round()
        raise AssertionError("something never completes")

    def log(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        """The values that the simulated broker holds."""
        return [record.value for record in self.cluster.topics[topic].log.get(partition, [])]


class HelperOfTheTest:
    """Computes when the test says so."""

    def __init__(self) -> None:
        self.thoughts: list[Computation] = []
        self.forgotten: list[Computation] = []
        self.closed = False

    def begin(self, work: Callable[[], Step]) -> Computation:
        self.thoughts.append(Computation(work))
        return self.thoughts[-1]

    def cancel(self, computation: Computation) -> None:
        self.forgotten.append(computation)

    def close(self) -> None:
        self.closed = True

    def compute(self) -> None:
        """Whatever waits."""
        thoughts, self.thoughts = self.thoughts, []
        for computation in thoughts:
            computation.run()


def _authentication(
    mechanism: Mechanism, helper: AuthExecutor | None, first_helper: AuthExecutor | None
) -> Authentication:
    """A login that is renewed after nine tenths of a session."""
    return Authentication(
        mechanism,
        worker=helper or HelperOfTheTest(),
        first_worker=first_helper,
        uniform=lambda low, high: (low + high) / 2,
    )


def wait_until(happened: Callable[[], object], *, timeout: float) -> None:
    """Wait until other threads have come so far; fails after *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, "it has not come so far"
        time.sleep(0.001)  # lets the other threads run
