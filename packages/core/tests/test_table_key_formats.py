"""Keys that `send_table` makes from columns of any type, as the serializer of `send` would make them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import InvalidRecordError, PluginNotFoundError
from ottla.interfaces import ProducerRows
from ottla_testkit.mock_producer import MockProducer

NUMBERED = pa.table({"id": [1, 2, None], "price": [1.5, 2.5, 3.5], "customer": ["a", "b", "c"]})

KEYS = st.one_of(
    st.lists(st.none() | st.integers(-(2**31), 2**31), min_size=1, max_size=20),
    st.lists(st.none() | st.text(max_size=5), min_size=1, max_size=20),
    st.lists(st.none() | st.booleans(), min_size=1, max_size=20),
)


class Noting:
    """An interceptor that notes the keys that it gets."""

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []

    def on_send(self, record: Any) -> Any:
        return record

    def on_acknowledgement(self, *_arguments: Any) -> None:
        """Ignore it."""

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        self.keys += rows.keys.to_pylist()
        return rows


def by_partition(producer: MockProducer) -> dict[object, list[tuple[bytes | None, bytes | None]]]:
    """The records in the order of their partitions; those without a key, which may go anywhere, under None."""
    found: dict[object, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
    for record in producer.history:
        found[None if record.key is None else record.partition].append((record.key, record.value))
    return {**found, None: sorted(found[None], key=lambda pair: int(pair[1] or 0))}


def sent(**options: Any) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of the rows of `NUMBERED`."""
    with MockProducer() as producer:
        producer.send_table("t", NUMBERED, **options)
        producer.flush()
        return [(record.key, record.value) for record in producer.history]


@given(keys=KEYS)
def test_keys_and_partitions_are_those_of_send(keys: list[Any]) -> None:
    values = [str(number).encode() for number in range(len(keys))]
    with MockProducer(partitions=3) as tables, MockProducer(partitions=3, key_serializer="json") as records:
        tables.send_table("t", pa.table({"id": keys, "value": values}), key="id", key_format="json")
        for key, value in zip(keys, values, strict=True):
            records.send("t", value, key=key)
        tables.flush()
        records.flush()

        assert by_partition(tables) == by_partition(records)


def test_the_column_key_is_formatted_without_being_named() -> None:
    with MockProducer() as producer:
        producer.send_table("t", pa.table({"key": [7], "value": [b"v"]}), key_format="json")
        producer.flush()

        assert [record.key for record in producer.history] == [b"7"]


def test_all_other_columns_are_the_value_of_a_formatted_key() -> None:
    assert sent(key="id", key_format="json", value="*", value_format="json") == [
        (b"1", b'{"price":1.5,"customer":"a"}'),
        (b"2", b'{"price":2.5,"customer":"b"}'),
        (None, b'{"price":3.5,"customer":"c"}'),
    ]


def test_several_columns_become_the_fields_of_a_key() -> None:
    assert sent(key=["customer", "price"], key_format="json", value="*", value_format="json")[0] == (
        b'{"customer":"a","price":1.5}',
        b'{"id":1}',
    )


def test_interceptors_get_the_formatted_keys() -> None:
    noting = Noting()
    with MockProducer(interceptor_classes=[noting]) as producer:
        producer.send_table("t", NUMBERED, key="id", key_format="json", value="customer")
        producer.flush()

    assert noting.keys == [b"1", b"2", None]


def test_the_delivery_keeps_the_rows_of_formatted_keys() -> None:
    with MockProducer(partitions=3) as producer:
        delivery = producer.send_table("t", NUMBERED, key="id", key_format="json", value="customer")
        producer.flush()

        sizes = [found.serialized_key_size for row in range(3) if (found := delivery.metadata(row)) is not None]
        assert sizes == [1, 1, -1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key_format": "json"}, "key=None, key_format='json': name the columns"),
        ({"key_format": "json", "key": "nothing"}, "key='nothing': the table has no column 'nothing'.*the key is made"),
        ({"key_format": "json", "key": []}, r"key=\[\]: a key needs at least one column"),
        ({"key_format": "bytes", "key": "id"}, "key_format='bytes': this serializer makes one value at a time"),
        ({"key_format": 7, "key": "id"}, "key_format=7: the name of a serializer plugin"),
        ({"key": ["id"]}, "several columns need a format, such as key_format='json'"),
        ({"key": "id"}, "column 'id' is int64.*or set key_format"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRecordError, match=words):
        sent(value="customer", **options)


def test_the_plugin_of_a_key_format_must_be_installed() -> None:
    with pytest.raises(PluginNotFoundError, match="no serializer is named 'nothing'"):
        sent(value="customer", key="id", key_format="nothing")


@pytest.mark.parametrize("key", ["typo", ["typo"]])
def test_an_error_lists_the_columns_of_the_table_only(key: str | list[str]) -> None:
    """Not the column of values that is made of them."""
    table = pa.table({"id": [1], "name": ["a"]})
    options = {"key": key} if isinstance(key, str) else {"key": key, "key_format": "json"}

    with MockProducer() as producer, pytest.raises(InvalidRecordError, match=r"it has 'id', 'name'(;|$)"):
        producer.send_table("t", table, value=["id"], value_format="json", **options)


def test_an_error_says_that_a_table_has_no_columns() -> None:
    with MockProducer() as producer, pytest.raises(InvalidRecordError, match=r"no such column; it has none; name one"):
        producer.send_table("t", pa.table({}), value="v")
