"""Tests that the serializer meets all requirements, and its own promises."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from ottla.interfaces import Serializer
from ottla_testkit.mock_producer import MockProducer

from ottla_serializer_msgpack import MsgpackSerializer
from ottla_serializer_msgpack.conformance import MOMENT, MsgpackConformance
from ottla_serializer_msgpack.plugin import CONTENT_TYPE, DEFAULT_CONTENT_TYPE, ottla_config_keys, ottla_serializer


class TestMsgpack(MsgpackConformance):
    @pytest.fixture
    def serializer(self) -> Serializer:
        return MsgpackSerializer(part="value", content_type=DEFAULT_CONTENT_TYPE)


class TestMsgpackOfKeys(MsgpackConformance):
    @pytest.fixture
    def serializer(self) -> Serializer:
        return MsgpackSerializer(part="key", content_type="")


def packed(data: Any) -> bytes | None:
    return MsgpackSerializer(part="value", content_type="").serialize("t", data, [])


def column(array: Any) -> list[bytes | None]:
    rows: list[bytes | None] = MsgpackSerializer(part="value", content_type="").serialize_column("t", array).to_pylist()
    return rows


# From the specification: the first and the last value of each form.
@pytest.mark.parametrize(
    ("data", "head", "size"),
    [
        (127, "7f", 1),
        (255, "cc", 2),
        (256, "cd", 3),
        (2**16, "ce", 5),
        (2**32, "cf", 9),
        (-32, "e0", 1),
        (-128, "d0", 2),
        (-129, "d1", 3),
        (-(2**15) - 1, "d2", 5),
        (-(2**31) - 1, "d3", 9),
        ("x" * 31, "bf", 32),
        ("x" * 32, "d920", 34),
        ("x" * 256, "da0100", 259),
        ("x" * 2**16, "db00010000", 2**16 + 5),
        (b"x" * 255, "c4ff", 257),
        (b"x" * 256, "c50100", 259),
        (b"x" * 2**16, "c600010000", 2**16 + 5),
        ([0] * 15, "9f", 16),
        ([0] * 16, "dc0010", 19),
        ([0] * 2**16, "dd00010000", 2**16 + 5),
        (dict.fromkeys(range(15)), "8f", 31),
        (dict.fromkeys(range(16)), "de0010", 35),
    ],
)
def test_each_form_begins_and_ends_where_it_should(data: Any, head: str, size: int) -> None:
    made = packed(data)

    assert made is not None
    assert (made[: len(head) // 2].hex(), len(made)) == (head, size)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime.datetime(2106, 2, 7, 6, 28, 15, tzinfo=datetime.UTC), "d6ffffffffff"),
        (datetime.datetime(2106, 2, 7, 6, 28, 16, tzinfo=datetime.UTC), "d7ff0000000100000000"),
        (datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC), "d7ff00000fa000000000"),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 1, datetime.UTC), "c70cff000003e8ffffffffffffffff"),
    ],
)
def test_moments_have_the_three_forms_of_the_specification(moment: datetime.datetime, expected: str) -> None:
    assert packed(moment) == bytes.fromhex(expected)
    assert column(pa.array([moment], pa.timestamp("us", "UTC"))) == [bytes.fromhex(expected)]


def test_a_map_of_a_column_is_a_mapping() -> None:
    maps = pa.array([[("skipped", 0)], [("a", 1)], None, [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int8()))

    assert column(maps[1:]) == [packed({"a": 1}), None, packed({"b": 2, "c": None}), packed({})]


def test_nanoseconds_of_a_column_are_kept() -> None:
    [row] = column(pa.array([1], pa.timestamp("ns", "Europe/Berlin")))

    assert row == bytes.fromhex("d7ff") + (1 << 34).to_bytes(8, "big")


def test_runs_and_extension_types_are_what_they_stand_for() -> None:
    assert column(pc.run_end_encode(pa.array([1, 1, None]))) == [b"\x01", b"\x01", None]
    assert column(pa.array([b"x" * 16, None], pa.uuid())) == [packed(b"x" * 16), None]


def test_a_value_names_its_type_unless_the_program_has_done_so() -> None:
    with MockProducer({"value.serializer": "msgpack", "key.serializer": "msgpack"}) as producer:
        producer.send("orders", {"at": MOMENT}, key=7)
        producer.send("orders", 1, headers=[("Content-Type", b"mine"), ("trace", None)])
        producer.send("orders", None, key=7)
        first, second, third = producer.history

    assert (first.key, first.value) == (b"\x07", packed({"at": MOMENT}))
    assert list(first.headers) == [("content-type", b"application/vnd.msgpack")]
    assert list(second.headers) == [("Content-Type", b"mine"), ("trace", None)]
    assert (third.value, list(third.headers)) == (None, [])


def test_rows_of_tables_have_the_same_bytes() -> None:
    table = pa.table({"number": [1, 2], "name": ["a", None]})
    with MockProducer() as producer:
        producer.send_table("orders", table, value=["number", "name"], value_format="msgpack").result(timeout=10)

        assert [record.value for record in producer.history] == [packed(row) for row in table.to_pylist()]


def test_without_a_content_type_there_is_no_header() -> None:
    with MockProducer({"value.serializer": "msgpack", CONTENT_TYPE: ""}) as producer:
        producer.send("orders", 1)

        assert list(producer.history[0].headers) == []


def test_what_is_refused_says_what_and_where() -> None:
    serializer = ottla_serializer(config={CONTENT_TYPE: ""}, is_key=True)

    with pytest.raises(TypeError, match="a key for topic 't': object has no form in MessagePack"):
        serializer.serialize("t", [object()], [])


def test_what_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="more than 100 deep"):
        packed(endless)


@pytest.mark.parametrize("wrong", ["caf\u00e9", "a\nb", 1])
def test_a_setting_that_is_no_content_type_is_refused(wrong: Any) -> None:
    [key] = ottla_config_keys()

    with pytest.raises((ValueError, TypeError), match="it must be"):
        key.type(wrong)
