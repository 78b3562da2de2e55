"""Requests of the process that plans a write. No Spark runs here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ottla.protocol.messages.api_versions import API_VERSIONS
from ottla.protocol.messages.metadata import METADATA
from ottla_spark.options.options import read_options
from ottla_spark.sink import topics
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


def test_topics_are_checked_again_some_time_after_no_broker_answered(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "REACH", 0.2)
    given = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "planned"}, problems=[])

    check_topics(given)
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 3_600)
    check_topics(given)

    assert len([line for line in caplog.messages if "topics are not checked" in line]) == 2


def test_queries_in_several_threads_remember_their_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `foreachBatch` query runs in a thread of the driver."""
    others: list[threading.Thread] = []

    class Remembered(dict[str, float]):
        def __iter__(self) -> Iterator[str]:
            """Another query is faster than the one that has found the oldest check, unless it has to wait."""
            oldest, *rest = super().__iter__()
            if not others:
                others.append(threading.Thread(target=topics._remember, args=("another", 1.0)))
                others[0].start()
                others[0].join(0.2)
            yield from (oldest, *rest)

    remembered = Remembered({f"topic {number}": 0.0 for number in range(topics.MAX_REMEMBERED)})
    monkeypatch.setattr(topics, "_valid_until", remembered)
    topics._remember("this", 1.0)
    others[0].join()

    assert remembered.keys() >= {"this", "another"}
    assert len(remembered) == topics.MAX_REMEMBERED
