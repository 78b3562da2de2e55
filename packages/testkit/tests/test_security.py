"""The parts of a secure cluster, without starting one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import LISTENERS, Security
from ottla_testkit.processes.free_ports import HOST

PASSWORD = "secret-of-alice"


@pytest.fixture
def security(tmp_path: Path) -> Security:
    return Security(folder=tmp_path, users={"alice": PASSWORD})


def test_passwords_are_not_shown(security: Security) -> None:
    assert "alice" in repr(security)
    assert PASSWORD not in repr(security)


def test_every_listener_has_its_own_port(security: Security) -> None:
    assert len({security.ports[name] for name in LISTENERS}) == len(LISTENERS)


def test_tokens_require_an_issuer_that_signs_them(security: Security) -> None:
    settings = security.broker_settings(
        {"listeners": "", "advertised.listeners": "", "listener.security.protocol.map": ""}
    )

    assert settings["sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    assert not any("oauthbearer" in key for key in settings)


@pytest.mark.parametrize("kind", [{"nodes": 3}, {"version": "2.8.2"}])
def test_a_cluster_that_cannot_have_secure_listeners_says_so(security: Security, kind: dict[str, object]) -> None:
    with pytest.raises(ClusterError, match="only on a single node of Kafka"):
        KafkaCluster(security=security, **kind)  # type: ignore[arg-type]


@pytest.mark.thorough("the gate has it without security, in test_kafka_cluster.py")
@pytest.mark.kafka
def test_a_port_that_another_process_has_taken_is_not_used(security: Security) -> None:
    taken = security.ports["MUTUAL"]

    with socket.create_server((HOST, taken)), KafkaCluster(security=security) as kafka:
        assert kafka.listener("MUTUAL") != f"{HOST}:{taken}"
