"""Topics of a write while it is planned, without Spark: missing topics, brokers that create them or are unreachable."""

from __future__ import annotations

import logging
import re

import pytest

from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink import topics
from ottla_spark.sink.topics import check_topics
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic, go_without

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def nothing_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_valid_until", {})


def options(servers: str, **more: str) -> WriteOptions:
    """Options of a write; `_` in the name of one is a `.`."""
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": servers} | {key.replace("_", "."): value for key, value in more.items()}
    read = read_options(given, problems=problems)
    assert not problems
    return read


def test_all_missing_topics_are_named_with_what_to_do(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    given = options(kafka.bootstrap_servers, topic="no-topic", kafka_max_block_ms="1000")
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "no-letters"}
    with pytest.raises(InvalidWriteError, match=r"topic 'no-topic' does not exist, .*; create it, or correct the name"):
        check_topics(given)
    with pytest.raises(InvalidWriteError) as refused:
        check_topics(options(kafka.bootstrap_servers, topic=make_topic(), kafka_max_block_ms="1000", **letters))

    assert [problem.split(",")[0] for problem in refused.value.problems] == ["topic 'no-letters' does not exist"]


def test_topics_that_exist_are_not_checked_again_immediately(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    check_topics(options(kafka.bootstrap_servers, topic=topic))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "_problems", None)
        check_topics(options(kafka.bootstrap_servers, topic=topic))


def test_rows_that_name_their_topics_need_no_check() -> None:
    check_topics(options("127.0.0.1:1"))


@pytest.mark.thorough("needs a broker of its own")
def test_a_broker_that_creates_topics_creates_that_of_the_rows() -> None:
    try:
        kafka = KafkaCluster(config={"auto.create.topics.enable": "true"}).__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    try:
        check_topics(options(kafka.bootstrap_servers, topic="created"))
    finally:
        kafka.close()


def test_brokers_that_the_driver_cannot_reach_are_left_to_the_tasks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "REACH", 0.2)
    given = options("127.0.0.1:1", topic="t")
    with caplog.at_level(logging.WARNING, "ottla_spark"):
        check_topics(given)
        check_topics(given)

    [line] = [each for each in caplog.messages if "not checked" in each]
    assert re.match("topics are not checked before the tasks begin: the driver could not ask a broker: ", line)
