"""Every way in that a real broker has: records go through it and are read back by a client that is not ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from long_forms import share

from ottla import Producer
from ottla_testkit.kafka_cluster.security import MECHANISMS
from readback import read_back
from secure_broker import ODD_PASSWORD, SecureBroker

pytestmark = pytest.mark.kafka

RECORDS = 10_000


def send_and_read_back(secure: SecureBroker, settings: dict[str, Any], records: int = RECORDS) -> None:
    topic = f"secure-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic, partitions=2)
    values = [b"%d" % number for number in range(records)]

    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value, key=value)

    found = read_back(secure.kafka.bootstrap_servers, topic, partitions=2)
    assert sorted(record.value or b"" for record in found) == sorted(values)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_are_sent_over_tls(secure: SecureBroker, codec: str) -> None:
    send_and_read_back(secure, secure.tls() | {"compression.type": codec})


def test_records_are_sent_over_tls_with_a_client_certificate(secure: SecureBroker) -> None:
    send_and_read_back(secure, secure.mutual_tls())


@pytest.mark.parametrize("encrypted", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_are_sent_after_a_login(secure: SecureBroker, mechanism: str, encrypted: bool) -> None:
    send_and_read_back(secure, secure.sasl(mechanism, encrypted=encrypted))


@pytest.mark.parametrize("encrypted", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_one_connection_and_login_suffice_for_one_broker(secure: SecureBroker, encrypted: bool) -> None:
    """The connection to the bootstrap server is that of the broker, which advertises the same address."""
    topic = f"secure-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)

    with Producer(secure.sasl("SCRAM-SHA-256", encrypted=encrypted)) as producer:
        producer.send(topic, b"first").result(timeout=30)
        metrics = {each.name: value for each, value in producer.metrics().items() if each.group == "producer-metrics"}

    assert metrics["connection-creation-total"] == 1
    assert metrics["successful-authentication-total"] == 1


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_version_of_tls_carries_large_records(secure: SecureBroker, version: str) -> None:
    topic = f"secure-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)
    values = [bytes([number]) * 900_000 for number in range(20)]

    with Producer(secure.tls() | {"ssl.enabled.protocols": version}) as producer:
        for value in values:
            producer.send(topic, value)

    assert [record.value for record in read_back(secure.kafka.bootstrap_servers, topic)] == values


@pytest.mark.parametrize(
    "mechanism", share(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], gate=1, why="the gate has one kind of SCRAM")
)
def test_a_password_is_sent_unchanged(secure: SecureBroker, mechanism: str) -> None:
    bob = {"sasl.username": "bob", "sasl.password": ODD_PASSWORD}

    send_and_read_back(secure, secure.sasl(mechanism, encrypted=True) | bob, records=10)


def test_a_jaas_config_is_accepted(secure: SecureBroker) -> None:
    settings = secure.sasl("SCRAM-SHA-512", encrypted=True)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    user, password = settings.pop("sasl.username"), settings.pop("sasl.password")

    send_and_read_back(
        secure,
        settings | {"sasl.jaas.config": f'{module} required username="{user}" password="{password}";'},
        records=10,
    )


def test_the_authority_may_be_given_as_text(secure: SecureBroker) -> None:
    settings = secure.tls()
    text = secure.security.certificates.authority.read_text()
    del settings["ssl.truststore.location"]

    send_and_read_back(secure, settings | {"ssl.truststore.certificates": text}, records=10)
