"""Tables from files, datasets, lazy frames and Python iterators arrive whole; wrong ones are refused before a row."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import InvalidRecordError, TableReadError
from ottla.tables.columns import UsedColumns
from ottla.tables.sealed import TableSealer
from ottla.tables.sources import open_stream
from ottla_testkit.mock_producer import MockProducer

ROWS = pa.table({"key": ["a", "b", "c", "d"], "value": [b"1", b"2", b"3", b"4"]})
BATCHES = ROWS.to_batches(max_chunksize=2)


def parquet(folder: Path) -> Path:
    pq.write_table(ROWS, folder / "rows.parquet", row_group_size=2)
    return folder / "rows.parquet"


def arrow(folder: Path) -> Path:
    with pa.ipc.new_file(folder / "rows.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=2)
    return folder / "rows.arrow"


def arrow_stream(folder: Path) -> Path:
    with pa.ipc.new_stream(folder / "rows.arrows", ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=2)
    return folder / "rows.arrows"


class LazyFrame:
    """The methods of a polars LazyFrame that are used."""

    def collect(self) -> Any:
        return ROWS

    def collect_schema(self) -> dict[str, Any]:
        return {field.name: field.type for field in ROWS.schema}

    def select(self, names: list[str]) -> Any:
        assert names == ["key", "value"]
        return self


@pytest.mark.parametrize(
    "source",
    [
        parquet,
        arrow,
        arrow_stream,
        lambda folder: str(parquet(folder)),
        lambda folder: pq.ParquetFile(parquet(folder)),
        lambda folder: pa.dataset.dataset(parquet(folder)),
        lambda folder: pa.dataset.dataset(parquet(folder)).scanner(batch_size=1),
        lambda _folder: BATCHES,
        lambda _folder: iter(BATCHES),
        lambda _folder: (table for table in (ROWS.slice(0, 1), ROWS.slice(1))),
        lambda _folder: [ROWS.slice(0, 0), ROWS],
        lambda _folder: LazyFrame(),
        lambda _folder: ROWS.to_reader(),
    ],
    ids=[
        "Parquet",
        "Arrow",
        "Arrow stream",
        "path as text",
        "ParquetFile",
        "dataset",
        "scanner",
        "list",
        "iterator",
        "tables",
        "empty table first",
        "lazy",
        "reader",
    ],
)
def test_every_row_of_a_source_is_sent_in_order(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    with MockProducer() as producer:
        producer.send_table("orders", source(tmp_path))
        report = producer.flush()

        assert report.acknowledged == 4
        assert [(record.key, record.value) for record in producer.history] == [
            (b"a", b"1"),
            (b"b", b"2"),
            (b"c", b"3"),
            (b"d", b"4"),
        ]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The files that are opened from here on, kept: without a reference they would close by themselves."""
    files: list[Any] = []

    def recorded(kind: Any) -> Callable[..., Any]:
        def open_file(*arguments: Any) -> Any:
            files.append(kind(*arguments))
            return files[-1]

        return open_file

    monkeypatch.setattr(pa, "OSFile", recorded(pa.OSFile))
    monkeypatch.setattr(pq, "ParquetFile", recorded(pq.ParquetFile))
    return files


@pytest.mark.parametrize("written", [parquet, arrow, arrow_stream])
def test_a_file_is_closed_at_the_end_of_its_table(
    tmp_path: Path, opened: list[Any], written: Callable[[Path], Path]
) -> None:
    with MockProducer() as producer:
        producer.send_table("orders", written(tmp_path))

    assert [file.closed for file in opened] == [True]


@pytest.mark.parametrize("name", ["broken.arrow", "broken.arrows"])
def test_a_file_without_a_table_is_closed(tmp_path: Path, opened: list[Any], name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xff\xff\xff")
    with pytest.raises(InvalidRecordError):
        open_stream(tmp_path / name)

    assert [file.closed for file in opened] == [True]


@pytest.mark.parametrize("written", [parquet, arrow, arrow_stream])
@pytest.mark.parametrize(
    "arguments",
    [{"value": "typo"}, {"topic_column": "typo"}, {"value": "*", "key": "typo", "value_format": "json"}],
    ids=["column", "topics", "format"],
)
def test_a_file_is_closed_if_its_table_is_refused(
    tmp_path: Path, opened: list[Any], written: Callable[[Path], Path], arguments: dict[str, Any]
) -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="'typo'"):
        producer.send_table("orders", written(tmp_path), **arguments)

    assert [file.closed for file in opened] == [True]


def test_a_sealer_closes_a_file_if_its_table_is_refused(tmp_path: Path, opened: list[Any]) -> None:
    sealer = TableSealer({"bootstrap.servers": "127.0.0.1:1"}, {"orders": 1})
    with pytest.raises(InvalidRecordError, match="'typo'"):
        sealer.seal("orders", parquet(tmp_path), value="typo")

    assert [file.closed for file in opened] == [True]


SHORT_VIEWS = pa.table({"value": pa.array(["x", "y"]).cast(pa.string_view())})
SHORT_STRUCTS = pa.StructArray.from_arrays([SHORT_VIEWS["value"].chunk(0)], ["value"])


@pytest.mark.parametrize(
    "table",
    [SHORT_VIEWS, SHORT_VIEWS.to_batches()[0], [SHORT_VIEWS], SHORT_STRUCTS, pa.chunked_array([SHORT_STRUCTS])],
    ids=["table", "batch", "list", "structs", "chunks"],
)
def test_texts_of_a_view_that_all_are_short_are_sent(table: Any) -> None:
    """pyarrow before 25 killed the process: its own tables must not pass through Arrow's C interface."""
    with MockProducer() as producer:
        producer.send_table("t", table).result(5)

        assert [record.value for record in producer.history] == [b"x", b"y"]


@given(st.lists(st.integers(0, 5), max_size=8))
def test_batches_of_any_sizes_are_sent_whole(sizes: list[int]) -> None:
    tables = [
        pa.table({"value": [f"{number}-{row}" for row in range(size)]}, pa.schema({"value": pa.string()}))
        for number, size in enumerate(sizes)
    ]
    sent = [text for table in tables for text in table["value"].to_pylist()]
    if not tables:
        return

    stream = open_stream(iter(tables))

    assert [text for batch in stream for text in batch.column(0).to_pylist()] == sent
    assert stream.schema == tables[0].schema


def test_all_other_columns_become_fields_of_the_value() -> None:
    table = pa.table({"key": ["a"], "id": [7], "name": ["apple"], "at": [5]})
    with MockProducer() as producer:
        producer.send_table("orders", table, value="*", value_format="json", timestamp="at")
        producer.flush()

        [record] = producer.history
        assert (record.key, record.value, record.timestamp_ms) == (b"a", b'{"id":7,"name":"apple"}', 5)


def test_a_table_without_other_columns_is_refused() -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="no other columns than key"):
        producer.send_table("orders", pa.table({"key": ["a"]}), value="*", value_format="json")


def test_a_table_without_columns_is_refused() -> None:
    with MockProducer() as producer:
        with pytest.raises(InvalidRecordError, match=r"value='\*': the table has no columns$"):
            producer.send_table("orders", pa.table({}), value="*", value_format="json")
        with pytest.raises(InvalidRecordError, match="the table has no column 'a'; it has none; name those"):
            producer.send_table("orders", pa.table({}), value=["a"], value_format="json")


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.parquet", None, r"the file '.*none\.parquet' cannot be read as a table: "),
        ("broken.parquet", b"PAR1", r"the file '.*broken\.parquet' cannot be read as a table: "),
        ("broken.arrow", b"ARROW1", r"the file '.*broken\.arrow' cannot be read as a table: "),
        ("broken.arrows", b"\xff\xff\xff\xff", r"the file '.*broken\.arrows' cannot be read as a table: "),
        ("rows.csv", b"a,b", r"the path '.*rows\.csv' is not a table: its name must end in \.arrow, \.arrows, "),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match=words):
        producer.send_table("orders", tmp_path / name)


def test_an_iterable_without_a_batch_is_refused() -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="the list has no batch"):
        producer.send_table("orders", [])


# Errors in the middle


def failing(error: BaseException) -> Iterator[Any]:
    yield BATCHES[0]
    raise error


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (failing(ValueError("no more")), "the table's stream failed: no more"),
        (iter([BATCHES[0], 3]), "item 1 of the table is of type int, not a pyarrow record batch"),
        (
            iter([BATCHES[0], pa.table({"value": [1]})]),
            "batch 1 has the columns value: int64, the first one key: string",
        ),
    ],
)
def test_rows_before_an_error_of_a_stream_are_sent(stream: Iterator[Any], words: str) -> None:
    with MockProducer() as producer:
        with pytest.raises(TableReadError, match=words) as caught:
            producer.send_table("orders", stream)

        assert caught.value.delivery is not None
        assert caught.value.delivery.rows == 2
        assert producer.flush().acknowledged == 2


INVALID = pa.array([b"good", b"O\xffA"]).view(pa.string())
"""Text as `DataFrame.toArrow` of Spark may have it; pyarrow's own error names no column."""


@pytest.mark.parametrize(
    ("column", "arguments", "what"),
    [
        (INVALID, {"value": ["text", "other"], "value_format": "json"}, "column 'other' is not valid: Invalid UTF8"),
        (INVALID, {"key": "other", "key_format": "json", "value": "text"}, "column 'other' is not valid: Invalid UTF8"),
        (INVALID, {"topic": None, "topic_column": "other", "value": "text"}, "column 'other' is not valid: Invalid UT"),
        (
            pa.MapArray.from_arrays([0, 1, 2], INVALID, pa.array([b"1", b"2"])),
            {"headers": "other", "value": "text"},
            "the column of headers is not valid: .*Invalid UTF8",
        ),
    ],
)
def test_a_column_that_is_not_valid_is_named(column: pa.Array, arguments: dict[str, Any], what: str) -> None:
    table = pa.table({"text": ["a", "b"], "other": column})
    given = {"topic": "orders", **arguments}
    with MockProducer() as producer, pytest.raises(TableReadError, match=what):
        producer.send_table(given.pop("topic"), table, **given)


def test_a_batch_of_a_reader_with_columns_in_another_order_is_refused() -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])
    swapped = [pa.record_batch({"key": ["k"], "value": ["v"]}), pa.record_batch({"value": ["v"], "key": ["k"]})]
    with MockProducer() as producer:
        with pytest.raises(
            TableReadError, match="batch 1 has the columns value: string, key: string, the first one key"
        ):
            producer.send_table("orders", pa.RecordBatchReader.from_batches(schema, iter(swapped)))
        producer.flush()

    assert [(sent.key, sent.value) for sent in producer.history] == [(b"k", b"v")]


def test_batches_may_differ_in_whether_cells_can_be_null() -> None:
    required = pa.schema([pa.field("value", pa.string(), nullable=False)])
    batches = [pa.record_batch({"value": ["a"]}), pa.record_batch([["b"]], schema=required)]
    with MockProducer() as producer:
        assert producer.send_table("orders", iter(batches)).result(10).acknowledged == 2


def test_an_error_of_code_behind_a_reader_is_the_cause() -> None:
    reader = pa.RecordBatchReader.from_batches(BATCHES[0].schema, failing(OSError("the disk is gone")))
    with MockProducer() as producer:
        with pytest.raises(TableReadError, match="the disk is gone") as caught:
            producer.send_table("orders", reader)
        producer.flush()

    assert isinstance(caught.value.__cause__, OSError)


def test_an_error_of_the_first_batch_is_an_error_of_the_stream() -> None:
    def broken() -> Iterator[Any]:
        raise OSError("the disk is gone")
        yield BATCHES[0]

    with MockProducer() as producer, pytest.raises(TableReadError, match="the disk is gone"):
        producer.send_table("orders", broken())


@pytest.mark.parametrize(
    "as_table",
    [lambda batches: batches, lambda batches: pa.RecordBatchReader.from_batches(BATCHES[0].schema, batches)],
    ids=["iterator", "reader"],
)
def test_ctrl_c_in_a_python_iterator_is_ctrl_c(as_table: Callable[[Iterator[Any]], Any]) -> None:
    with MockProducer() as producer:
        with pytest.raises(KeyboardInterrupt) as caught:
            producer.send_table("orders", as_table(failing(KeyboardInterrupt())))
        producer.flush()
        taken = caught.value.delivery  # type: ignore[attr-defined]

        assert {record.value for record in producer.history} <= {b"1", b"2"}
        assert taken.rows - len(taken.failed_rows()) == len(producer.history)


def test_a_relation_of_duckdb_is_sent_with_the_columns_that_it_computes() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE orders AS SELECT range AS id, range * 1.5 AS price FROM range(3)")
        relation = connection.sql("SELECT 'c' || id AS key, {'id': id, 'gross': price * 2} AS value FROM orders")
        expression = connection.table("orders").filter("id > 0").project("id::VARCHAR AS key, price + 1 AS value")

        with MockProducer() as producer:
            producer.send_table("t", relation, value_format="json").result(10)
            producer.send_table("t", expression, value_format="json").result(10)

    assert [(sent.key, sent.value) for sent in producer.history] == [
        (b"c0", b'{"id":0,"gross":0.0}'),
        (b"c1", b'{"id":1,"gross":3.0}'),
        (b"c2", b'{"id":2,"gross":6.0}'),
        (b"1", b"2.5"),
        (b"2", b"4.0"),
    ]


def test_a_relation_of_duckdb_is_read_batch_by_batch() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        stream = open_stream(connection.sql("SELECT range::VARCHAR AS value FROM range(1_000_000_000_000)"))

        assert next(iter(stream)).num_rows < 10_000_000, "a whole result would not fit into memory"


def test_a_failing_query_of_duckdb_raises_its_error() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection, MockProducer() as producer, pytest.raises(duckdb.Error, match="boom"):
        producer.send_table("t", connection.sql("SELECT error('boom') AS value"))


def test_a_connection_of_duckdb_is_refused_with_what_to_pass() -> None:
    duckdb = pytest.importorskip("duckdb")
    refused = pytest.raises(InvalidRecordError, match=r"connection\.sql returns a relation, which is one")
    with duckdb.connect() as connection, MockProducer() as producer, refused:
        producer.send_table("t", connection.execute("SELECT 'v' AS value"))


def test_a_series_is_refused_with_what_makes_a_table_of_it() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(["v"], name="value")
    with MockProducer() as producer:
        with pytest.raises(
            InvalidRecordError, match=r"an object of type Series is not a table.*; its to_frame\(\) makes one"
        ):
            producer.send_table("t", series)

        producer.send_table("t", series.to_frame()).result(10)
    assert [sent.value for sent in producer.history] == [b"v"]


@pytest.mark.parametrize(
    ("index", "names"),
    [
        ([5, 7], [None]),
        ([5, 7], ["id"]),
        ([5, 7], ["key"]),
        (["a", "b"], ["topic"]),
        ([(1, "x"), (3, "y")], ["q", "key"]),
        ([b"bytes", 1.5], [None]),
    ],
    ids=str,
)
def test_the_index_of_a_frame_is_no_column(index: Any, names: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=pandas.Index(index))
    frame.index.names = names
    expected = [b'{"a":1,"b":"x"}', b'{"a":2,"b":"y"}']
    with MockProducer() as producer:
        producer.send_table("t", frame, value="*", value_format="json").result(10)
        producer.send_table("t", (each for each in [frame]), value="*", value_format="json").result(10)
        assert [(sent.key, sent.value) for sent in producer.history] == [(None, value) for value in expected * 2]

        with pytest.raises(InvalidRecordError, match="'a'"):
            producer.send_table("t", frame.set_index("a"), key="a", value="b")


def test_a_frame_with_a_stream_of_its_own_is_sent_as_that_stream() -> None:
    pandas = pytest.importorskip("pandas")

    class OfAnother(pandas.DataFrame):  # type: ignore[misc,name-defined]
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return ROWS.__arrow_c_stream__(requested_schema)

    with MockProducer() as producer:
        producer.send_table("t", OfAnother({"a": [1]})).result(10)
        assert [sent.value for sent in producer.history] == [b"1", b"2", b"3", b"4"]


def test_a_frame_that_arrow_cannot_hold_is_refused_with_the_reason() -> None:
    pandas = pytest.importorskip("pandas")
    refused = pytest.raises(
        InvalidRecordError, match=r"the DataFrame cannot be read as a table: [^(]*, [^(]*column value[^)]*$"
    )
    with MockProducer() as producer, refused:
        producer.send_table("t", pandas.DataFrame({"value": ["text", 1]}))


class Unreadable:
    """A frame that its library cannot give to Arrow: pandas with two columns of one name, or a sparse one."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise self._error


class FrameOfPolars:
    """The parts of a polars frame that are used: its types, and what it gives to Arrow."""

    def __init__(self, **types: str) -> None:
        self.schema = types

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if "Int128" in self.schema.values():
            raise ValueError("Invalid or unsupported format string: '_pli128'")
        made = {name: pa.array([b"12345678"], pa.binary(8)) for name in self.schema}
        return pa.table(made).__arrow_c_stream__(requested_schema)


FrameOfPolars.__module__ = "polars.dataframe.frame"


class OwnFrame(FrameOfPolars):
    """A program's own kind of polars frame."""


@pytest.mark.parametrize("kind", [FrameOfPolars, OwnFrame])
def test_python_objects_of_polars_are_not_sent_as_their_addresses(kind: Callable[..., Any]) -> None:
    said = "column 'b' of the polars frame has the type Object.*make it text or bytes"
    with MockProducer() as producer:
        for table in (kind(value="Binary", b="Object"), [kind(value="Binary", b="Object")]):
            with pytest.raises(InvalidRecordError, match=said):
                producer.send_table("t", table)

        producer.send_table("t", kind(value="Binary")).result(10)
    assert [sent.value for sent in producer.history] == [b"12345678"]


def test_a_column_of_polars_whose_type_arrow_lacks_is_named() -> None:
    said = r"_pli128'; column 'b' has the type Int128: cast to Int64, or to a Decimal$"
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match=said):
        producer.send_table("t", FrameOfPolars(value="Binary", b="Int128"))


class UnreadableBatch:
    """The same with the interface of one batch."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        raise TypeError("sparse data (column c)")


@pytest.mark.parametrize("error", [ValueError("duplicate column names"), TypeError("sparse data (column c)")])
def test_a_frame_that_its_library_cannot_export_is_refused(error: Exception) -> None:
    said = re.escape(f"the Unreadable cannot be read as a table: {error}")
    with MockProducer() as producer:
        for table in (Unreadable(error), [Unreadable(error)]):
            with pytest.raises(InvalidRecordError, match=said):
                producer.send_table("t", table)
        with pytest.raises(TableReadError, match=said):
            producer.send_table("t", iter([ROWS, Unreadable(error)]))


@pytest.mark.parametrize("batch", [UnreadableBatch(), pa.array([1])], ids=["of another library", "no struct"])
def test_a_batch_that_cannot_be_exported_is_refused(batch: Any) -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="cannot be read as a table"):
        producer.send_table("t", batch)


def test_a_reader_of_csv_is_a_table_and_a_path_of_csv_is_refused_with_it(tmp_path: Path) -> None:
    from pyarrow import csv

    file = tmp_path / "rows.csv"
    file.write_text("key,value\na,1\n")
    with MockProducer() as producer:
        with pytest.raises(InvalidRecordError, match=r"for CSV pass pyarrow\.csv\.open_csv\(path\)"):
            producer.send_table("t", file)

        producer.send_table("t", csv.open_csv(file), value_format="json").result(10)
    assert [(sent.key, sent.value) for sent in producer.history] == [(b"a", b"1")]


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("pyarrow", "PluginNotFoundError: send_table needs pyarrow; try: pip install 'ottla[arrow]'"),
        ("pyarrow.compute", "PluginNotFoundError: send_table needs pyarrow; try: pip install 'ottla[arrow]'"),
        ("ottla.tables.columns", "ModuleNotFoundError: import of ottla.tables.columns halted"),
    ],
)
def test_a_table_says_what_to_install_if_that_is_pyarrow(missing: str, error: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from ottla_testkit.mock_producer import MockProducer
with MockProducer() as producer:
    producer.send_table("t", [])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert ran.stderr.strip().splitlines()[-1].removeprefix("ottla.errors.exceptions.").startswith(error)


WIDE = pa.table(
    {
        "unused": ["x" * 50] * 4,
        "value": [b"1", b"2", b"3", b"4"],
        "nested": pa.array([{"value": 1}] * 4),
        "key": ["a", "b", "c", "d"],
    }
)


def wide_parquet(folder: Path) -> Path:
    pq.write_table(WIDE, folder / "wide.parquet", row_group_size=2)
    return folder / "wide.parquet"


def wide_arrow(folder: Path, *, stream: bool = False) -> Path:
    path = folder / ("wide.arrows" if stream else "wide.arrow")
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, WIDE.schema) as writer:
        writer.write_table(WIDE, max_chunksize=2)
    return path


class WideLazyFrame:
    """The methods of a polars LazyFrame that are used."""

    def __init__(self, table: Any = WIDE) -> None:
        self.table = table

    def select(self, names: list[str]) -> WideLazyFrame:
        return WideLazyFrame(self.table.select(names))

    def collect(self) -> Any:
        return self.table

    def collect_schema(self) -> dict[str, Any]:
        return {field.name: field.type for field in self.table.schema}


each_wide_source = pytest.mark.parametrize(
    "source",
    [
        wide_parquet,
        wide_arrow,
        lambda folder: wide_arrow(folder, stream=True),
        lambda folder: pq.ParquetFile(wide_parquet(folder)),
        lambda folder: pyarrow.dataset.dataset(wide_parquet(folder)),
        lambda _folder: WideLazyFrame(),
    ],
    ids=["Parquet", "Arrow", "Arrow stream", "ParquetFile", "dataset", "lazy"],
)


def names(value: Any, **others: Any) -> UsedColumns:
    """What a call of `send_table` names, with its defaults."""
    topic = others.pop("topic", None)
    given = {"key": ..., "headers": None, "partition": None, "timestamp": None, **others}
    return UsedColumns(columns={"value": value, **given}, topic=topic)


@each_wide_source
@pytest.mark.parametrize(
    ("used", "read"),
    [
        (names("value"), ["value", "key"]),
        (names("value", key=None), ["value"]),
        (names(["key", "unused"], key=None), ["unused", "key"]),
        (names("value", key=["key"], topic="unused"), ["unused", "value", "key"]),
        (names("nested", key=None), ["nested"]),
    ],
)
def test_only_the_columns_that_are_sent_are_read(
    tmp_path: Path, source: Callable[[Path], Any], used: UsedColumns, read: list[str]
) -> None:
    stream = open_stream(source(tmp_path), used)
    batches = list(stream)

    assert stream.schema.names == read
    assert pa.Table.from_batches(batches, stream.schema).equals(WIDE.select(read))


@each_wide_source
@pytest.mark.parametrize(
    "used", [names("*"), names("absent"), names("value", timestamp="absent"), names(5), names([{}]), names(None)]
)
def test_all_columns_are_read_if_all_are_sent_or_a_name_is_wrong(
    tmp_path: Path, source: Callable[[Path], Any], used: UsedColumns
) -> None:
    read = ["key"] if used == names(None) else WIDE.schema.names

    assert open_stream(source(tmp_path), used).schema.names == read


def test_a_file_is_read_whole_by_default_also_with_a_column_named_star(tmp_path: Path) -> None:
    table = pa.table({"*": ["a"], "value": ["b"]})
    pq.write_table(table, tmp_path / "stars.parquet")

    assert open_stream(tmp_path / "stars.parquet").schema.names == ["*", "value"]


def test_an_error_names_all_columns_of_a_file(tmp_path: Path) -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match="it has 'unused', 'value', 'nested', 'k"):
        producer.send_table("orders", wide_parquet(tmp_path), value="absent")


def test_names_that_may_be_paths_or_patterns_are_read_with_the_rest(tmp_path: Path) -> None:
    table = pa.table({"a.b": [b"1"], "a": pa.array([{"b": b"2"}]), "^a$": [b"3"]})
    pq.write_table(table, tmp_path / "paths.parquet")
    with MockProducer() as producer:
        producer.send_table("t", tmp_path / "paths.parquet", value="a.b")
        producer.send_table("t", WideLazyFrame(table.select(["^a$"])), value="^a$")

        assert [record.value for record in producer.history] == [b"1", b"3"]


class FrameOfPolarsOne(WideLazyFrame):
    """One that calls a function for the whole frame, which would get the selected columns only."""

    def explain(self, *, optimized: bool) -> str:
        assert not optimized
        return "FILTER\n  OPAQUE_PYTHON\n    DF"

    def select(self, names: list[str]) -> WideLazyFrame:
        raise AssertionError("it is collected as it is")


class FrameWithStar(WideLazyFrame):
    """One with a column that has the name of all columns."""

    def __init__(self) -> None:
        super().__init__(pa.table({"key": [b"k"], "*": [b"v"], "unused": [1]}))

    def select(self, names: list[str]) -> WideLazyFrame:
        raise AssertionError("polars would select all columns for the star, and refuse those that are there twice")


def test_a_lazy_frame_that_calls_a_function_gives_it_all_columns() -> None:
    assert open_stream(FrameOfPolarsOne(), names("value")).schema.names == WIDE.schema.names


@pytest.mark.parametrize("stream", [False, True])
def test_a_name_that_a_file_has_twice_is_refused_and_others_are_read(tmp_path: Path, stream: bool) -> None:
    table = pa.table([[b"1"], [b"2"], [b"3"]], ["value", "twice", "twice"])
    path = tmp_path / ("twice.arrows" if stream else "twice.arrow")
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table)
    with MockProducer() as producer:
        with pytest.raises(InvalidRecordError, match="the table has 2 columns of this name"):
            producer.send_table("t", path, value="twice")
        producer.send_table("t", path)

        assert [record.value for record in producer.history] == [b"1"]


def test_a_lazy_frame_may_have_a_column_named_star() -> None:
    with MockProducer() as producer:
        producer.send_table("t", FrameWithStar(), value="*")

        assert [(record.key, record.value) for record in producer.history] == [(b"k", b"v")]


@each_wide_source
def test_records_of_several_columns_are_made_of_what_was_read(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    with MockProducer() as producer:
        producer.send_table("t", source(tmp_path), value=["key", "nested"], key=None, value_format="json")

        assert producer.history[3].value == b'{"key":"d","nested":{"value":1}}'
