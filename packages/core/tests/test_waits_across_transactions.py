"""What a call has not queued when its transaction ends is in no transaction, whatever the call waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from ottla import DeliveryReport, Producer, RecordMetadata
from ottla.errors import IllegalStateError, NotPreparedError, OttlaError
from ottla.interfaces import Header, ProducerRecord, TopicView
from ottla.producer import table_calls
from ottla.tables import sending
from ottla.tables.table_delivery import TableDelivery
from ottla_testkit.simulation import SimulatedCluster, Simulation

LATE = "late"
"""A topic that the cluster gets only after the second transaction has begun."""


@attrs.define(eq=False)
class World:
    """A producer of a simulated cluster, two of whose threads run in turn."""

    simulation: Simulation
    producer: Producer
    waits: bool = False
    """Whether the call of the second thread waits, as far as it can be seen."""

    @property
    def pool(self) -> Any:
        return self.producer._engine.queueing.pool

    @property
    def begun(self) -> int:
        """The number of transactions."""
        transactions = self.producer._engine.transactions
        assert transactions is not None, "the producer is transactional"
        return transactions.manager.begun

    def wait_for_second(self) -> None:
        """Wait until the second transaction is open."""
        self.waits = True
        self.simulation.wait_for(lambda: self.begun == 2)


class LookedUp:
    """A serializer that finds its schema once the second transaction is open."""

    def __init__(self) -> None:
        self.world: World | None = None
        self._found = False

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        if not self._found:
            raise NotPreparedError
        return bytes(data)

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        assert self.world is not None
        self.world.wait_for_second()
        self._found = True


@attrs.define(eq=False)
class Slow:
    """A serializer, a partitioner or an interceptor that itself takes until the second transaction is open."""

    world: World | None = None

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        self._wait(data)
        return bytes(data)

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self._wait(key)
        return 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._wait(record.value)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        pass

    def _wait(self, data: bytes | None) -> None:
        assert self.world is not None
        if data is not None and data.endswith(b"of the first"):
            self.world.wait_for_second()


def in_a_serializer(world: World) -> object:
    return world.producer.send("t", b"of the first")


def in_a_partitioner(world: World) -> object:
    return world.producer.send("t", b"of the first", b"key of the first")


def in_an_interceptor(world: World) -> object:
    return world.producer.send("t", b"of the first")


def for_topic(world: World) -> object:
    world.waits = True
    return world.producer.send(LATE, b"of the first")


def for_partition(world: World) -> object:
    world.waits = True
    return world.producer.send("t", b"of the first", partition=1)


def for_memory(world: World) -> object:
    return world.producer.send("t", b"of the first")


def for_memory_with_key(world: World) -> object:
    return world.producer.send("t", b"of the first", b"key")


def for_lookup(world: World) -> object:
    return world.producer.send("t", b"of the first")


def in_a_table(world: World) -> object:
    pyarrow = pytest.importorskip("pyarrow")

    def batches() -> Iterator[Any]:
        world.wait_for_second()
        yield pyarrow.record_batch({"value": [b"of the first"]})

    return world.producer.send_table("t", batches())


def for_memory_in_a_table(world: World) -> object:
    pyarrow = pytest.importorskip("pyarrow")
    return world.producer.send_table("t", pyarrow.table({"value": [b"of the first"]}))


def of_a_sealed_batch(world: World) -> object:
    batch = sealed(LATE)
    world.waits = True
    return world.producer.send_sealed(batch)


def sealed(topic: str) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    from ottla.tables.sealed import TableSealer

    sealer = TableSealer({"bootstrap.servers": "seed:9092"}, {topic: 1})
    return sealer.seal(topic, pyarrow.table({"value": [b"of the first"]})).batches[0]


def for_the_first_import(world: World, call: Callable[[], object]) -> object:
    """Make a call while the import of pyarrow takes until the second transaction is open."""

    @contextmanager
    def importing(_method: str) -> Iterator[None]:
        world.wait_for_second()
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_calls, "_importing_tables", importing)
        return call()


def in_the_first_table(world: World) -> object:
    table = pytest.importorskip("pyarrow").table({"value": [b"of the first"]})
    return for_the_first_import(world, lambda: world.producer.send_table("t", table))


def in_the_first_sealed_batch(world: World) -> object:
    batch = sealed("t")
    return for_the_first_import(world, lambda: world.producer.send_sealed(batch))


CALLS = [
    for_topic,
    for_partition,
    for_memory,
    for_memory_with_key,
    for_lookup,
    in_a_serializer,
    in_a_partitioner,
    in_an_interceptor,
    in_a_table,
    for_memory_in_a_table,
    of_a_sealed_batch,
    in_the_first_table,
    in_the_first_sealed_batch,
]


@pytest.mark.parametrize("ends", ["commit", "abort"])
@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("call", CALLS)
def test_a_thread_that_waits_queues_nothing_in_the_next_transaction(
    call: Callable[[World], object], encoder: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    simulation = Simulation(cluster)
    looked_up, slow = LookedUp(), Slow()
    options: dict[Any, dict[str, Any]] = {
        for_lookup: {"value.serializer": looked_up},
        in_a_serializer: {"value.serializer": slow},
        in_a_partitioner: {"partitioner.class": slow},
        in_an_interceptor: {"interceptor.classes": [slow]},
    }
    producer = simulation.producer(
        {"record.encoder": encoder, **options.get(call, {})},
        transactional_id="tx",
        linger_ms=1_000,
        metadata_max_age_ms=100,
    )
    world = looked_up.world = slow.world = World(simulation, producer)
    errors: list[OttlaError] = []

    def transactions() -> None:
        producer.init_transactions()
        producer.partitions_for("t")
        producer.begin_transaction()
        held = world.pool.reserve_some(min_bytes=1, max_bytes=world.pool.capacity) if "memory" in call.__name__ else 0
        simulation.wait_for(lambda: world.pool.waiting if held else world.waits)
        simulation.sleep(1.0)
        producer.commit_transaction() if ends == "commit" else producer.abort_transaction()
        producer.begin_transaction()
        world.pool.release(held)
        if call is not for_lookup:
            producer.send("t", b"of the second", partition=0)  # in a batch that has room
        cluster.create(LATE, 1)
        cluster.add_partition(cluster.topics["t"], 1)
        simulation.wait_for(lambda: errors)
        producer.commit_transaction()
        producer.close()

    def waiting() -> None:
        simulation.wait_for(lambda: world.begun == 1)
        with pytest.raises(OttlaError) as raised:
            call(world)
        errors.append(raised.value)

    simulation.run(transactions, waiting)

    assert [type(error) for error in errors] == [IllegalStateError]
    assert "until its transaction had ended" in str(errors[0])
    written = [value for topic in cluster.topics.values() for value in topic.committed(0)]
    assert written == ([] if call is for_lookup else [b"of the second"])
    assert world.pool.free == world.pool.capacity


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_rows_that_are_refused_during_a_commit_do_not_fail_it(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    simulation = Simulation(cluster)
    producer = simulation.producer({"record.encoder": encoder}, transactional_id="tx", linger_ms=0)
    world = World(simulation, producer)
    reports: list[DeliveryReport] = []
    errors: list[IllegalStateError] = []

    def transactions() -> None:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"queued").result()
        held = world.pool.reserve_some(min_bytes=1, max_bytes=world.pool.capacity)
        simulation.wait_for(lambda: world.pool.waiting)
        simulation.network.freeze(1)  # so that the commit goes on
        commit = producer._transactional("commit_transaction").end(None, commit=True)
        world.pool.release(held)
        simulation.wait_for(lambda: errors)
        simulation.network.thaw(1)
        reports.append(commit.wait())
        producer.close()

    def table() -> None:
        simulation.wait_for(lambda: world.pool.free == 0)
        with pytest.raises(IllegalStateError) as raised:
            for_memory_in_a_table(world)
        errors.append(raised.value)

    simulation.run(transactions, table)

    assert [report.failed for report in reports] == [0]
    assert cluster.topics["t"].committed(0) == [b"queued"]
    delivery = errors[0].delivery
    assert isinstance(delivery, TableDelivery)
    assert len(delivery.failed_rows()) == 1
