"""Connections that are kept between batches and jobs. No broker: a connection is made only for a request."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.config import PluginValues
from ottla_spark.exactly_once.kafka import client_cache
from ottla_spark.exactly_once.kafka.client_cache import MAX_CLIENTS, connected
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.topic import LedgerTopic
from ottla_spark.exactly_once.settings import Settings


class Watched(KafkaClusterClient):
    """Brokers that know whether they are closed."""

    closed = False

    def close(self) -> None:
        self.closed = True
        super().close()


def settings(job: object) -> Settings:
    return Settings(
        name=f"orders/job/{job}",
        topic=LedgerTopic(name="ledger", partitions=1, replication=1),
        producer=PluginValues({"bootstrap.servers": "127.0.0.1:1"}),
        timeout_ms=None,
    )


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Watched]]:
    """Begin without brokers, and close what a test leaves."""
    each_made: list[Watched] = []

    def make(given: Settings) -> Watched:
        each_made.append(Watched(given))
        return each_made[-1]

    monkeypatch.setattr(client_cache, "_caches", {})
    monkeypatch.setattr(client_cache, "KafkaClusterClient", make)
    yield each_made
    for each in each_made:
        if not each.closed:
            each.close()


def asked(job: object) -> KafkaClusterClient:
    """The brokers of a job that was through without a fault."""
    with connected(settings(job)) as brokers:
        return brokers


def test_the_next_batch_uses_the_same_client() -> None:
    assert asked("a") is asked("a")


def test_another_job_uses_another_client() -> None:
    assert asked("a") is not asked("b")


def test_many_jobs_keep_few_files_open() -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    for job in range(MAX_CLIENTS):
        asked(job)
    before = files()
    for job in range(50):
        asked(f"another {job}")

    assert files() == before


def test_the_most_recently_used_clients_are_kept(made: list[Watched]) -> None:
    for job in [*range(MAX_CLIENTS), 0, "another"]:
        asked(job)

    assert [each.closed for each in made] == [False, True] + [False] * (MAX_CLIENTS - 1)
    assert asked(0) is made[0]


def test_a_client_in_use_is_never_closed(made: list[Watched]) -> None:
    with connected(settings("long")):
        for job in range(MAX_CLIENTS + 3):
            asked(job)
        assert not made[0].closed

    assert asked("long") is made[0]


def test_a_client_is_used_by_one_thread_at_a_time(made: list[Watched]) -> None:
    all_threads = threading.Barrier(MAX_CLIENTS + 2)

    def ask(_: int) -> KafkaClusterClient:
        with connected(settings("same")) as brokers:
            all_threads.wait(20)
            return brokers

    with ThreadPoolExecutor(MAX_CLIENTS + 2) as pool:
        found = set(pool.map(ask, range(MAX_CLIENTS + 2)))

    assert len(found) == MAX_CLIENTS + 2
    assert sum(not each.closed for each in made) == MAX_CLIENTS


def test_a_client_is_closed_after_a_failure_and_not_used_again(made: list[Watched]) -> None:
    with pytest.raises(RuntimeError, match="lost"), connected(settings("a")):
        raise RuntimeError("lost")

    assert made[0].closed
    assert asked("a") is not made[0]
