"""The options of a write, and those that are refused before any task exists."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence

import pytest
from pyspark.sql.types import StringType, StructType

from ottla import OttlaError, PluginError
from ottla.errors.secret import hide_settings
from ottla_spark import InvalidWriteError, OttlaDataSource
from ottla_spark.data_source_api import HAS_ARROW_STREAMS, HAS_DATA_SOURCES
from ottla_spark.options import formats, producer_settings
from ottla_spark.options.column_formats import JSON
from ottla_spark.options.options import read_hidden, read_options
from ottla_spark.options.write_options import ErrorTolerance, Guarantee, WriteOptions
from ottla_spark.sink.writer import OttlaStreamWriter, OttlaWriter

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(**options: str) -> tuple[WriteOptions, list[str]]:
    """The options, with servers and a topic unless these say otherwise, and the problems; `_` is a `.`."""
    given = {key.replace("_", "."): value for key, value in options.items()}
    problems: list[str] = []
    return read_options({**SERVERS, "topic": "t", **given}, problems=problems), problems


def source_of(options: dict[str, str]) -> OttlaDataSource:
    """The data source with these options, where Spark could create it."""
    if not HAS_DATA_SOURCES:
        pytest.skip("PySpark 3.5 has no data sources in Python")
    return OttlaDataSource(options)


def planned(options: dict[str, str], *, column: str = "value", overwrite: bool = False) -> OttlaWriter:
    """Spark's steps on the driver, for a DataFrame of this one column."""
    source = source_of({"topic": "t", **options})
    return source.writer(StructType().add(column, StringType()), overwrite)


def test_the_prefix_is_read_from_the_producer_settings() -> None:
    options, problems = read(kafka_acks="1")

    assert problems == []
    assert options.producer["acks"] == "1"
    assert options.producer["bootstrap.servers"] == "localhost:9092"


@pytest.mark.parametrize("kind", [list, tuple])
def test_the_functions_take_a_list_where_a_producer_does(kind: Callable[[list[str]], Sequence[str]]) -> None:
    problems: list[str] = []
    servers = kind(["one:9092", "two:9093"])
    options = read_hidden(hide_settings({"kafka.bootstrap.servers": servers, "topic": "t"}), problems=problems)

    assert problems == []
    assert options.producer["bootstrap.servers"] == "one:9092,two:9093"


@pytest.mark.parametrize("given", [{}, {"value_format": "json"}, {"value_format": "JSON", "key_format": "json"}])
def test_plugins_are_not_listed_unless_a_format_needs_one(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(**given)  # checks the settings, which lists them
    monkeypatch.setattr(formats, "Registry", None)
    options, problems = read(**given)

    assert problems == []
    assert (options.formats.value, options.formats.key) == tuple(
        JSON if part in given else None for part in ("value_format", "key_format")
    )


def test_the_topic_is_trimmed() -> None:
    options, _ = read(topic="  orders ")

    assert options.topic == "orders"


def test_an_empty_topic_is_refused() -> None:
    _, problems = read(topic=" ")

    assert problems == ["option topic is empty; name a topic, or leave it out and add a column 'topic'"]


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "orders,returns"])
def test_an_impossible_topic_is_refused_before_any_task_with_the_rule(name: str) -> None:
    _, problems = read(topic=name)

    assert problems == [
        f"option topic={name!r} is not a topic name: a name has 1 to 249 characters of a-z, A-Z, 0-9, "
        "'.', '_' and '-', and is not '.' or '..'"
    ]


def test_a_context_of_a_trace_is_read() -> None:
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    options, problems = read(traceparent=context)

    assert (options.trace, problems) == ({"traceparent": context}, [])


@pytest.mark.parametrize(
    "context",
    [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    ],
)
def test_a_context_that_is_none_is_refused(context: str) -> None:
    _, [problem] = read(traceparent=context)

    assert problem.startswith(f"option traceparent={context!r} is not a context as in W3C's Trace Context")


@pytest.mark.parametrize("key", ["topic", "report", "includeHeaders"])
def test_a_sink_option_with_the_prefix_of_the_producer_is_refused(key: str) -> None:
    _, problems = read(**{f"kafka.{key}": "true"})

    assert problems == [f"option kafka.{key} is not the producer's but the sink's own; write it as {key!r}"]


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, None),
        ({"errors_tolerance": "none"}, None),
        ({"errors_tolerance": "ALL"}, ErrorTolerance()),
        (
            {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "orders-refused"},
            ErrorTolerance(dead_letter_topic="orders-refused"),
        ),
    ],
    ids=["default", "none", "all", "dead letters"],
)
def test_the_tolerance_of_errors_is_that_of_kafka_connect(
    options: dict[str, str], tolerance: ErrorTolerance | None
) -> None:
    found, problems = read(**options)

    assert problems == []
    assert found.tolerance == tolerance


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"errors_tolerance": "some"}, "option errors.tolerance='some' is neither none nor all"),
        (
            {"errors_deadletterqueue_topic_name": "d"},
            "option errors.deadletterqueue.topic.name has no effect while a row that cannot be sent fails its task; "
            "set errors.tolerance=all too, or leave it out",
        ),
        (
            {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "t"},
            "option errors.deadletterqueue.topic.name='t' is the topic of the rows; name another one",
        ),
        (
            {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "a b"},
            "option errors.deadletterqueue.topic.name='a b' is not a topic name: a name has 1 to 249 characters of "
            "a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'",
        ),
    ],
    ids=["tolerance", "dead letters alone", "same topic", "no name"],
)
def test_a_tolerance_of_errors_that_makes_no_sense_is_refused(options: dict[str, str], problem: str) -> None:
    assert read(**options)[1] == [problem]


@pytest.mark.parametrize("key", ["includeheaders", "path"])
def test_options_ignored_by_the_sink_of_spark_are_ignored(key: str) -> None:
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
def test_an_unknown_option_is_refused_with_the_nearest(key: str, meant: str) -> None:
    assert read(**{key: "x"})[1] == [f"option {key!r} is not known; did you mean {meant!r}?"]


def test_an_unknown_option_without_a_near_match_is_refused() -> None:
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
        ("kafka.partitioner.class", "unknown", "no partitioner is named 'unknown'"),
    ],
)
def test_settings_that_the_producer_refuses_are_refused_on_the_driver(key: str, value: str, said: str) -> None:
    with pytest.raises(InvalidWriteError, match=re.escape(said)):
        planned({**SERVERS, key: value})


def test_valid_settings_are_cached_and_invalid_ones_checked_again(
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
def test_reading_is_refused_with_the_source_that_reads(read: Callable[[OttlaDataSource], object]) -> None:
    with pytest.raises(OttlaError, match=re.escape('read with Spark\'s own format("kafka")')):
        read(source_of(SERVERS))


def test_a_write_without_any_option_is_refused_with_the_place_for_them() -> None:
    schema = StructType().add("value", StringType())
    with pytest.raises(InvalidWriteError) as refused:
        source_of({}).writer(schema, False)
    with pytest.raises(InvalidWriteError) as incomplete:
        planned({})

    assert "the write has no options" in str(refused.value)
    assert "the write has no options" not in str(incomplete.value)


def test_overwriting_is_refused_with_the_mode_that_works() -> None:
    with pytest.raises(InvalidWriteError, match=r'use \.mode\("append"\)'):
        planned(SERVERS, overwrite=True)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidWriteError) as refused:
        planned({"bogus": "1", "kafka.transactional.id": "x"}, column="key", overwrite=True)

    assert len(refused.value.problems) == 5


def stream_planned(**options: str) -> object:
    source = source_of({**SERVERS, "topic": "t", **{key.replace("_", "."): value for key, value in options.items()}})
    return source.streamWriter(schema=StructType().add("value", StringType()), overwrite=False)


@pytest.mark.skipif(not HAS_ARROW_STREAMS, reason="this PySpark passes no Arrow batches to sinks of streams")
def test_a_stream_is_written_at_least_once_by_default() -> None:
    assert isinstance(stream_planned(), OttlaStreamWriter)
    assert isinstance(stream_planned(guarantee="At-Least-Once"), OttlaStreamWriter)


def test_a_streaming_query_is_checked_like_a_batch_query() -> None:
    with pytest.raises(InvalidWriteError, match="did you mean 'topic'"):
        stream_planned(topics="t")


def test_an_unknown_guarantee_is_refused_with_the_known_ones() -> None:
    _, problems = read(guarantee="twice")

    assert problems == ["option guarantee='twice' is not known; it must be at-least-once or exactly-once"]


def test_a_streaming_guarantee_is_refused_for_a_batch_query() -> None:
    with pytest.raises(InvalidWriteError, match="guarantee=exactly-once is for streams"):
        planned({**SERVERS, "guarantee": "exactly-once"})


def test_exactly_once_options_are_passed_without_surrounding_spaces() -> None:
    options, problems = read(guarantee="exactly-once", transactional_id_prefix=" Jobs-1 ", ledger_topic="l")

    assert problems == []
    assert options.guarantee is Guarantee.EXACTLY_ONCE
    assert options.exactly_once == {"transactional.id.prefix": "Jobs-1", "ledger.topic": "l"}


def test_exactly_once_options_are_refused_without_the_guarantee() -> None:
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
def test_settings_without_effect_in_a_write_are_refused_with_the_reason(key: str, said: str) -> None:
    _, [problem] = read(**{key: "x"})

    assert problem.startswith(f"option {key} cannot be set: ")
    assert said in problem


def test_a_java_class_is_refused_with_its_replacement() -> None:
    _, [problem] = read(kafka_partitioner_class="com.acme.Mine")

    assert "is the name of a class, and Ottla loads none by its name" in problem


@pytest.mark.parametrize("written", ["-1", "soon", "1.5", "", "³", "2147483648", "9" * 5000])
def test_the_idle_timeout_of_producers_is_in_milliseconds(written: str) -> None:
    assert read(producer_idle_ms="1500")[0].idle == 1.5
    assert read()[0].idle == 300.0
    assert read(producer_idle_ms=written)[1] == [
        f"option producer.idle.ms={written!r} is not a number of milliseconds from 0 to 2147483647"
    ]


def test_a_report_is_made_on_request() -> None:
    assert [read(report=written)[0].report for written in ("true", "TRUE", "false")] == [True, True, False]
    assert not read()[0].report
    assert read(report="yes")[1] == ["option report='yes' is neither true nor false"]


@pytest.mark.parametrize(
    ("written", "said"),
    [("arrow-ipc", "a record is one row"), ("xml", "no serializer is named")],
)
def test_other_formats_of_values_are_refused_with_the_reason(written: str, said: str) -> None:
    assert read(value_format="JSON")[0].formats.value == JSON
    _, [problem] = read(value_format=written)

    assert problem.startswith(f"option value.format={written!r}")
    assert said in problem


@pytest.mark.parametrize("key", ["checkpointlocation", "queryname", "asyncprogresstrackingenabled"])
def test_options_of_streams_that_spark_itself_reads_are_accepted(key: str) -> None:
    assert read(**{key: "x"})[1] == []


def test_the_options_for_tasks_keep_their_values_and_show_no_secret() -> None:
    options, _ = read(kafka_ssl_key_password="hunter2")
    arrived = pickle.loads(pickle.dumps(options))

    assert arrived.producer["ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(arrived)


def test_a_refused_secret_is_not_quoted() -> None:
    with pytest.raises(InvalidWriteError) as refused:
        planned({**SERVERS, "kafka.sasl.jaas.confi": "password=hunter2", "kafka.ssl.key.passwor": "hunter2"})

    assert "hunter2" not in str(refused.value)
