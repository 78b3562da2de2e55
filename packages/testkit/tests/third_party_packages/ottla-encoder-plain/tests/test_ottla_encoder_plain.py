"""Tests that the encoder meets all requirements, and its own promises."""

from __future__ import annotations

import sys

import pytest
from ottla.errors import UnsupportedVersionError
from ottla.interfaces import Columns, ColumnsKind, RecordEncoder
from ottla_testkit.conformance import RecordEncoderConformance
from ottla_testkit.mock_producer import MockProducer

from ottla_encoder_plain import PlainEncoder
from ottla_encoder_plain.varints import varint

NOW = 1_700_000_000_000


class TestPlain(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        return PlainEncoder()


def opened(limit: int = 100_000) -> Columns:
    columns = PlainEncoder().columns(ColumnsKind.OBJECTS, limit)
    assert columns is not None
    return columns


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (64, "8001"),
        (4095, "fe3f"),
        (4096, "8040"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_a_varint_has_seven_bits_in_a_byte(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded


def test_a_record_has_the_bytes_of_format_v2() -> None:
    columns = opened()
    columns.append(b"k", b"value", [("h", None)], NOW)

    assert b"".join(columns.encode(2).chunks) == b"\x1e\0\0\0\x02k\x0avalue\x02\x02h\x01"


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="PyPy does not know the size of an object")
@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="objects are larger without the GIL")
def test_what_records_occupy_is_not_understated() -> None:
    columns = opened()
    records = [(b"k%d" % number, b"value %d" % number, [("h", b"%d" % number)], NOW + number) for number in range(50)]
    for record in records:
        columns.append(*record)
    lists = [part for part in vars(columns).values() if isinstance(part, list)]

    assert columns.memory() >= sum(sys.getsizeof(part) + sum(map(sys.getsizeof, part)) for part in lists)


def test_headers_that_a_format_cannot_hold_keep_the_records() -> None:
    columns = opened()
    columns.append(None, b"value", [("h", None)], NOW)
    with pytest.raises(UnsupportedVersionError, match="v1 cannot hold headers"):
        columns.encode(1)

    assert columns.encode(2).count == 1


def test_facts_do_not_change_with_later_records() -> None:
    columns = opened()
    columns.append(None, b"value", [], NOW)
    facts = columns.facts()
    columns.append(b"key", None, [], NOW + 1)

    assert (facts.timestamps_ms, facts.key_sizes, facts.value_sizes) == ([NOW], None, [5])
    assert (columns.facts().key_sizes, columns.facts().value_sizes) == ([-1, 3], [5, -1])


def test_a_producer_takes_the_encoder() -> None:
    with MockProducer({"record.encoder": "plain"}) as producer:
        metadata = producer.send("orders", b"three apples", key=b"7").result(timeout=10)

    assert (metadata.topic, producer.history[0].value) == ("orders", b"three apples")


def test_the_core_encodes_tables_itself() -> None:
    assert PlainEncoder().columns(ColumnsKind.ARROW, 1000) is None
