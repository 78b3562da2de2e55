"""The simulation runs programs with their threads in one order, and faults at their times."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla import Delivery, Producer
from ottla.errors import BufferExhaustedError
from ottla.interfaces import Target
from ottla.protocol import METADATA, PRODUCE, Message, MetadataRequest, ProduceRequest
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import (
    FaultRates,
    FaultyNetwork,
    PlannedNetwork,
    PlannedRequestFault,
    RequestFault,
    SimulatedCluster,
    SimulatedTelemetry,
    Simulation,
    StuckError,
)
from ottla_testkit.simulation.planned_faults import (
    FaultyRequests,
    FrozenBroker,
    RecreatedTopic,
    SmallBatches,
    StoppedProcess,
    plan,
)

pytestmark = pytest.mark.timeout(60)


def simulation_of(*leaders: int, seed: int = 1, switching: float = 0.0) -> Simulation:
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    return Simulation(cluster, seed=seed, network=PlannedNetwork, switching=switching)


def written(simulation: Simulation, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in simulation.cluster.topics["t"].log.get(partition, [])]


def test_a_program_waits_for_simulated_time_only() -> None:
    simulation = simulation_of(1)
    producer = simulation.producer(linger_ms=50_000)
    completed: list[float] = []

    def program() -> None:
        delivery = producer.send("t", b"value", timestamp_ms=0)
        assert simulation.wait_for(delivery.done, timeout=60)
        completed.append(simulation.clock())
        producer.close()

    simulation.run(program)

    assert completed == [pytest.approx(50.0, abs=0.1)]
    assert written(simulation) == [b"value"]


def test_a_program_waits_for_a_result_in_simulated_time() -> None:
    simulation = simulation_of(1)
    producer = simulation.producer(linger_ms=50_000)
    waited: list[float] = []

    def program() -> None:
        delivery = producer.send("t", b"value", timestamp_ms=0)
        with pytest.raises(TimeoutError, match="is still pending after 20 s"):
            delivery.result(timeout=20)
        waited.append(simulation.clock())
        assert delivery.result(timeout=60).offset == 0
        waited.append(simulation.clock())
        assert producer.send("t", b"value", timestamp_ms=1).exception() is None
        waited.append(simulation.clock())
        producer.close()

    simulation.run(program)

    assert waited == pytest.approx([20.0, 50.0, 100.0], abs=0.1)


def test_a_program_waits_for_a_record_that_a_later_one_gave_a_partition() -> None:
    simulation = simulation_of(1, 1)
    producer = simulation.producer(linger_ms=50)
    found: list[object] = []

    def program() -> None:
        keyed = producer.send("t", b"keyed", key=b"key", timestamp_ms=0)
        producer.send("t", b"named", partition=0, timestamp_ms=0)
        found.append(keyed.exception())
        producer.close()

    simulation.run(program)

    assert found == [None]


def test_a_program_waits_for_a_record_of_a_split_batch() -> None:
    simulation = simulation_of(1)
    simulation.cluster.topics["t"].max_message_bytes = 200
    producer = simulation.producer(linger_ms=50)
    found: list[object] = []

    def program() -> None:
        deliveries = [producer.send("t", bytes(100), partition=0, timestamp_ms=0) for _ in range(3)]
        found.extend(delivery.exception() for delivery in deliveries)
        producer.close()

    simulation.run(program)

    assert found == [None, None, None]


def test_results_that_are_waited_for_one_by_one_are_simulated() -> None:
    def history() -> str:
        simulation = simulation_of(1, seed=3, switching=0.3)
        producer = simulation.producer(linger_ms=5)

        def program() -> None:
            for number in range(20):
                assert producer.send("t", b"value", timestamp_ms=number).result(timeout=10).offset == number
            producer.close()

        simulation.run(program)
        return simulation.network.trace.digest

    assert history() == history()


def test_no_time_passes_for_a_result_outside_of_a_program() -> None:
    simulation = simulation_of(1)
    producer = simulation.producer(linger_ms=50_000)
    sent: list[Delivery] = []
    simulation.run(lambda: sent.append(producer.send("t", b"value", timestamp_ms=0)))
    [delivery] = sent

    with pytest.raises(StuckError, match=r"call result\(\) in a function that simulation.run gets"):
        delivery.result(timeout=60)

    simulation.run(producer.close)
    assert delivery.result(timeout=60).offset == 0


def test_a_simulation_with_telemetry_repeats_byte_by_byte() -> None:
    def history(seed: int) -> tuple[str, int]:
        simulation = simulation_of(1, 2, seed=seed, switching=0.5)
        telemetry = simulation.cluster.telemetry = SimulatedTelemetry(interval_ms=1_000, delta=True)
        producer = simulation.producer(linger_ms=0)

        def program() -> None:
            for number in range(10):
                producer.send("t", b"%d" % number, timestamp_ms=0)
                simulation.sleep(1.0)
            producer.close()

        simulation.run(program)
        assert telemetry.pushes[-1].terminating
        return simulation.network.trace.digest, len(telemetry.pushes)

    assert history(1) == history(1)
    assert history(1) != history(2)
    assert 8 <= history(1)[1] <= 11


def test_programs_take_turns_as_the_seed_says() -> None:
    def history(seed: int) -> list[bytes | None]:
        simulation = simulation_of(1, seed=seed, switching=0.5)
        producer = simulation.producer(linger_ms=0, batch_size=1)
        left = [2]

        def send(letter: str) -> None:
            for number in range(5):
                producer.send("t", b"%s%d" % (letter.encode(), number), partition=0, timestamp_ms=0)
            left[0] -= 1
            if simulation.wait_for(lambda: not left[0]) and letter == "a":
                producer.close()

        simulation.run(lambda: send("a"), lambda: send("b"))
        return written(simulation)

    orders = [history(seed) for seed in range(8)]

    assert orders == [history(seed) for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order, key=str) == sorted(orders[0], key=str) for order in orders)


def partitions_of(simulation: Simulation, **options: Any) -> list[int]:
    """Send records, one at a time, and return the partitions that have some."""
    producer = simulation.producer(**options)

    def program() -> None:
        for _ in range(100):
            producer.send("t", b"value", b"key", timestamp_ms=0).result(timeout=60)
        producer.close()

    simulation.run(program)
    return sorted(simulation.cluster.topics["t"].log)


def test_keys_are_ignored_if_the_settings_say_so() -> None:
    ignoring = {"partitioner_ignore_keys": True, "batch_size": 1, "batch_growth_enable": "FALSE"}

    assert len(partitions_of(simulation_of(1, 1, 1, 1))) == 1
    assert partitions_of(simulation_of(1, 1, 1, 1), **ignoring) == [0, 1, 2, 3]


def test_records_go_to_the_rack_of_the_client() -> None:
    simulation = simulation_of(1, 2, 1, 2)
    simulation.cluster.brokers[2].rack = "near"
    near = {"partitioner_rack_aware": True, "client_rack": "near", "batch_size": 1, "batch_growth_enable": False}

    assert partitions_of(simulation, partitioner_ignore_keys=True, **near) == [1, 3]


def test_a_send_that_waits_for_memory_gives_up_in_simulated_time() -> None:
    simulation = simulation_of(1)
    plan(simulation, [FrozenBroker(at=1.0, seconds=100.0, broker=1)])
    producer = simulation.producer(linger_ms=0, buffer_memory=2_000, max_block_ms=3_000)
    waited: list[float] = []

    def program() -> None:
        producer.send("t", b"first", timestamp_ms=0)
        simulation.sleep(2.0)
        try:
            while True:
                began_at = simulation.clock()
                producer.send("t", bytes(500), timestamp_ms=0, on_delivery=lambda delivery: None)
        except BufferExhaustedError:
            waited.append(simulation.clock() - began_at)
        producer.close(0)

    simulation.run(program)

    assert waited == [pytest.approx(3.0, abs=0.01)]


def test_a_stopped_process_does_nothing_and_brokers_go_on() -> None:
    simulation = simulation_of(1)
    plan(simulation, [StoppedProcess(at=1.0, seconds=10.0)])
    woken: list[float] = []

    def program() -> None:
        simulation.sleep(1.5)
        woken.append(simulation.clock())

    simulation.run(program)

    assert woken == [11.0]


def test_threads_that_wait_for_each_other_are_stuck() -> None:
    simulation = simulation_of(1)

    with pytest.raises(StuckError, match="all threads wait"):
        simulation.run(lambda: simulation.wait_for(lambda: False))


def test_the_error_of_a_program_ends_the_simulation() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    simulation = simulation_of(1)

    with pytest.raises(ValueError, match="wrong"):
        simulation.run(fail, lambda: simulation.sleep(1.0))


def send_three(simulation: Simulation, producer: Producer) -> list[int]:
    """Send three records one after the other; return their offsets."""
    offsets: list[int] = []

    def program() -> None:
        for number in range(3):
            delivery = producer.send("t", b"%d" % number, partition=0, timestamp_ms=0)
            assert simulation.wait_for(delivery.done, timeout=60)
            assert delivery.metadata is not None, delivery.error
            offsets.append(delivery.metadata.offset)
            simulation.sleep(1.0)
        producer.close()

    simulation.run(program)
    return offsets


@pytest.mark.parametrize("kind", RequestFault)
def test_a_request_with_a_fault_is_written_once(kind: RequestFault) -> None:
    simulation = simulation_of(1)
    planned = PlannedRequestFault(kind=kind, code=7, seconds=0.1)
    plan(simulation, [FaultyRequests(at=0.0, seconds=9.0, broker=1, request_faults=(planned,))])

    offsets = send_three(simulation, simulation.producer(linger_ms=0, request_timeout_ms=1_000))

    assert written(simulation) == [b"0", b"1", b"2"]
    assert offsets[1:] == [1, 2]


def framed(message: Message[Any, Any], request: object) -> list[bytes]:
    """Return a request without a client id, with its length."""
    version = message.max_version
    header = message.key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    frame = header + bytes(message.flexible(version)) + message.request(version).encode(request)
    return [len(frame).to_bytes(4, "big"), frame]


def test_a_late_response_mutes_only_its_own_connection() -> None:
    cluster = SimulatedCluster.of(1)
    network = PlannedNetwork(cluster, ManualClock())
    network.request_faults[1].append(PlannedRequestFault(kind=RequestFault.DELAYED, seconds=0.2))
    cluster.brokers[1].throttle_ms, cluster.brokers[1].mutes = 500, True
    throttled, other = 11, 12
    for node in (throttled, other):
        network.connect(node, Target(0, "broker-1"), "broker-1", 9092)
    produce = framed(PRODUCE, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[]))
    metadata = framed(METADATA, MetadataRequest(topics=[]))
    received: dict[int, list[float]] = {throttled: [], other: []}
    network.poll(1.0)

    for node, requests in ((throttled, (produce, metadata)), (other, (metadata, metadata))):
        for request in requests:
            assert network.send(node, request)
    while not all(len(times) == 2 for times in received.values()):
        network.poll(60.0)
        for node, _response in network.received:
            received[node].append(network.clock())

    assert received == {throttled: pytest.approx([0.2, 0.7]), other: pytest.approx([0.0, 0.0])}


def test_a_late_request_that_its_broker_refuses_ends_nothing() -> None:
    cluster = SimulatedCluster.of(1, 2)
    topic = cluster.create("t", 1)
    simulation = Simulation(cluster, network=partial(FaultyNetwork, random_links=False))
    network = simulation.network
    assert isinstance(network, FaultyNetwork)
    producer = simulation.producer(linger_ms=0, acks="0", enable_idempotence=False)

    def program() -> None:
        producer.send("t", b"first", timestamp_ms=0).result(timeout=60)
        network.fault_rates = FaultRates(lost_request=1.0, late_request=1.0)
        topic.move_leader(0, 2)
        producer.send("t", b"late", timestamp_ms=0)
        simulation.sleep(0.001)
        network.end_faults()
        simulation.sleep(60.0)
        producer.close()

    simulation.run(program)

    assert cluster.brokers[1].requests[-1][0] == "Produce"
    assert written(simulation)[0] == b"first"


def test_a_topic_that_is_created_again_has_another_id() -> None:
    simulation = simulation_of(1)
    before = simulation.cluster.topics["t"].id
    plan(simulation, [RecreatedTopic(at=0.5, seconds=0.2, topic="t", leaders=(1,))])

    offsets = send_three(simulation, simulation.producer(linger_ms=0))

    assert simulation.cluster.topics["t"].id != before
    assert offsets == [0, 0, 1]
    assert [record.value for record in simulation.cluster.deleted[0].log[0]] == [b"0"]


def test_a_topic_with_a_limit_refuses_larger_batches() -> None:
    simulation = simulation_of(1)
    plan(simulation, [SmallBatches(at=0.0, seconds=9.0, topic="t", max_message_bytes=150)])
    producer = simulation.producer(linger_ms=100)

    def program() -> None:
        deliveries = [producer.send("t", bytes(20), partition=0, timestamp_ms=0) for _ in range(20)]
        producer.flush()
        assert all(delivery.metadata is not None for delivery in deliveries)
        producer.close()

    simulation.run(program)

    assert len(written(simulation)) == 20
