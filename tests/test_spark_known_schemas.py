"""A driver goes on with a schema that it knows while the registry is down. No Spark runs here."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
from hostile_registry import Hostile, hostile_registry, says
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink import formats
from ottla_spark.sink.columns import find_columns

IDS = StructType([StructField("id", LongType())])
NAMES = StructType([StructField("name", StringType())])


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.setattr(formats, "_known", {})
    with hostile_registry() as running:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", running.address)
        yield running


def planned(hostile: Hostile, schema: StructType = IDS) -> tuple[WriteOptions, Sequence[str]]:
    """The options of a micro-batch, and their problems."""
    problems: list[str] = []
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "kafka.max.block.ms": "300",
        "topic": "orders",
        "value.format": "avro",
        "schema.registry.url": hostile.address,
    }
    options = read_options(given, problems=problems)
    columns = find_columns(schema, topic=options.topic, problems=problems, formats=options.formats)
    assert problems == []
    return formats.prepare_formats(options, schema, columns, problems=problems), problems


def prepared(found: tuple[WriteOptions, Sequence[str]]) -> bytes:
    options, problems = found
    assert problems == []
    assert options.formats.value is not None
    assert options.formats.value.prepared is not None
    return options.formats.value.prepared


def test_a_stream_survives_an_outage_of_the_registry(hostile: Hostile, caplog: pytest.LogCaptureFixture) -> None:
    first = prepared(planned(hostile))
    hostile.last = says({}, status=503)
    with caplog.at_level(logging.WARNING):
        assert prepared(planned(hostile)) == first
    assert "the schema of orders is still the known one: the schema registry did not answer" in caplog.text


def test_an_outage_fails_a_write_whose_schema_is_not_known(hostile: Hostile) -> None:
    prepared(planned(hostile))
    hostile.last = says({}, status=503)
    _options, problems = planned(hostile, NAMES)
    assert "did not answer" in problems[0]


def test_a_refusal_fails_a_write_whose_schema_is_known(hostile: Hostile) -> None:
    prepared(planned(hostile))
    hostile.last = says({"error_code": 409, "message": "no"}, status=409)
    _options, problems = planned(hostile)
    assert "'no'" in problems[0]


def test_a_driver_keeps_a_limited_number_of_schemas(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_KNOWN", 1)
    prepared(planned(hostile))
    prepared(planned(hostile, NAMES))
    hostile.last = says({}, status=503)
    prepared(planned(hostile, NAMES))
    _options, problems = planned(hostile)
    assert problems != []
