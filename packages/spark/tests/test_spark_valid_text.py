"""Text that is not valid UTF-8, as `cast(binary AS string)` makes it: replaced in values in JSON, refused elsewhere."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import SparkSession, functions
from spark_task_kit import PARTITIONS, cluster, log, sent

from ottla.config import PluginValues
from ottla.plugins.serializers.json import JsonSerializer
from ottla_spark.errors import WriteError
from ottla_spark.options.column_formats import JSON, ColumnFormat, Formats
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink import formats
from ottla_spark.sink.records import records_of
from ottla_spark.sink.valid_text import replaced, with_valid_text

ENCODERS = pytest.mark.parametrize("encoder", ["native", "python"])
TEXTS = st.lists(st.none() | st.binary(max_size=8) | st.text(max_size=5).map(str.encode), min_size=1, max_size=20)

EDGES = (0x22, 0x41, 0x5C, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3)
"""Bytes at which what may follow changes."""


def unchecked(texts: Sequence[bytes | None], *, large: bool = False) -> pa.Array:
    """A column of text with any bytes, as Spark's Arrow has it."""
    return pa.array(texts, pa.large_binary() if large else pa.binary()).view(
        pa.large_string() if large else pa.string()
    )


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class Strict(JsonSerializer):
    """A serializer that takes no other text than what interfaces promise."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        column.validate(full=True)
        return super().serialize_column(topic, column)


@pytest.fixture(autouse=True)
def no_cached_serializers() -> None:
    formats._serializer.cache_clear()


def plugin() -> ColumnFormat:
    pickled: bytes = cloudpickle.dumps(Strict())  # type: ignore[no-untyped-call]
    return ColumnFormat(name="strict", prepared=pickled)


def options(
    *, value: ColumnFormat | None = None, key: ColumnFormat | None = None, encoder: str = "python"
) -> WriteOptions:
    settings = PluginValues({"record.encoder": encoder})
    return WriteOptions(topic="orders", producer=settings, formats=Formats(value=value, key=key))


@pytest.fixture
def nested() -> pa.RecordBatch:
    names = unchecked([b"good", b"O\xffA", b"", b"\xed\xa0\x80|\xe1\x80", None])
    tags = pa.ListArray.from_arrays([0, 1, 1, 3, 3, 3], unchecked([b"a", b"b", b"\xc3"]))
    pairs = pa.MapArray.from_arrays([0, 1, 1, 1, 2, 2], unchecked([b"k", b"\xf5\x80"]), unchecked([b"v", b"\xff"]))
    row = pa.StructArray.from_arrays([unchecked([b"x", b"y", b"z", b"x", b"\xff"])], ["in"])
    return batch(id=pa.array(range(5)), name=names, tags=tags, pairs=pairs, row=row)


@ENCODERS
def test_values_in_json_have_the_replacements_of_to_json(nested: pa.RecordBatch, encoder: str) -> None:
    records, refused, _headers = records_of(nested, {}, options=options(value=JSON, encoder=encoder))

    assert [json.loads(value) for value in records.column(0).to_pylist()] == [
        {"id": 0, "name": "good", "tags": ["a"], "pairs": {"k": "v"}, "row": {"in": "x"}},
        {"id": 1, "name": "O\ufffdA", "tags": [], "pairs": {}, "row": {"in": "y"}},
        {"id": 2, "name": "", "tags": ["b", "\ufffd"], "pairs": {}, "row": {"in": "z"}},
        {"id": 3, "name": "\ufffd|\ufffd", "tags": [], "pairs": {"\ufffd\ufffd": "\ufffd"}, "row": {"in": "x"}},
        {"id": 4, "tags": [], "pairs": {}, "row": {"in": "\ufffd"}},
    ]
    assert refused == {}


@ENCODERS
def test_other_formats_refuse_the_row_by_its_column(nested: pa.RecordBatch, encoder: str) -> None:
    records, refused, _headers = records_of(nested, {}, options=options(value=plugin(), encoder=encoder))

    assert refused == {
        1: r"the value is refused: column 'name' is not valid UTF-8: b'O\xffA'",
        2: r"the value is refused: column 'tags[]' is not valid UTF-8: b'\xc3'",
        3: r"the value is refused: column 'name' is not valid UTF-8: b'\xed\xa0\x80|\xe1\x80'",
        4: r"the value is refused: column 'row.in' is not valid UTF-8: b'\xff'",
    }
    letters = [json.loads(value) for value in records.column(0).to_pylist()]
    assert [letter.get("name") for letter in letters] == ["good", "O\ufffdA", "", "\ufffd|\ufffd", None]


@pytest.mark.parametrize("chosen", [JSON, plugin()], ids=["json", "plugin"])
@ENCODERS
def test_a_key_in_a_format_is_refused_so_that_no_two_become_one(chosen: ColumnFormat, encoder: str) -> None:
    keys, values = unchecked([b"a", b"\xff", b"\xfe", None]), unchecked([b"1", b"\xff", b"3", b"4"])
    positions = {"key": 0, "value": 1}

    records, refused, _headers = records_of(
        batch(key=keys, value=values), positions, options=options(key=chosen, encoder=encoder)
    )

    assert refused == {
        1: r"the key is refused: column 'key' is not valid UTF-8: b'\xff'",
        2: r"the key is refused: column 'key' is not valid UTF-8: b'\xfe'",
    }
    assert records.column(0).to_pylist() == ['"a"', '"\ufffd"', '"\ufffd"', None]
    assert records.column(1).view(pa.binary()).to_pylist() == [b"1", b"\xff", b"3", b"4"]  # has no format


def test_a_topic_or_header_that_is_no_text_is_a_dead_letter() -> None:
    names = unchecked([b"trace", b"tr\xff", b"trace", b"ok"])
    pairs = pa.StructArray.from_arrays([names, pa.array([b"1", b"2", b"3", b"4"])], ["key", "value"])
    rows = batch(
        topic=unchecked([b"t", b"t", b"u\xff", b"u"]),
        value=unchecked([b"1", b"2", b"3", b"\xff"]),
        headers=pa.ListArray.from_arrays([0, 1, 2, 3, 4], pairs),
    )
    with cluster() as simulation:
        written = sent(
            simulation, [rows], errors_tolerance="all", errors_deadletterqueue_topic_name="v", kafka_batch_size="0"
        )
        letters = [record for at in range(PARTITIONS) for record in log(simulation, "v", at)]
        good = [record.value for topic in "tu" for at in range(PARTITIONS) for record in log(simulation, topic, at)]
        with pytest.raises(WriteError, match=r"row 2 of .* was refused: column 'headers\[\].key' is not valid UTF-8"):
            sent(simulation, [rows])

    assert sorted(good) == [b"1", b"\xff"]
    assert written.refused == 2
    found = sorted((record.value, dict(record.headers)) for record in letters)
    assert [value for value, _headers in found] == [b"2", b"3"]
    assert found[0][1]["tr\ufffd"] == b"2"
    assert found[0][1]["__ottla.errors.exception.message"] == rb"column 'headers[].key' is not valid UTF-8: b'tr\xff'"
    assert found[1][1]["__ottla.errors.topic"] == "u\ufffd".encode()
    assert found[1][1]["__ottla.errors.exception.message"] == rb"column 'topic' is not valid UTF-8: b'u\xff'"


@given(TEXTS, st.booleans(), st.data())
def test_both_encoders_write_the_same_valid_json_of_any_bytes(
    texts: list[bytes | None], large: bool, data: st.DataObject
) -> None:
    count = len(texts)
    keys = unchecked([text or b"" for text in texts], large=large)
    entries = pa.MapArray.from_arrays(range(count + 1), keys, unchecked(texts, large=large))
    mask = pa.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    row = pa.StructArray.from_arrays([unchecked(texts, large=large)], ["in"], mask=mask)
    rows = batch(text=unchecked(texts, large=large), pairs=entries, row=row)
    rows = rows.slice(data.draw(st.integers(0, count - 1)))

    made = [
        records_of(rows, {}, options=options(value=JSON, encoder=encoder))[0].column(0).to_pylist()
        for encoder in ("native", "python")
    ]

    assert made[0] == made[1]
    for text, hidden, value in zip(texts[::-1], mask.to_pylist()[::-1], made[0][::-1], strict=False):
        shown = {} if text is None else {"in": replaced(text)}
        assert json.loads(value) == {
            **({} if text is None else {"text": replaced(text)}),
            "pairs": {replaced(text or b""): None if text is None else replaced(text)},
            **({} if hidden else {"row": shown}),
        }


@given(TEXTS, st.integers(0, 19))
def test_exactly_the_rows_with_wrong_text_have_a_problem(texts: list[bytes | None], start: int) -> None:
    def is_wrong(text: bytes | None) -> bool:
        return text is not None and "\ufffd" in replaced(text) and text.decode(errors="ignore").encode() != text

    lists = pa.ListArray.from_arrays([0, *range(1, len(texts) + 1)], unchecked(texts))
    rows = batch(tags=lists, name=unchecked(texts)).slice(min(start, len(texts) - 1))
    wrong = [row for row, text in enumerate(texts[-rows.num_rows :]) if is_wrong(text)]

    for positions in ([0], [1], [0, 1]):
        valid, problems = with_valid_text(rows, positions)
        assert sorted(problems) == wrong
        for at in positions:
            valid.column(at).validate(full=True)
    assert with_valid_text(rows, [0])[0].schema == rows.schema


def test_text_below_a_null_refuses_nothing() -> None:
    hidden = pa.array([True, False])
    row = pa.StructArray.from_arrays([unchecked([b"\xff", b"a"])], ["in"], mask=hidden)
    listed = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), unchecked([b"\xff", b"a"]), mask=pa.array([True, False])
    )

    valid, problems = with_valid_text(batch(row=row, listed=listed), [0, 1])

    assert problems == {}
    assert valid.to_pylist() == [{"row": None, "listed": None}, {"row": {"in": "a"}, "listed": ["a"]}]


def test_valid_columns_stay_the_arrays_that_spark_sent(nested: pa.RecordBatch) -> None:
    good = nested.slice(0, 1)

    assert with_valid_text(good.select([0, 1]), [0, 1])[0].column(1).buffers()[2].address == (
        good.column(1).buffers()[2].address
    )


def cells() -> Iterator[bytes]:
    yield from (bytes((first, second)) for first in EDGES for second in EDGES)
    yield from (bytes((first, second, third)) for first in EDGES for second in EDGES for third in EDGES)
    choice = random.Random(1)
    for _ in range(5000):
        yield bytes(choice.choice(EDGES) for _ in range(choice.randrange(4, 12)))


@pytest.mark.spark
@pytest.mark.slow
def test_any_bytes_are_replaced_as_by_to_json(spark: SparkSession) -> None:
    raw = [(bytearray(cell),) for cell in cells()]
    frame = spark.createDataFrame(raw, "raw binary").selectExpr("cast(raw as string) as text")
    frame = frame.selectExpr("text", "map(text, 1) as pairs", "array(text) as texts", "struct(text) as row")
    both = frame.select("*", functions.to_json(functions.struct("*")).alias("theirs"))

    for found in both._collect_as_arrow():  # type: ignore[operator] # PySpark 3.5 has no toArrow
        rows = pa.RecordBatch.from_arrays(found.columns, names=found.schema.names)
        theirs = rows.column(4).to_pylist()
        for encoder in ("native", "python"):
            chosen = options(value=JSON, encoder=encoder)
            ours = records_of(rows.select(range(4)), {}, options=chosen)[0].column(0).to_pylist()
            assert list(map(json.loads, ours)) == list(map(json.loads, theirs))
