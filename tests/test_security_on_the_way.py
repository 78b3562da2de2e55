"""TLS and a login through a proxy, at an older broker, and as the doctor sees them."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.from_thread import start_blocking_portal
from tiny_proxy import Socks5ProxyHandler

from ottla import Producer
from ottla.doctor import Step, Verdict, examine
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.security import MECHANISMS, Security
from readback import read_back
from secure_broker import USERS, SecureBroker

pytestmark = pytest.mark.kafka

TIMEOUT = 60.0


@pytest.fixture
def proxy() -> Iterator[str]:
    """The address of a SOCKS5 server that is not ours."""
    with start_blocking_portal() as portal:
        listener: Any = portal.call(functools.partial(anyio.create_tcp_listener, local_host="127.0.0.1"))
        served = portal.start_task_soon(listener.serve, Socks5ProxyHandler().handle)
        yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        served.cancel()
        portal.call(listener.aclose)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_tls_and_a_login_go_through_a_proxy(secure: SecureBroker, proxy: str, mechanism: str) -> None:
    topic = f"proxied-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)
    values = [b"%d" % number for number in range(1000)]

    settings = secure.sasl(mechanism, encrypted=True) | {"connection.via": "socks5", "socks5.proxy": proxy}
    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value)

    assert [record.value for record in read_back(secure.kafka.bootstrap_servers, topic)] == values


@pytest.fixture(scope="module")
def older(secure: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker before 4.0, with the identities of the other one."""
    security = Security(folder=tmp_path_factory.mktemp("older"), users=USERS, identity=secure.identity)
    with KafkaCluster(version="3.9.1", security=security) as kafka:
        yield SecureBroker(kafka=kafka, security=security, identity=secure.identity)


@pytest.mark.parametrize("encrypted", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_older_broker_lets_us_in(older: SecureBroker, mechanism: str, encrypted: bool) -> None:
    topic = f"older-{uuid.uuid4().hex[:12]}"
    older.kafka.create_topic(topic)

    with Producer(older.sasl(mechanism, encrypted=encrypted)) as producer:
        producer.send(topic, b"value")

    assert [record.value for record in read_back(older.kafka.bootstrap_servers, topic)] == [b"value"]


def test_the_doctor_tells_of_tls_and_of_the_login(secure: SecureBroker) -> None:
    topic = f"examined-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)

    settings = secure.sasl("SCRAM-SHA-256", encrypted=True)
    examination = examine(settings, topic=topic, send=True, timeout=TIMEOUT)

    assert {finding.verdict for finding in examination.findings} == {Verdict.OK}
    said = {finding.step: finding.said for finding in examination.findings}
    assert "TLSv1.3" in said[Step.TLS]
    assert "alice" in said[Step.SASL]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_doctor_finds_a_wrong_password_at_the_login(secure: SecureBroker, mechanism: str) -> None:
    settings = secure.sasl(mechanism, encrypted=True) | {"sasl.password": "secret-that-is-wrong"}
    examination = examine(settings, timeout=TIMEOUT)

    assert examination.cause is not None
    assert examination.cause.step is Step.SASL
    assert "alice" in examination.cause.said


def test_the_doctor_finds_an_unknown_authority_in_the_handshake(secure: SecureBroker) -> None:
    stranger = str(secure.security.certificates.another_authority)
    examination = examine(secure.tls() | {"ssl.truststore.location": stranger}, timeout=TIMEOUT)

    assert examination.cause is not None
    assert examination.cause.step is Step.HANDSHAKE
    assert "O=Ottla tests" in examination.cause.said
    assert "ssl.truststore.location" in examination.cause.remedy


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_doctor_finds_that_a_certificate_of_ours_is_wanted(secure: SecureBroker, version: str) -> None:
    """In the newer version the broker says so only after the handshake."""
    examination = examine(secure.tls("MUTUAL") | {"ssl.enabled.protocols": version}, timeout=TIMEOUT)

    assert examination.cause is not None
    assert "wants a certificate from us" in examination.cause.said
    assert "ssl.keystore.location" in examination.cause.remedy
