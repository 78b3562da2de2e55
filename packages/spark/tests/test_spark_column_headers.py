"""Headers that a serializer sets for the rows of a batch. No Spark runs here."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructType

from ottla.config import PluginValues
from ottla.errors import RowSerializationError
from ottla_spark.options.column_formats import ColumnFormat, Formats
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink import formats
from ottla_spark.sink.columns import find_columns
from ottla_spark.sink.records import records_of

CALLS: list[str] = []
IDS = StructType().add("id", LongType())


class Numbered:
    """Numbers as texts, of which 13 has none, with a header; it writes down what it is asked for."""

    def __init__(self, headers: Any = (("schema", b"7"),)) -> None:
        self.headers = headers

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes | None:
        raise NotImplementedError

    def serialize_column(self, topic: str, column: pa.Array) -> pa.Array:
        CALLS.append(f"{len(column)} rows")
        numbers = column.field(0).to_pylist()
        refused = {row: "it is unlucky" for row, number in enumerate(numbers) if number == 13}
        if refused:
            raise RowSerializationError(refused)
        return pa.array([str(number).encode() for number in numbers], pa.binary())

    def column_headers(self, topic: str, column: pa.Array) -> Any:
        CALLS.append(f"headers of {topic} for {column.type} of {len(column)} rows")
        return self.headers


@pytest.fixture(autouse=True)
def no_cached_serializers() -> None:
    CALLS.clear()
    formats._serializer.cache_clear()


def options(serializer: Numbered) -> WriteOptions:
    pickled: bytes = cloudpickle.dumps(serializer)  # type: ignore[no-untyped-call]
    return WriteOptions(
        topic="orders",
        producer=PluginValues({"record.encoder": "python"}),
        formats=Formats(value=ColumnFormat(name="numbered", prepared=pickled, headers=tuple(serializer.headers))),
    )


def planned(serializer: Numbered, monkeypatch: pytest.MonkeyPatch) -> tuple[WriteOptions, list[str]]:
    """The options for the tasks as the driver prepares them with this serializer, and the problems it finds."""
    monkeypatch.setattr(formats, "make_alone", lambda *_plugin, **_how: serializer)
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "orders", "value.format": "string"}
    chosen = read_options(given, problems=problems)
    columns = find_columns(IDS, topic=chosen.topic, problems=problems, formats=chosen.formats)
    return formats.prepare_formats(chosen, IDS, columns, problems=problems), problems


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(numbers, pa.int64())})


def test_headers_are_asked_for_once_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, problems = planned(Numbered(), monkeypatch)
    assert problems == []
    assert CALLS == ["0 rows", "headers of orders for struct<id: int64> of 0 rows"]

    CALLS.clear()
    chosen = pickle.loads(pickle.dumps(chosen))  # to the tasks
    for _ in range(3):
        records, refused, headers = records_of(batch(1, 2), {}, options=chosen)
        assert (records.column(0).to_pylist(), refused, list(headers)) == ([b"1", b"2"], {}, [("schema", b"7")])
    assert CALLS == ["2 rows"] * 3


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_is_made_for_its_part_of_the_record(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema registry has a subject for each."""
    made: list[bool] = []

    def make(*_plugin: Any, is_key: bool, **_how: Any) -> Numbered:
        made.append(is_key)
        return Numbered()

    monkeypatch.setattr(formats, "make_alone", make)
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "orders", f"{part}.format": "string"}
    chosen = read_options(given, problems=problems)
    schema = StructType().add(part, LongType()).add("id", LongType())
    columns = find_columns(schema, topic=chosen.topic, problems=problems, formats=chosen.formats)
    formats.prepare_formats(chosen, schema, columns, problems=problems)

    assert made == [part == "key"]


def test_a_batch_with_a_refused_row_has_the_headers_too() -> None:
    records, refused, headers = records_of(batch(1, 13, 2), {}, options=options(Numbered()))

    assert records.column(0).to_pylist() == [b"1", b'{"id":13}', b"2"]
    assert (refused, list(headers)) == ({1: "the value is refused: it is unlucky"}, [("schema", b"7")])


WRONG_HEADERS = [[("schema", 7)], [("schema",)], 5, [("\ud800", b"")], {"schema": "text"}]


@pytest.mark.parametrize("wrong", WRONG_HEADERS, ids=repr)
def test_impossible_headers_are_found_when_the_write_is_planned(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, [problem] = planned(Numbered(wrong), monkeypatch)

    assert problem.startswith("option value.format='string': column_headers of the ")
    assert "returned no headers" in problem
