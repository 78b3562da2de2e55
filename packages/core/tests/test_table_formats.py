"""`send_table` with `value_format`: values made of whole columns, by a serializer that can."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, ClassVar
from uuid import UUID

import pyarrow as pa
import pytest

from ottla.config import ConfigDraft
from ottla.errors import (
    ConfigError,
    InvalidPluginError,
    InvalidRecordError,
    NotPreparedError,
    PluginNotFoundError,
    RowSerializationError,
    SerializationError,
)
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Header
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose
from ottla.plugins.serializers.json import JsonSerializer
from ottla.plugins.serializers_by_name import SerializersByName
from simulated_producer import Simulated, simulated

TABLE = pa.table(
    {
        "value": pa.array([{"id": 1, "name": "a"}, None, {"id": None, "name": "ü"}, {"id": 4, "name": None}]),
        "key": ["k", "l", "m", "n"],
        "price": [1.5, None, 3.0, 4.0],
        "text": ["a", "b", "c", "d"],
    }
)


class Bracketed:
    """A third-party format, of any column: its text in brackets."""

    made: ClassVar[list[str]] = []

    def __init__(self, left: str = "<") -> None:
        self._left = left
        self.made.append(left)

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        return None if data is None else f"{self._left}{data}>".encode()

    def serialize_column(self, topic: str, column: Any) -> Any:
        if pa.types.is_struct(column.type):
            raise TypeError("it takes no structs")
        found = [self.serialize(topic, cell, ()) for cell in column.to_pylist()]
        if b"<bad>" in found:
            raise ValueError("a cell is bad")
        return pa.array(found, pa.binary())


class Plugin:
    @hookimpl
    def ottla_config_keys(self) -> Sequence[ConfigKey]:
        return [ConfigKey(name="acme.left", type=_left, default="<", meaning="What stands before.", secret=False)]

    @hookimpl
    def ottla_serializer(self, config: Any) -> Bracketed:
        return Bracketed(config["acme.left"])


def _left(raw: Any) -> str:
    if raw not in ("<", "["):
        raise ValueError("it is < or [")
    return str(raw)


def made(name: str) -> Any:
    return {"json": JsonSerializer, "bracketed": Bracketed}[name]()


def in_formats(**options: Any) -> Any:
    return simulated(1, plugins={"value_formats": SerializersByName(make=made)}, **options)


def values(simulation: Simulated) -> list[bytes | None]:
    simulation.run_until_idle()
    return simulation.log()


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_struct_column_is_sent_as_json_and_a_null_row_as_a_tombstone(encoder: str) -> None:
    with in_formats(record_encoder=encoder) as simulation:
        delivery = simulation.producer.send_table("t", TABLE, value_format="json")

        assert values(simulation) == [b'{"id":1,"name":"a"}', None, '{"name":"ü"}'.encode(), b'{"id":4}']
        assert delivery.result(0).acknowledged == 4
        assert [record.key for record in simulation.cluster.topics["t"].log[0]] == [b"k", b"l", b"m", b"n"]


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_categories_of_polars_are_json_like_any_text(encoder: str) -> None:
    category = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0], pa.uint32()), pa.array(["x", "y"], pa.string_view())
    )
    table = pa.table({"key": category, "a": category, "b": pa.ListArray.from_arrays([0, 0, 1, 3], category)})
    with in_formats(record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", table, value="*", value_format="json", key_format="json")

        assert values(simulation) == [b'{"a":"y","b":[]}', b'{"b":["y"]}', b'{"a":"x","b":[null,"x"]}']
        assert [record.key for record in simulation.cluster.topics["t"].log[0]] == [b'"y"', None, b'"x"']


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_uuids_and_runs_are_json_as_key_and_value(encoder: str) -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None, b"\xff" * 16], pa.binary(16)))
    table = pa.table({"id": uuids, "run": RUNS})
    with in_formats(record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", table, key="id", key_format="json", value="*", value_format="json")
        simulation.producer.send_table("t", table, key="run", key_format="json", value="run", value_format="json")

        assert values(simulation) == [b'{"run":"a"}', b'{"run":"a"}', b"{}", b'"a"', b'"a"', None]
        keys = [record.key for record in simulation.cluster.topics["t"].log[0]]
        zeros, ones = str(UUID(int=0)).encode(), str(UUID(int=2**128 - 1)).encode()
        assert keys == [b'"%b"' % zeros, None, b'"%b"' % ones, b'"a"', b'"a"', None]


RUNS = pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None])
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        (UNION, SerializationError, "sparse_union<0: int64=0> has no JSON form"),
        (pa.ListArray.from_arrays([0, 3], RUNS), InvalidRecordError, "column 'c' has a type .*; cast it first"),
    ],
    ids=["union", "runs in a list"],
)
def test_a_type_that_arrow_makes_no_array_of_is_refused(column: pa.Array, error: type[Exception], said: str) -> None:
    table = pa.table({"c": column, "id": pa.array(range(len(column)))})
    with in_formats() as simulation:
        with pytest.raises(error, match=said):
            simulation.producer.send_table("t", table, value="c", value_format="json")

        simulation.producer.send_table("t", table, value="id", value_format="json")
        assert values(simulation)[0] == b"0"


def test_several_columns_are_the_fields_of_one_value() -> None:
    with in_formats() as simulation:
        simulation.producer.send_table("t", TABLE, value=["text", "price", "key"], value_format="json")

        found = [json.loads(value or b"") for value in values(simulation)]
        assert found[:2] == [{"text": "a", "price": 1.5, "key": "k"}, {"text": "b", "key": "l"}]


def test_a_column_may_be_both_value_and_key() -> None:
    with in_formats() as simulation:
        simulation.producer.send_table("t", TABLE, value="text", key="text", value_format="bracketed")
        simulation.run_until_idle()

        [first, *_] = simulation.cluster.topics["t"].log[0]
        assert (first.key, first.value) == (b"a", b"<a>")


def test_a_stream_of_many_batches_keeps_its_order() -> None:
    table = pa.table({"value": pa.array([{"n": number, "text": "x" * 500} for number in range(5_000)])})
    with in_formats(buffer_memory=16 << 20) as simulation:
        simulation.producer.send_table("t", table.to_reader(max_chunksize=70), value_format="json")

        assert [json.loads(value or b"")["n"] for value in values(simulation)] == list(range(5_000))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"value_format": "bracketed"}, SerializationError, r"value_format='bracketed': column 'value' .*no structs"),
        (
            {"value_format": "json", "value": "nothing"},
            InvalidRecordError,
            "the table has no column 'nothing'; it has .*; name those .* or set value='\\*' for all other columns",
        ),
        (
            {"value_format": "json", "value": ["text", "text"]},
            InvalidRecordError,
            "column 'text' occurs more than once",
        ),
        ({"value_format": "json", "value": []}, InvalidRecordError, "at least one column"),
        ({"value_format": "json", "value": None}, InvalidRecordError, "name the columns that the value is made of"),
        ({"value_format": 7}, InvalidRecordError, "value_format=7: the name of a serializer plugin"),
        ({"value": ["text"]}, InvalidRecordError, "several columns need a format, such as value_format='json'"),
        ({}, InvalidRecordError, "column 'value' is struct.*or set value_format"),
    ],
)
def test_an_impossible_format_is_reported_before_any_row_is_queued(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with in_formats() as simulation:
        with pytest.raises(error, match=said):
            simulation.producer.send_table("t", TABLE, **arguments)

        assert not simulation.accumulator.incomplete


def test_a_cell_that_cannot_be_serialized_ends_the_table_after_the_rows() -> None:
    good = pa.record_batch({"value": ["x" * 500] * 2_000})
    reader = pa.RecordBatchReader.from_batches(good.schema, [good, pa.record_batch({"value": ["bad"]})])
    with in_formats() as simulation:
        with pytest.raises(SerializationError, match="a cell is bad") as raised:
            simulation.producer.send_table("t", reader, value_format="bracketed")

        assert len(values(simulation)) == 2_000
        assert raised.value.delivery is not None
        assert raised.value.delivery.rows == 2_000


@pytest.mark.parametrize("wrong", [pa.array([], pa.int32()), pa.array([b"more"]), [b"no array"], None])
def test_a_serializer_that_makes_no_column_of_bytes_is_named(wrong: Any) -> None:
    class Wrong(Bracketed):
        def serialize_column(self, topic: str, column: Any) -> Any:
            return wrong

    with (
        simulated(1, plugins={"value_formats": SerializersByName(make=lambda _name: Wrong())}) as simulation,
        pytest.raises(
            InvalidPluginError,
            match=r"value_format='acme': serialize_column of the serializer .* returned .*bytes or texts; .*_format",
        ),
    ):
        simulation.producer.send_table("t", TABLE, value="text", value_format="acme")


def test_the_remedy_for_a_format_that_fails_is_another_format() -> None:
    class Wrong(Bracketed):
        def serialize_column(self, topic: str, column: Any) -> Any:
            raise KeyError("column")

    with (
        simulated(1, plugins={"value_formats": SerializersByName(make=lambda _name: Wrong())}) as simulation,
        pytest.raises(
            SerializationError, match=r"failed: KeyError: 'column'; .*authors, or set value_format to another one$"
        ),
    ):
        simulation.producer.send_table("t", TABLE, value="text", value_format="acme")


class Refusing(Bracketed):
    """A format that refuses some cells, and names their rows in the column that it was given."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        refused = {row: f"{cell} is refused" for row, cell in enumerate(column.to_pylist()) if cell in ("c", "e")}
        if refused:
            raise RowSerializationError(refused)
        return super().serialize_column(topic, column)


def test_refused_cells_are_named_by_their_rows_in_the_table() -> None:
    parts: Sequence[list[str]] = (["a", "b"], [], ["x", "c"], ["e"])
    batches = [pa.record_batch({"value": pa.array(cells, pa.string())}) for cells in parts]
    with simulated(1, plugins={"value_formats": SerializersByName(make=lambda _name: Refusing())}) as simulation:
        with pytest.raises(SerializationError) as caught:
            simulation.producer.send_table("t", pa.Table.from_batches(batches), value_format="refusing")

        assert values(simulation) == [b"<a>", b"<b>"]
    assert "column 'value' for topic 't' could not be serialized: row 3: c is refused" in str(caught.value)


class Unprepared(Bracketed):
    """A format that needs a lookup, and cannot be asked to do it."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        raise NotPreparedError("the schema is not known")


def test_a_format_that_needs_a_lookup_but_cannot_do_it_is_named() -> None:
    unprepared = SerializersByName(make=lambda _name: Unprepared())
    with (
        simulated(1, plugins={"value_formats": unprepared}) as simulation,
        pytest.raises(SerializationError) as caught,
    ):
        simulation.producer.send_table("t", TABLE, value="text", value_format="unprepared")

    assert (
        "value_format='unprepared': column 'text' for topic 't' could not be serialized: the schema is not known"
        in (str(caught.value))
    )


def test_a_serializer_whose_columns_change_their_type_is_named() -> None:
    class Wrong(Bracketed):
        def serialize_column(self, topic: str, column: Any) -> Any:
            return super().serialize_column(topic, column) if len(column) else pa.array([])

    with (
        simulated(1, plugins={"value_formats": SerializersByName(make=lambda _name: Wrong())}) as simulation,
        pytest.raises(
            InvalidPluginError,
            match=r"value_format='acme': serialize_column of the serializer .* returned .* of .*not null, the type",
        ),
    ):
        simulation.producer.send_table("t", TABLE, value="text", value_format="acme")


def test_a_serializer_without_columns_is_refused_with_a_remedy() -> None:
    class OneByOne:
        def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
            return None

    formats = SerializersByName(make=lambda _name: OneByOne())

    with pytest.raises(InvalidRecordError, match=r"value_format='acme'.*no serialize_column; send the rows by `send`"):
        formats.of("acme")


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Install a third-party serializer in addition to the others."""
    module = ModuleType("acme_serializer")
    module.plugin = Plugin()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_serializer", module)
    monkeypatch.setattr(Bracketed, "made", [])
    installed = Registry()
    named = [EntryPoint("Acme", "acme_serializer:plugin", "ottla.serializers")]
    return Registry([*(info.entry_point for infos in installed._infos.values() for info in infos), *named])


def formats(registry: Registry, **config: Any) -> SerializersByName:
    draft = ConfigDraft.read({"bootstrap.servers": "localhost:9092", **config})
    return choose(draft, registry)[1].value_formats


def test_a_third_party_serializer_is_used_by_name_with_its_own_keys(third_party: Registry) -> None:
    found = formats(third_party, **{"acme.left": "["})

    assert Bracketed.made == []
    assert found.of("acme").serialize_column("t", pa.array(["a"])).to_pylist() == [b"[a>"]
    found.of(" ACME ")
    assert Bracketed.made == ["["]


def test_the_value_serializer_of_the_producer_is_used_by_its_name(third_party: Registry) -> None:
    found = formats(third_party, **{"value.serializer": "acme"})
    found.of("acme")

    assert Bracketed.made == ["<"]


def test_a_wrong_key_of_a_format_is_reported_when_it_is_used(third_party: Registry) -> None:
    with pytest.raises(ConfigError, match=r"acme\.left"):
        formats(third_party, **{"acme.left": "wrong"}).of("acme")


def test_an_unknown_format_is_reported_as_missing(third_party: Registry) -> None:
    with pytest.raises(PluginNotFoundError, match="no serializer is named 'thrift'"):
        formats(third_party).of("thrift")
