"""Tests that the interceptor meets all requirements, and its own promises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from ottla import ConfigError, TableResult, check_config
from ottla.interfaces import Header, Interceptor, ProducerRecord, ProducerRows
from ottla_testkit.conformance import InterceptorConformance, metric_values, plugin_context
from ottla_testkit.mock_producer import MockProducer

from ottla_interceptor_traceparent import TraceparentInterceptor
from ottla_interceptor_traceparent.plugin import OUTCOMES, SAMPLED, ottla_interceptor

WRITTEN = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-01")
MINE = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def made_by_its_hook(*, sampled: bool = True) -> TraceparentInterceptor:
    made = ottla_interceptor(config={SAMPLED: sampled}, context=plugin_context())
    assert isinstance(made, TraceparentInterceptor)
    return made


class TestTraceparent(InterceptorConformance):
    @pytest.fixture
    def interceptor(self) -> Interceptor:
        return made_by_its_hook()


def record(*headers: Header) -> ProducerRecord:
    return ProducerRecord(topic="orders", key=None, value=b"value", headers=headers, partition=None, timestamp_ms=None)


def rows(count: int, headers: Any = None, added: Sequence[Header] = (), context: Any = None) -> ProducerRows:
    return ProducerRows(
        topic="orders",
        count=count,
        keys=None,
        values=pa.array([b"value"] * count),
        headers=headers,
        partitions=None,
        timestamps_ms=None,
        added_headers=added,
        context=context,
    )


def traces(written: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
    """The different trace ids, and the different span ids."""
    found = [WRITTEN.fullmatch(value) for value in written]
    assert all(found), written
    return {match[1] for match in found if match}, {match[2] for match in found if match}


def outcomes(producer: MockProducer) -> dict[str, float]:
    return {dict(name.tags)["outcome"]: value for name, value in producer.metrics().items() if name.name == OUTCOMES}


def test_a_record_without_one_gets_one_behind_its_headers() -> None:
    made = made_by_its_hook().on_send(record(("shop", b"7"), ("note", None)))

    assert made.headers[:2] == (("shop", b"7"), ("note", None))
    [(name, value)] = made.headers[2:]
    assert name == "traceparent"
    assert value is not None
    assert WRITTEN.fullmatch(value)


def test_each_record_is_a_trace_and_a_span_of_its_own() -> None:
    interceptor = made_by_its_hook()

    made = [interceptor.on_send(record()).headers[0][1] or b"" for _ in range(100)]

    ids, spans = traces(made)
    assert (len(ids), len(spans)) == (100, 100)


def test_one_that_is_there_stays() -> None:
    given = record(("shop", b"7"), MINE)

    assert made_by_its_hook().on_send(given) is given


def test_the_flag_is_a_setting() -> None:
    [(_name, value)] = made_by_its_hook(sampled=False).on_send(record()).headers

    assert value is not None
    assert value.endswith(b"-00")


def test_no_id_consists_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    randoms = iter([bytes(16), b"t" * 16, bytes(8), b"s" * 8])
    monkeypatch.setattr("os.urandom", lambda size: next(randoms))

    [(_name, value)] = made_by_its_hook().on_send(record()).headers

    assert value == b"00-" + b"74" * 16 + b"-" + b"73" * 8 + b"-01"


def test_rows_of_a_table_are_spans_of_one_trace() -> None:
    interceptor = made_by_its_hook()

    first = interceptor.on_send_table(rows(1000))
    second = interceptor.on_send_table(rows(10, context=first.context))

    assert first.headers.type == HEADERS
    headers = [*first.headers.to_pylist(), *second.headers.to_pylist()]
    assert all(len(of_row) == 1 and of_row[0]["key"] == "traceparent" for of_row in headers)
    ids, spans = traces([of_row[0]["value"] for of_row in headers])
    assert (len(ids), len(spans)) == (1, 1010)


def test_two_tables_are_two_traces() -> None:
    interceptor = made_by_its_hook()

    values = [interceptor.on_send_table(rows(1)).headers.to_pylist()[0][0]["value"] for _ in range(2)]

    assert len(traces(values)[0]) == 2


def test_rows_keep_their_own_headers() -> None:
    shop, mine = ("shop", b"7"), MINE
    given = pa.array([[shop], [mine, shop], None, [], [shop, shop, ("note", None)]], HEADERS)

    made = made_by_its_hook().on_send_table(rows(3, given[1:4])).headers
    whole = made_by_its_hook().on_send_table(rows(5, given)).headers

    found = [[(header["key"], header["value"]) for header in of_row] for of_row in whole.to_pylist()]
    assert [of_row[:-1] for of_row in found] == [[shop], [mine], [], [], [shop, shop, ("note", None)]]
    assert found[1] == [mine, shop]
    traces([found[row][-1][1] for row in (0, 2, 3, 4)])
    assert [len(of_row) for of_row in made.to_pylist()] == [2, 1, 1]
    whole.validate(full=True)


def test_rows_that_get_one_from_another_interceptor_keep_it() -> None:
    given = rows(3, added=[MINE])

    assert made_by_its_hook().on_send_table(given) is given


def test_a_table_without_rows() -> None:
    interceptor = made_by_its_hook()

    assert len(interceptor.on_send_table(rows(0)).headers) == 0
    assert len(interceptor.on_send_table(rows(0, pa.array([], HEADERS))).headers) == 0


SETTINGS = {"bootstrap.servers": "localhost:9092", "interceptor.classes": "traceparent"}


def test_a_producer_sends_it_and_has_the_metric() -> None:
    with MockProducer(SETTINGS, auto_complete=False) as producer:
        producer.send("orders", b"one")
        lost = producer.send("orders", b"two", headers=[MINE])
        producer.complete_next()
        producer.error_next(ValueError("lost"))
        assert lost.error is not None
        assert outcomes(producer) == {"acknowledged": 1, "failed": 1}

    [first, second] = producer.history
    traces([dict(first.headers)["traceparent"] or b""])
    assert list(second.headers) == [MINE]


def test_the_metric_has_tags() -> None:
    with MockProducer({**SETTINGS, "client.id": "till"}) as producer:
        [tags, _tags] = [dict(name.tags) for name in producer.metrics() if name.name == OUTCOMES]
        assert tags["client-id"] == "till"
        assert tags["plugin"] == "traceparent"


def test_a_producer_counts_rows() -> None:
    table = pa.table({"value": [b"one", b"two", b"three"]})
    with MockProducer(SETTINGS) as producer:
        producer.send_table("orders", table)
        producer.flush()
        assert outcomes(producer) == {"acknowledged": 3, "failed": 0}

    assert all("traceparent" in dict(sent.headers) for sent in producer.history)


def test_outcomes_of_a_table_are_counted() -> None:
    context = plugin_context()
    interceptor = TraceparentInterceptor(sampled=True, metrics=context.metrics)

    interceptor.on_table_acknowledgement(
        "orders", TableResult(rows=3, acknowledged=1, failed=2, partitions={}), ValueError("lost"), None
    )

    assert {name.tags: value for name, value in metric_values(context).items()} == {
        (("outcome", "acknowledged"),): 1,
        (("outcome", "failed"),): 2,
    }


def test_threads_get_spans_of_their_own() -> None:
    interceptor = made_by_its_hook()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _number: interceptor.on_send(record()).headers[0][1] or b"", range(500)))

    assert len(traces(made)[1]) == 500


def test_a_wrong_flag_is_refused() -> None:
    with pytest.raises(ConfigError, match="it must be true or false"):
        check_config({**SETTINGS, SAMPLED: "perhaps"})
