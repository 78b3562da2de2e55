import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import KafkaCluster, admin_requests, nodes
from ottla_testkit.processes.free_ports import HOST, free_ports

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.kafka
WITHIN = 30.0
ALL = frozenset({1, 2, 3})


@pytest.fixture(scope="module")
def lone_kafka() -> Iterator[KafkaCluster]:
    """A cluster of one node for the tests that end it."""
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def own_kafka(lone_kafka: KafkaCluster) -> KafkaCluster:
    """A cluster whose only node the test may end; it runs, also if the test before has failed."""
    if lone_kafka.running:
        lone_kafka.resume(1)
    else:
        lone_kafka.start(1)
    return lone_kafka


def quiet(cluster: KafkaCluster, **settings: object) -> dict[str, object]:
    """A configuration of confluent-kafka that logs nothing."""
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **settings}


def produce(cluster: KafkaCluster, topic: str, *values: bytes) -> None:
    producer = confluent_kafka.Producer(quiet(cluster))
    for value in values:
        producer.produce(topic, value, partition=0)

    assert producer.flush(WITHIN) == 0


def read_back(cluster: KafkaCluster, topic: str, *, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(quiet(cluster, **{"group.id": "tests"}))
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, WITHIN)]
    finally:
        consumer.close()


def eventually(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not fact():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_records_that_another_client_produced_are_read_back(
    kafka: KafkaCluster, make_topic: Callable[[int], str]
) -> None:
    topic = make_topic(3)

    produce(kafka, topic, b"a", b"b")

    assert read_back(kafka, topic, count=2) == [b"a", b"b"]
    assert kafka.leader(topic, 2) == 1


def test_the_log_of_a_partition_is_dumped_batch_by_batch(kafka: KafkaCluster, make_topic: Callable[[], str]) -> None:
    topic = make_topic()

    produce(kafka, topic, b"one", b"two")

    dump = kafka.dump_log(topic)
    assert "baseOffset: 0" in dump
    assert "payload: one" in dump
    assert "payload: two" in dump


def test_a_new_topic_can_be_used_at_once(kafka: KafkaCluster, make_topic: Callable[[], str]) -> None:
    for _ in range(5):
        topic = make_topic()

        assert kafka.end_offset(topic) == 0
        assert "Log starting offset: 0" in kafka.dump_log(topic)


def test_the_end_of_a_partition_moves_with_its_records(kafka: KafkaCluster, make_topic: Callable[[int], str]) -> None:
    topic = make_topic(2)

    produce(kafka, topic, b"a", b"b", b"c")

    assert [kafka.end_offset(topic, 0), kafka.end_offset(topic, 1)] == [3, 0]


def test_a_partition_without_a_leader_has_neither_end_nor_files(kafka: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match="nowhere-0 has no leader"):
        kafka.end_offset("nowhere")
    with pytest.raises(ClusterError, match="nowhere-0 has no leader"):
        kafka.dump_log("nowhere")
    with pytest.raises(ClusterError, match="node 1 has no files of nowhere-0"):
        kafka.dump_log("nowhere", node=1)


def test_a_topic_keeps_the_settings_it_was_created_with(kafka: KafkaCluster) -> None:
    kafka.create_topic("tiny", config={"max.message.bytes": 100})

    producer, failures = confluent_kafka.Producer(quiet(kafka)), []
    producer.produce("tiny", b"x" * 1000, on_delivery=lambda error, _: failures.append(error.name()))

    assert producer.flush(WITHIN) == 0
    assert failures == ["MSG_SIZE_TOO_LARGE"]


def test_a_topic_that_kafka_refuses_is_an_error(kafka: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match="cannot create topic 'a/b': error 17"):
        kafka.create_topic("a/b")


def test_a_topic_is_never_created_by_a_request_for_it(kafka: KafkaCluster) -> None:
    assert kafka.leader("never-created") == -1
    assert kafka.leader("never-created") == -1


@pytest.mark.parametrize(
    "end", [KafkaCluster.kill, pytest.param(KafkaCluster.stop, marks=pytest.mark.thorough("the gate kills the node"))]
)
def test_a_stopped_and_restarted_node_keeps_its_data(
    own_kafka: KafkaCluster, end: Callable[[KafkaCluster, int], None]
) -> None:
    topic = f"{end.__name__}-t"
    own_kafka.create_topic(topic)
    produce(own_kafka, topic, b"kept")

    end(own_kafka, 1)

    assert own_kafka.running == []
    with pytest.raises(ClusterError, match="every node is stopped or paused"):
        own_kafka.leader(topic)

    own_kafka.start(1)

    assert own_kafka.running == [1]
    assert read_back(own_kafka, topic, count=1) == [b"kept"]


def test_a_node_that_was_down_restarts_at_another_port_with_its_data(own_kafka: KafkaCluster) -> None:
    topic = "moved-t"
    own_kafka.create_topic(topic)
    produce(own_kafka, topic, b"before")
    old = own_kafka.address(1)
    with pytest.raises(ClusterError, match="node 1 is running"):
        own_kafka.move(1)
    own_kafka.stop(1)

    own_kafka.move(1)
    own_kafka.start(1)

    assert own_kafka.address(1) != old
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, WITHIN)
    assert read_back(own_kafka, topic, count=1) == [b"before"]


def test_a_paused_node_responds_only_after_it_is_resumed(own_kafka: KafkaCluster) -> None:
    topic = "paused-t"
    own_kafka.create_topic(topic)
    producer = confluent_kafka.Producer(quiet(own_kafka))
    producer.produce(topic, b"before")
    assert producer.flush(WITHIN) == 0

    own_kafka.pause(1)
    producer.produce(topic, b"during")

    assert producer.flush(0.5) == 1
    assert own_kafka.running == [1]

    own_kafka.resume(1)

    assert producer.flush(WITHIN) == 0


@pytest.mark.thorough("three nodes; the gate kills leaders in test_idempotence_on_three_brokers.py")
@pytest.mark.slow
def test_another_node_leads_after_the_leader_was_killed() -> None:
    with KafkaCluster(nodes=3) as cluster:
        cluster.create_topic("t", replication=3)
        first = cluster.leader("t")

        cluster.kill(first)

        eventually(lambda: cluster.leader("t") not in (first, -1))
        assert first not in cluster.running
        cluster.start(first)
        assert cluster.running == [1, 2, 3]
        cluster.wait_in_sync("t")
        seen = [admin_requests.metadata(cluster.address(node), topic="t").partitions[0] for node in cluster.nodes]
        assert seen == [admin_requests.Partition(leader=seen[0].leader, replicas=ALL, in_sync=ALL)] * 3


def test_two_clusters_can_exist_at_once(kafka: KafkaCluster, own_kafka: KafkaCluster) -> None:
    own_kafka.create_topic("only-here")

    assert own_kafka.leader("only-here") == 1
    assert kafka.leader("only-here") == -1
    assert kafka.folder != own_kafka.folder


@pytest.mark.thorough("test_command.py ends clusters by signals")
def test_an_interrupt_leaves_no_process_and_no_file() -> None:
    pid, folder = 0, Path()

    def interrupted() -> None:
        nonlocal pid, folder
        with KafkaCluster() as cluster:
            cluster.pause(1)
            pid, folder = cluster.pid(1), cluster.folder
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert is_gone(pid)
    assert not folder.exists()


def test_settings_that_kafka_refuses_fail_the_start_and_leave_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(ClusterError, match=r"num\.network\.threads"):
        KafkaCluster(config={"num.network.threads": -1}).__enter__()

    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_ends_while_starting_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(ClusterError, match=r"node 1 is not ready(.|\n)*no.such.Authorizer"):
        KafkaCluster(config={"authorizer.class.name": "no.such.Authorizer"}).__enter__()

    assert list(tmp_path.iterdir()) == []


def test_a_port_that_was_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as occupied:
        taken = occupied.getsockname()[1]
        answers = iter([[taken, *free_ports(1)], free_ports(2)])
        monkeypatch.setattr(nodes, "free_ports", lambda count: next(answers))

        with KafkaCluster() as cluster:
            assert taken not in cluster.address(1)
            assert cluster.running == [1]
