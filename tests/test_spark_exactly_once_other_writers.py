"""Ledger topics with records of other clients: a real broker, real batches, and the next driver's decision."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from ledger_kit import attempts, entry, prepare, settings
from long_forms import LONG, only_long

from ottla import Producer
from ottla.errors import ErrorCode, error_code
from ottla.protocol import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.recordbatch.header_v2 import batch_header
from ottla.recordbatch.number_columns import Timestamps
from ottla.recordbatch.records_v2 import encode_records
from ottla.transactions import PreparedTransaction
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.connect import connect
from ottla.transactions.admin.descriptions import described
from ottla.transactions.coordinator_request import InitProducerId
from ottla.transactions.transaction_requests import EndTxn
from ottla_spark.exactly_once import accept_loss, adopt, forget
from ottla_spark.exactly_once.driver.cluster import TransactionOutcome
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import MOVED, Entry, Status, Step, next_step
from ottla_spark.exactly_once.ledger.lease import Lease, lease_id
from ottla_spark.exactly_once.ledger.places import partition_of
from ottla_spark.exactly_once.ledger.topic import CONFIG, LedgerTopic
from ottla_spark.exactly_once.settings import EARLIER_TOPIC, Settings
from ottla_spark.exactly_once.status import ledger_status
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_true, committed, new_id, read, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 8
QUICKLY = {
    "transactional.id.expiration.ms": 5_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
    "producer.id.expiration.ms": 5_000,
    "producer.id.expiration.check.interval.ms": 200,
}
LAST_EPOCH = 32_766


@pytest.fixture
def name() -> str:
    return new_id()


@pytest.fixture
def shared(kafka: KafkaCluster) -> str:
    """A ledger topic that several prefixes write to."""
    topic = f"shared-{new_id()}"
    kafka.create_topic(topic, partitions=PARTITIONS, config=CONFIG)
    return topic


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = new_id()
    kafka.create_topic(name, partitions=3)
    return name


@contextmanager
def driver(given: Settings) -> Iterator[KafkaClusterClient]:
    cluster = KafkaClusterClient(given)
    try:
        yield cluster
    finally:
        cluster.close()


def written(kafka: KafkaCluster, given: Settings, topic: str, *, batch: int = 0) -> PreparedTransaction:
    """One batch from its plan to its end."""
    with driver(given) as cluster:
        planned = plan(cluster, given.name)
        prepared = prepare(kafka, topic, given.name, batch)
        commit(cluster, attempts(planned, prepared, batch=batch), batch=batch)
        return prepared


def planned_last(given: Settings) -> Entry | None:
    """The ledger that a driver finds that starts now."""
    with driver(given) as cluster:
        return plan(cluster, given.name).last


def put(kafka: KafkaCluster, topic: str, name: str, value: bytes, **producer: Any) -> None:
    """A record under another query's name, where its reader finds it."""
    partition = partition_of(name, PARTITIONS)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, **producer) as other_client:
        if "transactional_id" not in producer:
            other_client.send(topic, value, name.encode(), partition=partition).result(60)
            return
        other_client.init_transactions()
        with other_client.transaction():
            other_client.send(topic, value, name.encode(), partition=partition)


def options(kafka: KafkaCluster, name: str, **more: str) -> dict[str, str]:
    own = {key.replace("_", "."): value for key, value in more.items()}
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "transactional.id.prefix": name, **own}


# Entries of other clients


@pytest.mark.parametrize("status", list(Status))
def test_an_entry_outside_of_a_transaction_does_not_count(
    kafka: KafkaCluster, shared: str, name: str, status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    put(kafka, shared, name, entry(status=status).to_bytes())
    last = planned_last(settings(kafka, name, ledger_topic=shared))

    assert last is None
    assert "has the key of this name but belongs to no transaction" in caplog.text


def test_an_entry_in_a_foreign_transaction_does_not_replace_ours(
    kafka: KafkaCluster, shared: str, name: str, topic: str
) -> None:
    given = settings(kafka, name, ledger_topic=shared)
    mine = written(kafka, given, topic)
    put(kafka, shared, name, entry(batch=7, status=Status.DONE).to_bytes(), transactional_id=new_id())

    assert planned_last(given) == entry(mine, status=Status.DONE)


def test_an_entry_of_unknown_origin_is_refused_until_forgotten(kafka: KafkaCluster, shared: str, name: str) -> None:
    given = settings(kafka, name, ledger_topic=shared)
    put(kafka, shared, name, entry(status=Status.DONE).to_bytes(), transactional_id=new_id())
    with pytest.raises(LedgerMismatchError, match=r"brokers no longer know .*\.adopt\. If not, .*\.forget"):
        planned_last(given)
    seen = str(ledger_status(options(kafka, name, ledger_topic=shared)))
    forget(options(kafka, name, ledger_topic=shared))

    assert "the next driver refuses it" in seen
    assert planned_last(given) is None


def test_a_second_batch_in_our_own_transaction_does_not_count(kafka: KafkaCluster, shared: str, name: str) -> None:
    """Brokers accept it from any client: they verify the first batch of a transaction only (KIP-890)."""
    given = settings(kafka, name, ledger_topic=shared)
    forged = entry(batch=9, status=Status.DONE).to_bytes()
    with driver(given) as cluster, wire(kafka) as client:
        lease = plan(cluster, name).lease
        other_client = new_id()
        client.run(InitProducerId(transactional_id=other_client, timeout_ms=60_000), other_client)
        too_early = produce(client, shared, lease, forged, sequence=0, claims=other_client)
        honest = produce(client, shared, lease, entry(status=Status.VOID).to_bytes(), sequence=0, claims=lease_id(name))
        behind = produce(client, shared, lease, forged, sequence=1, claims=other_client)
        producer_id_and_epoch = ProducerIdAndEpoch(id=lease.producer_id, epoch=lease.epoch)
        client.run(
            EndTxn(
                transactional_id=lease_id(name), producer_id_and_epoch=producer_id_and_epoch, commit=True, txn_v2=True
            ),
            lease_id(name),
        )
        last = plan(cluster, name).last

    assert too_early is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (honest, behind) == (ErrorCode.NONE, ErrorCode.NONE)
    assert last == entry(status=Status.VOID)


def test_a_foreign_transaction_is_never_ended_for_an_entry(kafka: KafkaCluster, name: str, topic: str) -> None:
    """Not even where the entry is written with the rights of the name."""
    given = settings(kafka, name)
    with transactional(kafka, "payments-of-another-team") as payments:
        payments.init_transactions()
        payments.begin_transaction()
        payments.send(topic, b"to be aborted", partition=0)
        foreign = payments.prepare_transaction()
    with driver(given) as cluster:
        cluster.append(plan(cluster, name).lease, entry(foreign))
        with pytest.raises(LedgerMismatchError, match=r"is not a transactional id of"):
            plan(cluster, name)
        outcome = cluster.statuses([foreign])[0].outcome
        cluster.end(foreign, commit=False)
    forget(options(kafka, name))

    assert outcome is TransactionOutcome.OPEN
    assert committed(kafka, topic) == [[], [], []]
    assert planned_last(given) is None


# Topics that other clients fill


@pytest.mark.parametrize(
    ("value", "producer"),
    [
        (b"{not json", {}),
        (b"[" * 100_000, {}),
        (b"x" * 1000, {"compression_type": "lz4"}),
        (b"x" * 1000, {"compression_type": "zstd"}),
        (b"x" * 1000, {"compression_type": "lz4", "transactional_id": "another client's"}),
    ],
)
def test_unreadable_records_stop_no_query(
    kafka: KafkaCluster, shared: str, name: str, topic: str, value: bytes, producer: dict[str, Any]
) -> None:
    given = settings(kafka, name, ledger_topic=shared)
    put(kafka, shared, name, value, **producer)
    mine = written(kafka, given, topic)
    put(kafka, shared, name, value, **producer)

    assert planned_last(given) == entry(mine, status=Status.DONE)
    with pytest.raises(LedgerMismatchError, match="nothing to accept"):
        accept_loss(options(kafka, name, ledger_topic=shared))
    assert forget(options(kafka, name, ledger_topic=shared)) == entry(mine, status=Status.DONE)
    assert planned_last(given) is None


def test_an_open_foreign_transaction_delays_no_driver(kafka: KafkaCluster, shared: str, name: str, topic: str) -> None:
    given = settings(kafka, name, ledger_topic=shared)
    with transactional(kafka, transaction_timeout_ms=600_000) as other_client:
        other_client.init_transactions()
        other_client.begin_transaction()
        other_client.send(shared, b"", name.encode(), partition=partition_of(name, PARTITIONS)).result(60)
        began = time.monotonic()
        mine = written(kafka, given, topic)
        last = planned_last(given)
        took = time.monotonic() - began
        other_client.abort_transaction()

    assert last == entry(mine, status=Status.DONE)
    assert took < 100, "drivers are patient for 120 s"


@pytest.mark.thorough("test_compressors_bombs.py bounds each codec, without a broker")
def test_decompression_bombs_take_no_memory(kafka: KafkaCluster, shared: str, name: str, topic: str) -> None:
    """Batches of 100 MB, each of which comes in a tenth of a megabyte: twenty, or six in the short form."""
    bomb: dict[str, Any] = {"compression_type": "gzip", "max_request_size": 300_000_000, "buffer_memory": 400_000_000}
    for key in (name, "another name"):
        with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=1, **bomb) as other_client:
            for _ in range(10 if LONG else 3):
                other_client.send(
                    shared, bytes(100_000_000), key.encode(), partition=partition_of(name, PARTITIONS)
                ).result(60)
    before = resident_megabytes()
    written(kafka, settings(kafka, name, ledger_topic=shared), topic)
    plan_again = planned_last(settings(kafka, name, ledger_topic=shared))

    assert plan_again is not None
    assert resident_megabytes() - before < 30


# Ledgers of earlier versions


def earlier(kafka: KafkaCluster, name: str) -> Settings:
    """As versions before had it: one topic for everybody."""
    topic = LedgerTopic(name=EARLIER_TOPIC, partitions=PARTITIONS, replication=-1)
    return attrs.evolve(settings(kafka, name), topic=topic, earlier="")


def test_an_entry_of_an_earlier_version_moves_to_the_own_topic(kafka: KafkaCluster, name: str, topic: str) -> None:
    mine = written(kafka, earlier(kafka, name), topic)
    first, second = planned_last(settings(kafka, name)), planned_last(settings(kafka, name, ledger_earlier_topic=""))

    assert first == second == entry(mine, status=Status.DONE)
    assert next_step(first, name=name, query="q", batch=0) is Step.SKIP
    assert committed(kafka, topic) == [[b"0"]] * 3


def test_a_batch_recorded_by_an_earlier_version_is_finished(kafka: KafkaCluster, name: str, topic: str) -> None:
    given = earlier(kafka, name)
    with driver(given) as cluster:
        lease = plan(cluster, name).lease
        mine = prepare(kafka, topic, name, 0)
        cluster.append(lease, entry(mine))
    last = planned_last(settings(kafka, name))

    assert last == entry(mine, status=Status.DONE)
    assert committed(kafka, topic) == [[b"0"]] * 3


@pytest.mark.generations("all", since="3.0")
def test_an_earlier_ledger_continues_with_every_version_of_brokers(broker: KafkaCluster, name: str) -> None:
    """Before transaction.version 2 records are numbered through all transactions of an epoch, in each partition."""
    topic = new_id()
    broker.create_topic(topic, partitions=3)
    written(broker, earlier(broker, name), topic)
    for batch in (1, 2):
        mine = written(broker, settings(broker, name), topic, batch=batch)

    assert planned_last(settings(broker, name)) == entry(mine, batch=2, status=Status.DONE)
    assert committed(broker, topic) == [[b"0", b"1", b"2"]] * 3


def test_an_earlier_version_refuses_a_ledger_that_was_taken_over(kafka: KafkaCluster, name: str, topic: str) -> None:
    """It reads a form that it does not know, and does not go on."""
    mine = written(kafka, earlier(kafka, name), topic)
    planned_last(settings(kafka, name))
    later = written(kafka, settings(kafka, name), topic, batch=1)
    values = read(kafka.bootstrap_servers, EARLIER_TOPIC, partitions=PARTITIONS)[partition_of(name, PARTITIONS)]
    with pytest.raises(LedgerMismatchError, match=r"its format version is .*2.*, not 1"):
        planned_last(earlier(kafka, name))

    assert MOVED in values[values.index(entry(mine, status=Status.DONE).to_bytes()) :]  # and others' before it
    assert planned_last(settings(kafka, name)) == entry(later, batch=1, status=Status.DONE)


def test_a_forgotten_entry_does_not_return_from_the_earlier_topic(kafka: KafkaCluster, name: str, topic: str) -> None:
    mine = written(kafka, earlier(kafka, name), topic)
    forgotten = forget(options(kafka, name))

    assert forgotten == entry(mine, status=Status.DONE)
    assert planned_last(settings(kafka, name)) is None


def test_a_plain_entry_in_the_earlier_topic_makes_no_job_skip_its_rows(
    kafka: KafkaCluster, name: str, topic: str
) -> None:
    written(kafka, earlier(kafka, new_id()), topic)  # makes the topic
    put(kafka, EARLIER_TOPIC, name, entry(status=Status.DONE).to_bytes())

    assert planned_last(settings(kafka, name)) is None


# Ids that brokers have forgotten, or given out to the last


@pytest.fixture(scope="module")
def forgetful() -> Iterator[KafkaCluster]:
    """A broker that remembers ids for five seconds after their last use."""
    with KafkaCluster(config=QUICKLY) as kafka:
        yield kafka


def await_expiry(kafka: KafkaCluster, *transactional_ids: str) -> None:
    """Until the broker knows none of them."""
    with wire(kafka) as client:
        await_true(lambda: all(described(client, each) is None for each in transactional_ids))


@pytest.mark.thorough("needs a broker that forgets ids")
def test_expired_ids_duplicate_and_skip_nothing_in_an_own_topic(forgetful: KafkaCluster, name: str) -> None:
    topic = new_id()
    forgetful.create_topic(topic, partitions=3)
    given = settings(forgetful, name)
    batches = 3 if LONG else 2
    for batch in range(batches):
        mine = written(forgetful, given, topic, batch=batch)
        await_expiry(forgetful, lease_id(name), mine.transactional_id)
        last = planned_last(given)

        assert last == entry(mine, batch=batch, status=Status.DONE)
        assert next_step(last, name=name, query="q", batch=batch) is Step.SKIP
        assert next_step(last, name=name, query="q", batch=batch + 1) is Step.WRITE
    assert committed(forgetful, topic) == [[b"%d" % batch for batch in range(batches)]] * 3


@pytest.mark.thorough("needs a broker that forgets ids")
@pytest.mark.parametrize("place", ["shared", "earlier"])
def test_expired_ids_in_a_shared_topic_need_a_decision(forgetful: KafkaCluster, name: str, place: str) -> None:
    """The entry may be another client's, so no row is skipped or written before a user has decided."""
    topic, shared = new_id(), f"shared-{new_id()}"
    forgetful.create_topic(topic, partitions=3)
    more = {"ledger_topic": shared} if place == "shared" else {}
    before = settings(forgetful, name, **more) if more else earlier(forgetful, name)
    mine = written(forgetful, before, topic)
    await_expiry(forgetful, lease_id(name), mine.transactional_id)
    for _ in range(2):
        with pytest.raises(
            LedgerMismatchError, match=f"of producer id .*{'ledger.shared=false' if more else 'earlier.topic'}"
        ):
            planned_last(settings(forgetful, name, **more))
    adopted = adopt(options(forgetful, name, **more))
    last = planned_last(settings(forgetful, name, **more))

    assert adopted == last == entry(mine, status=Status.DONE)
    assert committed(forgetful, topic) == [[b"0"]] * 3


@pytest.mark.thorough("needs a broker that forgets ids")
@only_long("32,000 epochs take a minute")
@pytest.mark.parametrize("is_shared", [False, True])
def test_rolled_over_producer_ids_duplicate_and_skip_nothing(
    kafka: KafkaCluster, shared: str, name: str, topic: str, is_shared: bool
) -> None:
    """Whatever step uses up the last epoch: the lease taken, the batch recorded, or its end noted."""
    given = settings(kafka, name, **({"ledger_topic": shared} if is_shared else {}))
    with wire(kafka) as client:
        request = InitProducerId(transactional_id=lease_id(name), timeout_ms=30_000)
        while (answer := client.run(request, lease_id(name)).response).producer_epoch < LAST_EPOCH - 12:
            pass
    ids = {answer.producer_id}
    for batch in range(8):
        mine = written(kafka, given, topic, batch=batch)
        with driver(given) as cluster:
            again = plan(cluster, name)
        ids.add(again.lease.producer_id)
        assert again.last == entry(mine, batch=batch, status=Status.DONE)

    assert len(ids) == 2
    assert committed(kafka, topic) == [[b"%d" % batch for batch in range(8)]] * 3


# Requests of the other client


@contextmanager
def wire(kafka: KafkaCluster) -> Iterator[BlockingClient]:
    """Requests that no real client would send."""
    connections = connect({"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": "1"})
    client = BlockingClient(connections, timeout=300)
    client.brokers()
    try:
        yield client
    finally:
        connections.client.shutdown()


def produce(client: BlockingClient, topic: str, lease: Lease, value: bytes, *, sequence: int, claims: str) -> ErrorCode:
    """A transactional batch with the lease's producer id, by the user of the transactional id *claims*."""
    key, now = lease.name.encode(), time.time_ns() // 1_000_000
    section = encode_records(
        keys=[key],
        values=[value],
        headers=None,
        timestamps=Timestamps.of([now]),
        key_sizes=[len(key)],
        value_sizes=[len(value)],
        nulls=False,
    )
    header = batch_header(
        [section],
        codec_id=0,
        first_timestamp=now,
        max_timestamp=now,
        count=1,
        producer_id=lease.producer_id,
        epoch=lease.epoch,
        sequence=sequence,
        transactional=True,
    )
    partition = PartitionProduceData(index=partition_of(lease.name, PARTITIONS), records=header + section)
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    request = ProduceRequest(transactional_id=claims, acks=-1, timeout_ms=30_000, topic_data=data)
    answer = client.ask(1, PRODUCE, lambda _version: request, floor=12, ceiling=12)
    return error_code(answer.responses[0].partition_responses[0].error_code)


def resident_megabytes() -> int:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
