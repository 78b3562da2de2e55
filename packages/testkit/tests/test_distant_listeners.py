import time

import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.distant_listeners import DistantListeners
from ottla_testkit.kafka_cluster.node_settings import Setting

confluent_kafka = pytest.importorskip("confluent_kafka")

WITHIN = 30.0
PLAIN: dict[str, Setting] = {"listeners": "PLAINTEXT://here:1", "advertised.listeners": "PLAINTEXT://here:1"}


def test_a_broker_advertises_the_proxy_and_talks_to_others_directly() -> None:
    listeners = DistantListeners([1, 2], round_trip=0.03)

    settings = listeners.broker_settings(2, PLAIN)

    _, second = listeners.bootstrap_servers.split(",")
    assert settings["advertised.listeners"] == f"PLAINTEXT://here:1,DISTANT://{second}"
    assert settings["inter.broker.listener.name"] == "PLAINTEXT"
    assert settings["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,DISTANT:PLAINTEXT"


def test_other_listeners_keep_their_protocols() -> None:
    listeners = DistantListeners([1], round_trip=0.03)

    settings = listeners.broker_settings(1, PLAIN | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SSL"})

    assert settings["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,A:SSL,DISTANT:PLAINTEXT"


def test_a_cluster_without_distance_has_none_to_set() -> None:
    kafka = KafkaCluster()

    assert kafka.round_trip == 0
    with pytest.raises(ClusterError, match="made without round_trip"):
        kafka.round_trip = 0.1


def ports(servers: str) -> set[str]:
    """The brokers' addresses for a client that starts with these servers."""
    client = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    return {f"{broker.host}:{broker.port}" for broker in client.list_topics(timeout=WITHIN).brokers.values()}


def produce(servers: str, topic: str, partition: int) -> float:
    """Seconds until a record is acknowledged, once its producer is connected."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0})
    for _ in range(2):
        started = time.monotonic()
        producer.produce(topic, b"v", partition=partition)
        assert producer.flush(WITHIN) == 0
    return time.monotonic() - started


@pytest.mark.thorough("three nodes; the gate has tests at a distance with one")
@pytest.mark.kafka
def test_every_broker_is_distant_except_through_the_near_listener() -> None:
    with KafkaCluster(nodes=2, round_trip=0.0) as kafka:
        kafka.create_topic("t", partitions=2)
        assert ports(kafka.bootstrap_servers) == set(kafka.bootstrap_servers.split(","))
        assert ports(kafka.near_servers) == set(kafka.near_servers.split(","))

        kafka.round_trip = 1.0
        assert all(produce(kafka.bootstrap_servers, "t", partition) > 0.95 for partition in range(2))
        assert all(kafka.end_offset("t", partition) == 2 for partition in range(2))
        kafka.round_trip = 0.0
        kafka.kill(2)
        kafka.move(2)
        kafka.start(2)
        assert ports(kafka.bootstrap_servers) == set(kafka.bootstrap_servers.split(","))
