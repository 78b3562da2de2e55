"""Fixtures: a Kafka near and one at a distance, topics, a mock cluster, a producer without any, a clock.

Loaded by pytest wherever this package is installed, so it imports nothing but pytest until a fixture is used.
What this machine lacks (Java, jars, librdkafka) skips a test with the reason, and fails it where CI is set.
A broker that does not start fails it everywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from ottla_testkit.kafka_cluster import KafkaCluster
    from ottla_testkit.kafka_cluster.node_settings import Setting
    from ottla_testkit.manual_clock import ManualClock
    from ottla_testkit.mock_cluster import MockCluster
    from ottla_testkit.mock_producer import MockProducer


ROUND_TRIP = 0.03
"""Of `distant_kafka`, in seconds."""


class MakeTopic(Protocol):
    """Creates a topic with a name of its own; settings by Kafka's names, `_` standing for `.`."""

    def __call__(self, partitions: int = 1, **config: Setting) -> str: ...


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """A one-node Kafka shared by the session; a test that stops or reconfigures brokers makes its own."""
    from ottla_testkit.errors import KafkaUnavailableError
    from ottla_testkit.kafka_cluster import KafkaCluster

    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster())
        except KafkaUnavailableError as error:
            go_without(error)
        yield cluster


@pytest.fixture(scope="session")
def distant_kafka() -> Iterator[KafkaCluster]:
    """A one-node Kafka that the session's clients reach with a round trip of 30 ms."""
    from ottla_testkit.errors import KafkaUnavailableError
    from ottla_testkit.kafka_cluster import KafkaCluster

    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster(round_trip=ROUND_TRIP))
        except KafkaUnavailableError as error:
            go_without(error)
        yield cluster


@pytest.fixture
def make_topic(kafka: KafkaCluster, request: pytest.FixtureRequest) -> MakeTopic:
    """Creates a topic on the session's Kafka and returns its name, which tells the test it is for."""
    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:80]

    def make(partitions: int = 1, **config: Setting) -> str:
        name = f"{test}.{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        kafka.create_topic(name, partitions=partitions, config=settings)
        return name

    return make


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """Three mock brokers of the test's own."""
    from ottla_testkit.errors import MockUnavailableError
    from ottla_testkit.mock_cluster import MockCluster

    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(MockCluster(brokers=3))
        except MockUnavailableError as error:
            go_without(error)
        yield cluster


@pytest.fixture
def mock_producer() -> Iterator[MockProducer]:
    """A producer that connects to nothing and acknowledges at once; `MockProducer(...)` makes one with settings."""
    from ottla.errors import UndeliveredError
    from ottla_testkit.mock_producer import MockProducer

    producer = MockProducer()
    yield producer
    with contextlib.suppress(UndeliveredError):  # the test made records fail, and has seen what it wanted to see
        producer.close()


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock at 0 that only the test moves."""
    from ottla_testkit.manual_clock import ManualClock

    return ManualClock()


def go_without(error: Exception) -> NoReturn:
    """Skip, for a developer who may do without; fail where the tests are meant to run."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(str(error))
    pytest.fail(str(error), pytrace=False)
