"""The options of a write, and those that are refused before any task exists."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pytest
from pyspark.sql.types import StringType, StructType

from ottla import OttlaError, PluginError
from ottla_spark import InvalidWriteError, OttlaDataSource
from ottla_spark.options import producer_settings
from ottla_spark.options.options import Guarantee, ValueFormat, WriteOptions, read_options
from ottla_spark.write.writer import OttlaStreamWriter, OttlaWriter

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(**options: str) -> tuple[WriteOptions, list[str]]:
    """The options, with servers and a topic unless these say otherwise, and the problems; `_` is a `.`."""
    given = {key.replace("_", "."): value for key, value in options.items()}
    problems: list[str] = []
    return read_options({**SERVERS, "topic": "t", **given}, problems=problems), problems


def planned(options: dict[str, str], *, column: str = "value", overwrite: bool = False) -> OttlaWriter:
    """Spark's steps on the driver, for a DataFrame of this one column."""
    source = OttlaDataSource({"topic": "t", **options})
    return source.writer(StructType().add(column, StringType()), overwrite)


def test_the_prefix_is_taken_from_the_producers_settings() -> None:
    options, problems = read(kafka_acks="1")

    assert problems == []
    assert options.producer["acks"] == "1"
    assert options.producer["bootstrap.servers"] == "localhost:9092"


def test_the_topic_is_trimmed() -> None:
    options, _ = read(topic="  orders ")

    assert options.topic == "orders"


def test_an_empty_topic_is_refused() -> None:
    _, problems = read(topic=" ")

    assert problems == ["option topic is empty; name a topic, or leave it out and have a column 'topic'"]


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "orders,returns"])
def test_what_can_be_no_topic_is_refused_before_any_task_with_what_a_name_is_made_of(name: str) -> None:
    _, problems = read(topic=name)

    assert problems == [f"option topic={name!r} is no topic: a name is 1 to 249 of a-z A-Z 0-9 . _ - and not . or .."]


@pytest.mark.parametrize("key", ["topic", "report", "includeHeaders"])
def test_an_option_of_the_sink_behind_the_producers_prefix_is_refused_with_its_name(key: str) -> None:
    _, problems = read(**{f"kafka.{key}": "true"})

    assert problems == [f"option kafka.{key} is not the producer's but the sink's own; write it as {key!r}"]


@pytest.mark.parametrize("key", ["includeheaders", "path"])
def test_what_sparks_sink_takes_without_effect_is_taken(key: str) -> None:
    assert read(**{key: "true"})[1] == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("linger.ms", "kafka.linger.ms"),
        ("topics", "topic"),
        ("includeheader", "includeHeaders"),
        ("compression.typ", "kafka.compression.type"),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_that_was_meant(key: str, meant: str) -> None:
    assert read(**{key: "x"})[1] == [f"option {key!r} is not known; did you mean {meant!r}?"]


def test_an_option_like_no_other_is_refused_all_the_same() -> None:
    assert read(zzz="x")[1] == ["option 'zzz' is not known; the producer's own options begin with 'kafka.'"]


@pytest.mark.parametrize("part", ["key", "value"])
def test_serializers_are_refused_with_the_reason(part: str) -> None:
    _, problems = read(**{f"kafka.{part}.serializer": "org.apache.kafka.common.serialization.StringSerializer"})

    assert problems == [
        f"option kafka.{part}.serializer cannot be set: the bytes of column {part!r} are sent as they are; "
        "serialize with DataFrame functions and leave the option out"
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kafka.transactional.id", "job-1", "option kafka.transactional.id cannot be set"),
        ("kafka.linger.mss", "1", "did you mean 'linger.ms'?"),
        ("kafka.acks", "2", "acks"),
        ("kafka.compression.type", "zippy", "no compressor is named 'zippy'"),
        ("kafka.partitioner.class", "nobodys", "no partitioner is named 'nobodys'"),
    ],
)
def test_what_the_producer_would_refuse_is_refused_on_the_driver(key: str, value: str, said: str) -> None:
    with pytest.raises(InvalidWriteError, match=re.escape(said)):
        planned({**SERVERS, key: value})


def test_settings_that_were_found_good_are_not_looked_at_again_and_bad_ones_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def check(settings: object) -> None:
        asked.append(settings)
        raise PluginError("it is broken")

    unseen = {"kafka_client_id": "found-good"}
    assert read(**unseen)[1] == []
    monkeypatch.setattr(producer_settings, "check_config", check)

    assert read(**unseen)[1] == []
    assert asked == []
    for _ in range(2):
        assert read(kafka_client_id="never-seen")[1] == ["in the kafka.* options, it is broken"]
    assert len(asked) == 2


def test_servers_are_required() -> None:
    with pytest.raises(InvalidWriteError, match=r"kafka\.\* options, bootstrap\.servers: required"):
        planned({})


@pytest.mark.parametrize("read", [lambda source: source.schema(), lambda source: source.reader(StructType())])
def test_reading_is_refused_with_what_reads(read: Callable[[OttlaDataSource], object]) -> None:
    with pytest.raises(OttlaError, match=re.escape('read with Spark\'s own format("kafka")')):
        read(OttlaDataSource(SERVERS))


def test_overwriting_is_refused_with_the_mode_that_works() -> None:
    with pytest.raises(InvalidWriteError, match=r'use \.mode\("append"\)'):
        planned(SERVERS, overwrite=True)


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidWriteError) as refused:
        planned({"bogus": "1", "kafka.transactional.id": "x"}, column="key", overwrite=True)

    assert len(refused.value.problems) == 5


def stream_planned(**options: str) -> object:
    source = OttlaDataSource(
        {**SERVERS, "topic": "t", **{key.replace("_", "."): value for key, value in options.items()}}
    )
    return source.streamWriter(schema=StructType().add("value", StringType()), overwrite=False)


def test_a_stream_is_written_at_least_once_unless_more_is_asked_for() -> None:
    assert isinstance(stream_planned(), OttlaStreamWriter)
    assert isinstance(stream_planned(guarantee="At-Least-Once"), OttlaStreamWriter)


def test_a_stream_is_checked_as_a_batch_is() -> None:
    with pytest.raises(InvalidWriteError, match="did you mean 'topic'"):
        stream_planned(topics="t")


def test_an_unknown_guarantee_is_refused_with_those_that_there_are() -> None:
    _, problems = read(guarantee="twice")

    assert problems == ["option guarantee='twice' is not known; it is at-least-once or exactly-once"]


def test_a_batch_is_not_written_with_the_guarantee_of_streams() -> None:
    with pytest.raises(InvalidWriteError, match="guarantee=exactly-once is for streams"):
        planned({**SERVERS, "guarantee": "exactly-once"})


def test_what_belongs_to_exactly_once_is_handed_over_as_it_was_written() -> None:
    options, problems = read(guarantee="exactly-once", transactional_id_prefix=" Jobs-1 ", ledger_topic="l")

    assert problems == []
    assert options.guarantee is Guarantee.EXACTLY_ONCE
    assert options.exactly_once == {"transactional.id.prefix": "Jobs-1", "ledger.topic": "l"}


def test_what_belongs_to_exactly_once_is_refused_without_it() -> None:
    _, problems = read(transactional_id_prefix="jobs")

    assert problems == ["option transactional.id.prefix is for guarantee=exactly-once; set that too, or leave it out"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("startingOffsets", "it is for reading from Kafka"),
        ("subscribe", "it is for reading from Kafka"),
        ("failOnDataLoss", "it is for reading from Kafka"),
        ("minPartitions", "it is for reading from Kafka"),
        ("kafkaConsumer.pollTimeoutMs", "it is for reading from Kafka"),
        ("kafka.group.id", "it is a setting of consumers"),
        ("kafka.value.deserializer", "it is a setting of consumers"),
        ("kafka.transactional.id", "set guarantee=exactly-once and transactional.id.prefix"),
    ],
)
def test_what_makes_no_sense_in_a_write_is_refused_with_the_reason(key: str, said: str) -> None:
    _, [problem] = read(**{key: "x"})

    assert problem.startswith(f"option {key} cannot be set: ")
    assert said in problem


def test_a_class_of_javas_is_refused_with_what_to_write_in_its_place() -> None:
    _, [problem] = read(kafka_partitioner_class="com.acme.Mine")

    assert "names a class, and Java's classes cannot be loaded here" in problem


@pytest.mark.parametrize("written", ["-1", "soon", "1.5", "", "³", "2147483648", "9" * 5000])
def test_the_idle_time_of_producers_is_milliseconds(written: str) -> None:
    assert read(producer_idle_ms="1500")[0].idle == 1.5
    assert read()[0].idle == 300.0
    assert read(producer_idle_ms=written)[1] == [
        f"option producer.idle.ms={written!r} is not a number of milliseconds from 0 to 2147483647"
    ]


def test_a_report_is_made_when_it_is_asked_for() -> None:
    assert [read(report=written)[0].report for written in ("true", "TRUE", "false")] == [True, True, False]
    assert not read()[0].report
    assert read(report="yes")[1] == ["option report='yes' is neither true nor false"]


@pytest.mark.parametrize(
    ("written", "said"), [("avro", "encode with to_avro"), ("arrow-ipc", "a record is a row"), ("xml", "it is json")]
)
def test_other_formats_of_values_are_refused_with_the_reason(written: str, said: str) -> None:
    assert read(value_format="JSON")[0].value_format is ValueFormat.JSON
    _, [problem] = read(value_format=written)

    assert problem.startswith(f"option value.format={written!r} ")
    assert said in problem


@pytest.mark.parametrize("key", ["checkpointlocation", "queryname", "asyncprogresstrackingenabled"])
def test_what_spark_itself_reads_of_a_streams_options_is_taken(key: str) -> None:
    assert read(**{key: "x"})[1] == []


def test_what_goes_to_the_tasks_keeps_its_settings_and_shows_no_secret() -> None:
    options, _ = read(kafka_ssl_key_password="hunter2")
    arrived = pickle.loads(pickle.dumps(options))

    assert arrived.producer["ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(arrived)


def test_a_refused_secret_is_not_quoted() -> None:
    with pytest.raises(InvalidWriteError) as refused:
        planned({**SERVERS, "kafka.sasl.jaas.confi": "password=hunter2", "kafka.ssl.key.passwor": "hunter2"})

    assert "hunter2" not in str(refused.value)
