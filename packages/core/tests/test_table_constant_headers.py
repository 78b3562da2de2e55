"""Headers that are given for all rows of a table, in place of a column's name."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import InvalidRecordError, TableDeliveryError
from ottla.interfaces import ProducerRecord, ProducerRows
from ottla.tables.columns import ColumnChoice
from ottla.tables.constant_headers import WithHeaders
from ottla.tables.interception import Intercepted
from ottla.tables.sealed import TableSealer
from simulated_producer import Simulated, simulated

ENCODERS = ["python", "native"]


def headers_of(simulation: Simulated) -> list[tuple[tuple[str, bytes | None], ...]]:
    log = simulation.cluster.topics["t"].log
    return [tuple(record.headers) for partition in sorted(log) for record in log[partition]]


def numbered(count: int) -> Any:
    return pa.table({"value": [b"%d" % number for number in range(count)]})


class Adding:
    """An interceptor that adds a header to all rows, and keeps the rows that it got."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.seen: list[ProducerRows] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise AssertionError("rows are no records")

    def on_acknowledgement(self, *outcome: Any) -> None:
        raise AssertionError("rows have no outcome of their own")

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        self.seen.append(rows)
        return attrs.evolve(rows, added_headers=[("trace", b"7")])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("form", [dict, list, tuple, iter])
def test_all_rows_get_headers_that_are_given_as_pairs_or_mapping(encoder: str, form: Any) -> None:
    pairs = [("source", b"nightly"), ("empty", b""), ("null", None)]
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", numbered(3), headers=form(pairs))
        simulation.run_until_idle()

        assert headers_of(simulation) == [tuple(pairs)] * 3


@settings(deadline=None, max_examples=30)
@given(
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=300)), max_size=4),
    encoder=st.sampled_from(ENCODERS),
)
def test_rows_have_the_headers_that_send_gives_a_record(headers: Any, encoder: str) -> None:
    with simulated(1, record_encoder=encoder) as ours, simulated(1, record_encoder=encoder) as theirs:
        ours.producer.send_table("t", numbered(2), headers=headers)
        for value in (b"0", b"1"):
            theirs.producer.send("t", value, headers=headers)
        ours.run_until_idle()
        theirs.run_until_idle()

        assert headers_of(ours) == headers_of(theirs)


def test_interceptors_get_the_headers_of_all_rows_and_add_theirs() -> None:
    interceptor = Adding()
    with simulated(1, interceptor_classes=[interceptor]) as simulation:
        simulation.producer.send_table("t", numbered(2), headers={"source": b"nightly"}).add_done_callback(print)
        simulation.run_until_idle()

        assert headers_of(simulation) == [(("source", b"nightly"), ("trace", b"7"))] * 2
    [rows] = interceptor.seen
    assert rows.headers.to_pylist() == [[{"key": "source", "value": b"nightly"}]] * 2


def test_headers_of_all_rows_go_with_a_value_format() -> None:
    with simulated(1) as simulation:
        simulation.producer.send_table("t", numbered(1), value="*", value_format="json", headers={"a": b"b"})
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
    assert (record.value, record.headers) == (b'{"value":"MA=="}', (("a", b"b"),))


def test_sealed_batches_have_the_headers_of_all_rows() -> None:
    sealer = TableSealer({"bootstrap.servers": "127.0.0.1:1"}, {"t": 1})
    with simulated(1) as simulation:
        for batch in sealer.seal("t", numbered(2), headers=[("a", b"b"), ("a", b"c")]).batches:
            simulation.producer.send_sealed(batch)
        simulation.run_until_idle()

        assert headers_of(simulation) == [(("a", b"b"), ("a", b"c"))] * 2


def test_no_headers_for_all_rows_is_none() -> None:
    with simulated(1) as simulation:
        simulation.producer.send_table("t", numbered(1), headers=())
        simulation.run_until_idle()

        assert headers_of(simulation) == [()]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (5, "headers=5: name a column, or give the headers of all rows"),
        ([("a", "text")], "a header's name is str and its value bytes or None, not str and str"),
        (["abc"], "a header is a pair of name and value, not 'abc'"),
        ({"\ud800": b""}, "a name is no valid text"),
    ],
)
def test_headers_that_no_record_can_have_are_refused_before_the_first_row(headers: Any, words: str) -> None:
    with simulated(1) as simulation:
        with pytest.raises(InvalidRecordError, match=words):
            simulation.producer.send_table("t", numbered(1), headers=headers)
        simulation.run_until_idle()

        assert simulation.cluster.topics["t"].log == {}


def test_headers_that_make_a_row_too_large_fail_the_row() -> None:
    with simulated(1, max_request_size=2_000) as simulation:
        delivery = simulation.producer.send_table("t", numbered(1), headers={"a": bytes(3_000)})

        assert "above max.request.size" in str(delivery.failed_rows()[0])
        with pytest.raises(TableDeliveryError):
            delivery.result(0)


def test_a_stream_is_cut_where_its_headers_are_large() -> None:
    with_headers = WithHeaders(
        stream=numbered(100).to_reader(), headers=[("name", bytes(1_000))], max_bytes=10_000
    )  # not a hundred kilobytes at once

    assert [batch.num_rows for batch in with_headers] == [9] * 11 + [1]


def test_an_error_of_the_streams_own_headers_names_their_column() -> None:
    wrong = pa.array([b"O\xffA"]).view(pa.string())
    table = pa.table({"value": ["1"], "origin": pa.MapArray.from_arrays([0, 1], wrong, pa.array([b"1"]))})
    with_headers = WithHeaders(stream=table.to_reader(), headers=[("name", b"")], max_bytes=10_000, column=1)

    with pytest.raises(ValueError, match=r"column 'origin' is not valid: .*Invalid UTF8"):
        list(with_headers)


def test_interceptors_get_few_rows_at_once_where_the_headers_are_large() -> None:
    intercepted = Intercepted(
        stream=numbered(100).to_reader(),
        topic="t",
        choice=ColumnChoice(value=0, key=None, headers=None, partition=None, timestamp=None),
        formatted=None,
        headers=[("name", bytes(1_000))],
        intercept=lambda rows: rows,
        max_bytes=10_000,
    )

    assert [batch.num_rows for batch in intercepted] == [9] * 11 + [1]
