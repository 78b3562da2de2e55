import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla_testkit.kafka_cluster.node_settings import (
    Setting,
    kraft_settings,
    properties_text,
    text,
    zookeeper_broker_settings,
    zookeeper_settings,
)

DATA = Path("data1")
BY_KRAFT = kraft_settings(1, port=11, controllers={1: 21, 2: 22}, data=DATA)
ZOOKEEPER_BROKER = zookeeper_broker_settings(1, port=11, zookeeper=31, nodes=2, data=DATA)


def test_a_kraft_node_knows_every_controller() -> None:
    assert BY_KRAFT["node.id"] == 1
    assert BY_KRAFT["controller.quorum.voters"] == "1@127.0.0.1:21,2@127.0.0.1:22"
    assert BY_KRAFT["listeners"] == "PLAINTEXT://127.0.0.1:11,CONTROLLER://127.0.0.1:21"
    assert not [key for key in BY_KRAFT if "zookeeper" in key]


def test_a_zookeeper_broker_has_no_kraft_settings() -> None:
    assert ZOOKEEPER_BROKER["broker.id"] == 1
    assert ZOOKEEPER_BROKER["zookeeper.connect"] == "127.0.0.1:31"
    assert ZOOKEEPER_BROKER["listeners"] == "PLAINTEXT://127.0.0.1:11"
    assert not ZOOKEEPER_BROKER.keys() & {"process.roles", "node.id", "listener.security.protocol.map"}
    assert not [key for key in ZOOKEEPER_BROKER if key.startswith(("controller.", "broker.heartbeat", "share."))]


@pytest.mark.parametrize("settings", [BY_KRAFT, ZOOKEEPER_BROKER])
def test_kraft_and_zookeeper_brokers_have_the_same_test_settings(settings: Mapping[str, Setting]) -> None:
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:11"
    assert settings["log.dirs"] == "data1"
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["offsets.topic.replication.factor"] == 2


@pytest.mark.parametrize("settings", [BY_KRAFT, ZOOKEEPER_BROKER])
def test_records_of_any_timestamp_stay_in_their_topic(settings: Mapping[str, Setting]) -> None:
    assert settings["log.retention.ms"] == -1


def test_every_listener_is_bound_to_this_machine_only() -> None:
    zookeeper = zookeeper_settings(port=31, data=DATA)

    assert (zookeeper["clientPort"], zookeeper["clientPortAddress"]) == (31, "127.0.0.1")
    assert zookeeper["admin.enableServer"] == "false"
    for settings in (BY_KRAFT, ZOOKEEPER_BROKER):
        hosts = re.findall(r"(?:://|@)([^:]+):", properties_text(settings))
        assert set(hosts) == {"127.0.0.1"}


def test_zookeeper_accepts_the_session_timeout_of_brokers() -> None:
    tick, session = zookeeper_settings(port=31, data=DATA)["tickTime"], ZOOKEEPER_BROKER["zookeeper.session.timeout.ms"]

    assert 2 * int(tick) <= int(session) <= 20 * int(tick)


def test_settings_are_written_as_java_reads_them() -> None:
    assert properties_text({"a": 1, "b": True}) == "a=1\nb=true\n"
    assert text(r"C:\data") == r"C:\\data"
