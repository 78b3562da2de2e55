from pathlib import Path

import pytest

from ottla_testkit.kafka_cluster.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(1, folder=tmp_path, port=9, command=["true"])


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 08:46:08,302 INFO [Kafka Server 1], started (kafka.server.KafkaServer)",
        "[main] INFO kafka.server.KafkaServer - [KafkaServer id=1] started",
        "[main] INFO kafka.server.KafkaRaftServer - [KafkaRaftServer nodeId=1] Kafka Server started",
    ],
)
def test_the_log_line_of_a_started_broker_is_found_in_every_version(node: Node, line: str) -> None:
    node.log_file.write_text("[main] INFO kafka.server.KafkaServer - starting\n")
    assert not node.started

    node.log_file.write_text(line)
    assert node.started


def test_the_partitions_of_a_node_are_found_by_their_folders(node: Node) -> None:
    for name in ("a-0", "a-11", "with-dash-3", "__cluster_metadata-0", "gone-0.6cd1f2-delete", "plain"):
        (node.data / name).mkdir(parents=True)
    (node.data / "meta-1").touch()

    assert node.kept_partitions == {"a": {0, 11}, "with-dash": {3}}


def test_a_node_that_was_never_started_has_no_partitions(node: Node) -> None:
    assert node.kept_partitions == {}
