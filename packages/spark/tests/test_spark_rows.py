"""What becomes of a record batch's rows, and how a row that cannot be sent is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from ottla import InvalidRecord, Producer
from ottla_spark.errors import WriteFailed
from ottla_spark.rows import RowPlace, Sent, send_rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PLACE = RowPlace(task="Spark partition 3", rows_before=10)


class Tape:
    """Stands where a producer does and keeps what it is sent; refuses a value of `b"bad"`."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        *,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> None:
        if value == b"bad":
            raise InvalidRecord("no good")
        self.sent.append((topic, value, key, tuple(headers), partition, timestamp_ms))


def send_to(tape: Tape, **columns: pa.Array) -> Sent:
    """Send a record batch of these columns, to topic `t` if none of them is a topic."""
    positions = {name: position for position, name in enumerate(columns)}
    topic = None if "topic" in columns else "t"
    return send_rows(cast(Producer, tape), pa.record_batch(columns), positions, topic=topic, place=PLACE)


def send(**columns: pa.Array) -> tuple[list[tuple[Any, ...]], Sent]:
    """What a producer gets for a record batch of these columns."""
    tape = Tape()
    sent = send_to(tape, **columns)
    return tape.sent, sent


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_keys_and_values_are_sent_as_bytes(kind: pa.DataType) -> None:
    rows, sent = send(value=pa.array(["grün", "b"], kind), key=pa.array(["k", None], kind))

    assert rows == [("t", "grün".encode(), b"k", (), None, None), ("t", b"b", None, (), None, None)]
    assert sent == Sent(records=2, bytes=7)


def test_a_null_value_is_a_tombstone() -> None:
    rows, sent = send(value=pa.array([None], pa.string()), key=pa.array(["k"]))

    assert rows == [("t", None, b"k", (), None, None)]
    assert sent == Sent(records=1, bytes=1)


def test_an_empty_value_stays_empty() -> None:
    assert send(value=pa.array([""]))[0] == [("t", b"", None, (), None, None)]


def test_each_row_goes_to_its_own_topic() -> None:
    rows, _ = send(value=pa.array(["1", "2"]), topic=pa.array(["a", "b"]))

    assert [row[0] for row in rows] == ["a", "b"]


def test_a_null_partition_leaves_the_choice() -> None:
    rows, _ = send(value=pa.array(["1", "2"]), partition=pa.array([4, None], pa.int32()))

    assert [row[4] for row in rows] == [4, None]


def test_timestamps_are_cut_to_milliseconds() -> None:
    moment = datetime(2013, 1, 1, 5, 0, 0, 123_999, tzinfo=UTC)
    rows, _ = send(value=pa.array(["1", "2"]), timestamp=pa.array([moment, None], pa.timestamp("us", "UTC")))

    assert [row[5] for row in rows] == [1357016400123, None]


def test_each_row_keeps_its_headers_in_order() -> None:
    headers = pa.array(
        [
            [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
            None,
            [],
            [{"key": "b", "value": b""}],
        ],
        HEADERS,
    )
    rows, _ = send(value=pa.array(list("wxyz")), headers=headers)

    assert [row[3] for row in rows] == [(("a", b"1"), ("a", None)), (), (), (("b", b""),)]


def test_a_slice_of_a_batch_sends_only_its_rows() -> None:
    headers = pa.array([[{"key": name, "value": b""}] for name in "abc"], HEADERS)
    rows, sent = send(
        value=pa.array(["1", "2", "3"])[1:2], key=pa.array(["k1", "k22", "k3"])[1:2], headers=headers[1:2]
    )

    assert rows == [("t", b"2", b"k22", (("b", b""),), None, None)]
    assert sent == Sent(records=1, bytes=4)


@pytest.mark.parametrize(
    ("column", "data", "row", "said"),
    [
        ("topic", pa.array(["a", None, None]), 12, "column 'topic' is null"),
        ("partition", pa.array([0, None, -1], pa.int32()), 13, "column 'partition' is negative"),
        (
            "timestamp",
            pa.array([datetime(1969, 12, 31, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
            11,
            "column 'timestamp' is before 1970",
        ),
        (
            "headers",
            pa.array([None, [{"key": "a", "value": None}], [{"key": None, "value": b""}]], HEADERS),
            13,
            "column 'headers' has a null key",
        ),
        ("headers", pa.array([[], [None], None], HEADERS), 12, "column 'headers' has a null key"),
    ],
    ids=["topic", "partition", "timestamp", "header key", "header"],
)
def test_a_wrong_cell_is_told_with_row_and_column_and_nothing_is_sent(
    column: str, data: pa.Array, row: int, said: str
) -> None:
    tape = Tape()
    columns = {"topic": pa.array(["t"] * 3), "value": pa.array(list("abc")), column: data}

    with pytest.raises(WriteFailed, match=re.escape(f"row {row} of Spark partition 3 was refused: {said}")):
        send_to(tape, **columns)

    assert tape.sent == []


def test_what_the_producer_refuses_is_told_with_the_row() -> None:
    tape = Tape()

    with pytest.raises(WriteFailed, match="row 12 of Spark partition 3 was refused: no good") as failed:
        send_to(tape, value=pa.array([b"good", b"bad", b"good"]))

    assert len(tape.sent) == 1
    assert isinstance(failed.value.__cause__, InvalidRecord)
