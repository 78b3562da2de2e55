"""TLS and authentication at a broker before 4.0."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import MECHANISMS, Security
from readback import read_back
from secure_broker import USERS, SecureBroker

pytestmark = [pytest.mark.kafka, pytest.mark.thorough("the gate has each mechanism with today's broker")]


@pytest.fixture(scope="module")
def older(secure: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker before 4.0, with the identities of the other one."""
    security = Security(folder=tmp_path_factory.mktemp("older"), users=USERS, identity=secure.identity)
    with KafkaCluster(version="3.9.1", security=security) as kafka:
        yield SecureBroker(kafka=kafka, security=security, identity=secure.identity)


@pytest.mark.parametrize("encrypted", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_older_broker_accepts_the_login(older: SecureBroker, mechanism: str, encrypted: bool) -> None:
    topic = f"older-{uuid.uuid4().hex[:12]}"
    older.kafka.create_topic(topic)

    with Producer(older.sasl(mechanism, encrypted=encrypted)) as producer:
        producer.send(topic, b"value")

    assert [record.value for record in read_back(older.kafka.bootstrap_servers, topic)] == [b"value"]
