"""Requests of the process that plans a write. No Spark runs here."""

from __future__ import annotations

from ottla.protocol.messages.api_versions import API_VERSIONS
from ottla.protocol.messages.metadata import METADATA
from ottla_spark.options.options import read_options
from ottla_spark.sink.topics import check_topics
from ottla_testkit.mock_cluster import MockCluster


def test_the_check_of_topics_makes_one_connection(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("planned", partitions=2)
    mock_cluster.start_tracking()

    check_topics(
        read_options({"kafka.bootstrap.servers": mock_cluster.bootstrap_servers, "topic": "planned"}, problems=[])
    )

    first = [request.api_key for request in mock_cluster.requests()]
    assert METADATA.key in first
    assert set(first[first.index(METADATA.key) :]) == {METADATA.key}, "no handshake of a second connection"
    assert API_VERSIONS.key == first[0]
