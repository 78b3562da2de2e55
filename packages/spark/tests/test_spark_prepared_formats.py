"""What a driver does with serializers that look something up, and with those that it cannot use. No Spark runs here."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from ottla.errors import NotPreparedError
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink import formats
from ottla_spark.sink.columns import find_columns
from ottla_spark.sink.records import records_of

IDS = StructType().add("id", LongType())


class OneAtATime:
    """A serializer that cannot serialize columns."""

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes | None:
        raise NotImplementedError


class Unprepared(OneAtATime):
    """A serializer that needs lookups, and cannot be asked to do them."""

    lookups = 1

    def serialize_column(self, topic: str, column: pa.Array) -> pa.Array:
        if self.lookups:
            raise NotPreparedError(f"the schema of {topic} is not known")
        return pa.array([str(number).encode() for number in column.field(0).to_pylist()], pa.binary())


class LooksUp(Unprepared):
    """A serializer that needs so many lookups, and records the arguments of `prepare`."""

    def __init__(self, lookups: int) -> None:
        self.lookups = lookups
        self.asked: list[tuple[str, int, float]] = []

    def prepare(self, topic: str, data: Any, headers: Any, *, timeout: float) -> None:
        self.lookups -= 1
        self.asked.append((topic, len(data), timeout))


class Breaks(OneAtATime):
    """A serializer with a fault."""

    def serialize_column(self, topic: str, column: pa.Array) -> pa.Array:
        raise ZeroDivisionError("no rows")


@pytest.fixture(autouse=True)
def no_cached_serializers() -> None:
    formats._serializer.cache_clear()


def planned(
    serializer: Any, monkeypatch: pytest.MonkeyPatch, *, topic: str | None = "orders"
) -> tuple[WriteOptions, list[str]]:
    """The options for the tasks as the driver prepares them with this serializer, and the problems it finds."""
    monkeypatch.setattr(formats, "make_alone", lambda *_plugin, **_how: serializer)
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.max.block.ms": "7000", "value.format": "string"}
    chosen = read_options(given | ({"topic": topic} if topic else {}), problems=problems)
    columns = find_columns(IDS, topic="orders", problems=problems, formats=chosen.formats)
    assert problems == []
    return formats.prepare_formats(chosen, IDS, columns, problems=problems), problems


@pytest.mark.parametrize("lookups", [0, 1, 5])
def test_the_driver_does_the_lookups_and_tasks_need_none(lookups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    serializer = LooksUp(lookups)
    chosen, problems = planned(serializer, monkeypatch)
    records, refused, _headers = records_of(
        pa.RecordBatch.from_pydict({"id": pa.array([1, 2])}), {}, options=pickle.loads(pickle.dumps(chosen))
    )

    assert problems == []
    assert serializer.asked == [("orders", 0, 7.0)] * lookups
    assert (records.column(0).to_pylist(), refused) == ([b"1", b"2"], {})


def test_a_serializer_that_is_never_prepared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer = LooksUp(1_000)
    _chosen, problems = planned(serializer, monkeypatch)

    assert problems == ["option value.format='string': 5 lookups did not prepare it"]
    assert len(serializer.asked) == 5


@pytest.mark.parametrize(
    ("serializer", "topic", "reason"),
    [
        (Unprepared(), "orders", "the schema of orders is not known"),
        (OneAtATime(), "orders", "this serializer makes one value at a time, because it has no serialize_column"),
        (LooksUp(0), None, "it needs option topic, because the serializer is prepared for it"),
    ],
    ids=["not prepared", "one at a time", "no topic"],
)
def test_a_serializer_that_cannot_be_used_is_refused_with_why(
    serializer: Any, topic: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _chosen, problems = planned(serializer, monkeypatch, topic=topic)

    assert problems == [f"option value.format='string': {reason}"]


def test_a_fault_of_a_serializer_is_reported_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    _chosen, [problem] = planned(Breaks(), monkeypatch)

    assert problem.startswith("option value.format='string': the serializer ")
    assert problem.endswith("Breaks failed: ZeroDivisionError: no rows; correct it, or use another serializer")
