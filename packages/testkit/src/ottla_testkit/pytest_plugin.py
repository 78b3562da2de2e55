"""Fixtures: a Kafka cluster with and without a delay, topics, a mock cluster, a mock producer, a clock.

pytest loads it wherever this package is installed, so it imports only pytest until a fixture is used. If this machine
lacks a requirement (Java, jars, librdkafka), a test is skipped with the reason, and fails where CI is set. A broker
that does not start fails it everywhere.
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
    from ottla_testkit.kafka_cluster import ExistingKafka, KafkaCluster
    from ottla_testkit.kafka_cluster.node_settings import Setting
    from ottla_testkit.manual_clock import ManualClock
    from ottla_testkit.mock_cluster import MockCluster
    from ottla_testkit.mock_producer import AsyncMockProducer, MockProducer


ROUND_TRIP = 0.03
"""Round trip of `distant_kafka`, in seconds."""


EXISTING = "OTTLA_TEST_KAFKA"
"""The environment variable with the servers of a cluster that runs already."""


class MakeTopic(Protocol):
    """Create a topic with a unique name; settings have Kafka's names, with `_` for `.`."""

    def __call__(self, partitions: int = 1, **config: Setting) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = f"a running cluster for the fixture kafka, as host:port,... (the environment: {EXISTING})"
    parser.getgroup("ottla").addoption("--ottla-kafka", metavar="SERVERS", help=help_)
    parser.addini("ottla_kafka", help_)


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[KafkaCluster | ExistingKafka]:
    """A one-node Kafka shared by the session; a test that stops or reconfigures brokers starts its own.

    With `--ottla-kafka`, it is a cluster that runs already, and that tests use only to create and read topics.
    """
    from ottla_testkit.errors import KafkaUnavailableError
    from ottla_testkit.kafka_cluster import ExistingKafka, KafkaCluster

    with contextlib.ExitStack() as stack:
        if servers := existing_servers(pytestconfig):
            yield stack.enter_context(ExistingKafka(servers))
            return
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
def make_topic(kafka: KafkaCluster | ExistingKafka, request: pytest.FixtureRequest) -> MakeTopic:
    """A function that creates a topic on the session's Kafka and returns its name, which includes the test's name."""
    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:80]

    def make(partitions: int = 1, **config: Setting) -> str:
        name = f"{test}.{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        kafka.create_topic(name, partitions=partitions, config=settings)
        return name

    return make


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """Three mock brokers for one test."""
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
    """A producer that connects nowhere and acknowledges immediately; `MockProducer(...)` makes one with settings."""
    from ottla.errors import UndeliveredError
    from ottla_testkit.mock_producer import MockProducer

    producer = MockProducer()
    yield producer
    with contextlib.suppress(UndeliveredError):  # the test made records fail, and has seen what it wanted to see
        producer.close()


@pytest.fixture
def async_mock_producer() -> Iterator[AsyncMockProducer]:
    """The same for programs that use asyncio: an `AsyncProducer`; `.mock` has what was sent."""
    from ottla.errors import UndeliveredError
    from ottla_testkit.mock_producer import AsyncMockProducer

    producer = AsyncMockProducer()
    yield producer
    with contextlib.suppress(UndeliveredError):
        producer.mock.close()


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that starts at 0 and that only the test moves."""
    from ottla_testkit.manual_clock import ManualClock

    return ManualClock()


def existing_servers(config: pytest.Config) -> str:
    """The servers of the running cluster that the fixture `kafka` uses; empty: it starts one."""
    given = config.getoption("--ottla-kafka") or os.environ.get(EXISTING) or config.getini("ottla_kafka")
    return str(given or "").strip()


def go_without(error: Exception) -> NoReturn:
    """Skip a test whose requirements this machine lacks; fail it where CI is set."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(str(error))
    raise pytest.fail.Exception(str(error), pytrace=False) from None  # pytest would show the cause, the same sentence
