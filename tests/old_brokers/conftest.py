"""One broker of each older Kafka, shared by the tests that run on it."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import Final

import pytest
from clusters_by_version import ClustersByVersion
from old_brokers.broker_log import errors_in

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.pytest_plugin import MakeTopic, go_without

_numbers = itertools.count()


def version(item: pytest.Item) -> str | None:
    """Return the version that a test's mark names."""
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get("old_kafka")


def expect_no_errors(version: str, cluster: KafkaCluster) -> None:
    """Once all tests with a broker are done, its log must have no error."""
    errors = [(version, line) for line in errors_in(cluster.log(1))]
    assert errors == []


OLD: Final = ClustersByVersion(version, expect_no_errors)


def pytest_collection_finish(session: pytest.Session) -> None:
    OLD.count(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Close a broker after the last test that uses it."""
    try:
        return (yield)
    finally:
        OLD.leave(item)


@pytest.fixture(scope="session")
def running() -> Iterator[dict[str, KafkaCluster]]:
    """The brokers that were needed so far, by version; each is started once, as tests come in any order."""
    yield OLD.running
    OLD.close()


@pytest.fixture
def old_kafka(request: pytest.FixtureRequest, running: dict[str, KafkaCluster]) -> KafkaCluster:
    """A broker of the version that the test's mark names; once all tests are done, its log must have no error."""
    version: str = request.param
    if version not in running:
        try:
            running[version] = KafkaCluster(version=version).__enter__()
        except KafkaUnavailableError as error:
            go_without(error)
    return running[version]


@pytest.fixture
def make_old_topic(old_kafka: KafkaCluster) -> MakeTopic:
    """Creates a topic on the old broker and returns its name."""

    def make(partitions: int = 1, **config: Setting) -> str:
        name = f"topic-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        old_kafka.create_topic(name, partitions=partitions, config=settings)
        return name

    return make
