"""The simulation runs programs with their threads in one order, and faults at their times."""

from __future__ import annotations

import pytest

from ottla import Producer
from ottla.errors import BufferExhaustedError
from ottla_testkit.simulation import (
    PlannedNetwork,
    PlannedTreatment,
    SimulatedCluster,
    SimulatedTelemetry,
    Simulation,
    StuckError,
    Treatment,
)
from ottla_testkit.simulation.planned_faults import (
    FrozenBroker,
    RecreatedTopic,
    SmallBatches,
    StoppedProcess,
    TreatedRequests,
    plan,
)

pytestmark = pytest.mark.timeout(60)


def world_of(*leaders: int, seed: int = 1, switching: float = 0.0) -> Simulation:
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    return Simulation(cluster, seed=seed, network=PlannedNetwork, switching=switching)


def written(world: Simulation, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in world.cluster.topics["t"].log.get(partition, [])]


def test_a_program_waits_for_simulated_time_only() -> None:
    world = world_of(1)
    producer = world.producer(linger_ms=50_000)
    settled: list[float] = []

    def program() -> None:
        delivery = producer.send("t", b"value", timestamp_ms=0)
        assert world.wait_for(delivery.done, timeout=60)
        settled.append(world.clock())
        producer.close()

    world.run(program)

    assert settled == [pytest.approx(50.0, abs=0.1)]
    assert written(world) == [b"value"]


def test_a_simulation_with_telemetry_repeats_byte_by_byte() -> None:
    def history(seed: int) -> tuple[str, int]:
        world = world_of(1, 2, seed=seed, switching=0.5)
        telemetry = world.cluster.telemetry = SimulatedTelemetry(interval_ms=1_000, delta=True)
        producer = world.producer(linger_ms=0)

        def program() -> None:
            for number in range(10):
                producer.send("t", b"%d" % number, timestamp_ms=0)
                world.sleep(1.0)
            producer.close()

        world.run(program)
        assert telemetry.pushes[-1].terminating
        return world.network.trace.digest, len(telemetry.pushes)

    assert history(1) == history(1)
    assert history(1) != history(2)
    assert 8 <= history(1)[1] <= 11


def test_programs_take_turns_as_the_seed_says() -> None:
    def history(seed: int) -> list[bytes | None]:
        world = world_of(1, seed=seed, switching=0.5)
        producer = world.producer(linger_ms=0, batch_size=1)
        left = [2]

        def send(letter: str) -> None:
            for number in range(5):
                producer.send("t", b"%s%d" % (letter.encode(), number), partition=0, timestamp_ms=0)
            left[0] -= 1
            if world.wait_for(lambda: not left[0]) and letter == "a":
                producer.close()

        world.run(lambda: send("a"), lambda: send("b"))
        return written(world)

    orders = [history(seed) for seed in range(8)]

    assert orders == [history(seed) for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order, key=str) == sorted(orders[0], key=str) for order in orders)


def test_a_send_that_waits_for_memory_gives_up_in_simulated_time() -> None:
    world = world_of(1)
    plan(world, [FrozenBroker(at=1.0, seconds=100.0, broker=1)])
    producer = world.producer(linger_ms=0, buffer_memory=2_000, max_block_ms=3_000)
    gave_up: list[float] = []

    def program() -> None:
        producer.send("t", b"first", timestamp_ms=0)
        world.sleep(2.0)
        try:
            while True:
                producer.send("t", bytes(500), timestamp_ms=0, on_delivery=lambda delivery: None)
        except BufferExhaustedError:
            gave_up.append(world.clock())
        producer.close(0)

    world.run(program)

    assert gave_up == [pytest.approx(5.0, abs=0.01)]


def test_a_stopped_process_does_nothing_and_brokers_go_on() -> None:
    world = world_of(1)
    plan(world, [StoppedProcess(at=1.0, seconds=10.0)])
    woken: list[float] = []

    def program() -> None:
        world.sleep(1.5)
        woken.append(world.clock())

    world.run(program)

    assert woken == [11.0]


def test_threads_that_wait_for_each_other_are_stuck() -> None:
    world = world_of(1)

    with pytest.raises(StuckError, match="all threads wait"):
        world.run(lambda: world.wait_for(lambda: False))


def test_the_error_of_a_program_ends_the_simulation() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    world = world_of(1)

    with pytest.raises(ValueError, match="wrong"):
        world.run(fail, lambda: world.sleep(1.0))


def send_three(world: Simulation, producer: Producer) -> list[int]:
    """Send three records one after the other; return their offsets."""
    offsets: list[int] = []

    def program() -> None:
        for number in range(3):
            delivery = producer.send("t", b"%d" % number, partition=0, timestamp_ms=0)
            assert world.wait_for(delivery.done, timeout=60)
            assert delivery.metadata is not None, delivery.error
            offsets.append(delivery.metadata.offset)
            world.sleep(1.0)
        producer.close()

    world.run(program)
    return offsets


@pytest.mark.parametrize("treatment", Treatment)
def test_a_request_that_is_treated_badly_is_written_once(treatment: Treatment) -> None:
    world = world_of(1)
    treated = PlannedTreatment(treatment=treatment, code=7, seconds=0.1)
    plan(world, [TreatedRequests(at=0.0, seconds=9.0, broker=1, treatments=(treated,))])

    offsets = send_three(world, world.producer(linger_ms=0, request_timeout_ms=1_000))

    assert written(world) == [b"0", b"1", b"2"]
    assert offsets[1:] == [1, 2]


def test_a_topic_that_is_created_again_has_another_id() -> None:
    world = world_of(1)
    before = world.cluster.topics["t"].id
    plan(world, [RecreatedTopic(at=0.5, seconds=0.2, topic="t", leaders=(1,))])

    offsets = send_three(world, world.producer(linger_ms=0))

    assert world.cluster.topics["t"].id != before
    assert offsets == [0, 0, 1]
    assert [record.value for record in world.cluster.deleted[0].log[0]] == [b"0"]


def test_a_topic_with_a_limit_refuses_larger_batches() -> None:
    world = world_of(1)
    plan(world, [SmallBatches(at=0.0, seconds=9.0, topic="t", max_message_bytes=150)])
    producer = world.producer(linger_ms=100)

    def program() -> None:
        deliveries = [producer.send("t", bytes(20), partition=0, timestamp_ms=0) for _ in range(20)]
        producer.flush()
        assert all(delivery.metadata is not None for delivery in deliveries)
        producer.close()

    world.run(program)

    assert len(written(world)) == 20
