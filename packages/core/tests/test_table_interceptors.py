"""Interceptors of tables: the columns that they get, what they may change, and the outcome that they get once."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla import (
    ErrorCode,
    InvalidRecordError,
    TableDeliveryError,
    TableReadError,
    TableResult,
    UndeliveredError,
)
from ottla.concurrency import io_threads
from ottla.interfaces import Header, ProducerRecord, ProducerRows
from ottla.plugins.former_interceptors import AdaptedInterceptor
from ottla.producer import tables
from ottla.tables import headers as encoded_headers
from ottla.tables.headers import repeated_section
from ottla_testkit.mock_producer import MockProducer, build
from simulated_producer import Simulated, choosing, simulated

NOW = 1_700_000_000_000
MAPS = pa.map_(pa.string(), pa.binary())
PAIRS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
WRONG_OFFSETS = pa.py_buffer(struct.pack("3i", 0, 9, 2))


class Tracing:
    """Adds a header to all rows, and counts its calls for a table in the context."""

    ottla_spec = 2

    def __init__(self, name: str = "trace", **changes: Any) -> None:
        self.name = name
        self.changes = changes
        self.seen: list[ProducerRows] = []
        self.outcomes: list[tuple[TableResult, Exception | None, Any]] = []
        self.threads: list[tuple[str, str, bool]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise AssertionError("rows are no records")

    def on_acknowledgement(self, *outcome: Any) -> None:
        raise AssertionError("rows have no outcome of their own")

    def on_send_table(self, rows: ProducerRows) -> Any:
        self._note_thread("rows")
        self.seen.append(rows)
        changes = {name: change(rows) if callable(change) else change for name, change in self.changes.items()}
        if "context" not in changes:
            changes["context"] = (rows.context or 0) + 1
        added = (*rows.added_headers, (self.name, b"%d" % len(self.seen)))
        return attrs.evolve(rows, **{"added_headers": added, **changes})

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        self._note_thread("outcome")
        assert topic == "t"
        self.outcomes.append((result, error, context))

    def _note_thread(self, call: str) -> None:
        self.threads.append((call, threading.current_thread().name, io_threads.on_io_thread()))


class Failing(Tracing):
    """Fails in whatever it does."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def on_send_table(self, rows: ProducerRows) -> Any:
        raise self.error

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        raise self.error


def simulated_with(*interceptors: Any, **options: Any) -> Any:
    """A simulated producer with these interceptors, and a topic with two partitions."""
    return simulated(1, 1, plugins={"interceptors": named(*interceptors)}, **options)


def named(*interceptors: Any) -> dict[str, Any]:
    return {f"interceptor {number}": each for number, each in enumerate(interceptors)}


def records(simulation: Simulated) -> list[tuple[bytes | None, tuple[Header, ...]]]:
    """The values and headers in the log, partition by partition."""
    log = simulation.cluster.topics["t"].log
    return [(record.value, record.headers) for partition in sorted(log) for record in log[partition]]


def stream(*batches: Any, error: BaseException | None = None) -> Any:
    def each() -> Iterator[Any]:
        yield from batches
        if error is not None:
            raise error

    if error is not None and not isinstance(error, Exception):  # a reader makes an error of its own of it
        return each()
    return pa.RecordBatchReader.from_batches(batches[0].schema, each())


def batch(*values: bytes | None, **columns: Any) -> Any:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


# What they get, and what they may change


@pytest.mark.rule("producer.send-table.interceptors")
def test_interceptors_change_rows_in_order_before_they_are_partitioned() -> None:
    first = Tracing("1", values=lambda rows: pc.binary_join_element_wise(rows.values, pa.scalar(b"!"), b""))
    second = Tracing("2", partitions=lambda rows: pa.array([1] * rows.count))
    with simulated_with(first, second) as simulation:
        simulation.producer.send_table("t", pa.table({"value": ["a", "b"]})).add_done_callback(print)
        simulation.run_until_idle()

        assert records(simulation) == [(b"a!", (("1", b"1"), ("2", b"1"))), (b"b!", (("1", b"1"), ("2", b"1")))]
        assert list(simulation.cluster.topics["t"].log) == [1]
    assert first.seen[0].values.to_pylist() == [b"a", b"b"]
    assert (first.seen[0].added_headers, second.seen[0].added_headers) == ((), (("1", b"1"),))
    assert second.seen[0].values.to_pylist() == [b"a!", b"b!"]


def test_columns_have_the_types_that_the_contract_names() -> None:
    table = pa.table(
        {
            "value": pa.array(["a", None], pa.string_view()),
            "key": pa.array(["k", "k"]).dictionary_encode(),
            "headers": pa.array([[("x", b"1")], None], MAPS),
            "to": pa.array([1, None], pa.uint8()),
            "at": pa.array([5_000, None], pa.timestamp("us")),
        }
    )
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        simulation.producer.send_table("t", table, headers="headers", partition="to", timestamp="at")

        [rows] = interceptor.seen
    columns = {name: getattr(rows, name) for name in ("keys", "values", "headers", "partitions", "timestamps_ms")}
    assert {name: column.type for name, column in columns.items()} == {
        "keys": pa.binary(),
        "values": pa.binary(),
        "headers": PAIRS,
        "partitions": pa.int64(),
        "timestamps_ms": pa.int64(),
    }
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "keys": [b"k", b"k"],
        "values": [b"a", None],
        "headers": [[{"key": "x", "value": b"1"}], []],
        "partitions": [1, None],
        "timestamps_ms": [5, None],
    }


def test_parts_that_the_table_lacks_are_none_and_may_be_added() -> None:
    interceptor = Tracing(
        keys=lambda rows: pa.array([b"k"] * rows.count),
        headers=lambda rows: pa.array([[("own", None)]] * rows.count, MAPS),
        timestamps_ms=lambda rows: pa.array([NOW] * rows.count, pa.timestamp("ms")),
        partitions=lambda rows: pa.array([0] * rows.count, pa.int8()),
    )
    with simulated_with(interceptor) as simulation:
        simulation.producer.send_table("t", pa.table({"value": [b"a"]}))
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
    assert (record.key, record.timestamp_ms, record.headers) == (b"k", NOW, (("own", None), ("trace", b"1")))
    [rows] = interceptor.seen
    assert (rows.keys, rows.headers, rows.partitions, rows.timestamps_ms) == (None,) * 4


@pytest.mark.parametrize("part", ["keys", "values", "headers", "timestamps_ms"])
def test_a_part_may_be_removed_from_all_rows(part: str) -> None:
    table = pa.table({"value": [b"a"], "key": [b"k"], "h": pa.array([[("x", b"1")]], MAPS), "at": [NOW], "to": [0]})
    given = {"key": b"k", "value": b"a", "timestamp_ms": NOW, "headers": (("x", b"1"),)}
    removed: dict[str, dict[str, Any]] = {
        "keys": {"key": None},
        "values": {"value": None},
        "headers": {"headers": ()},
        "timestamps_ms": {"timestamp_ms": int(1000 * 1_234.5)},
    }
    changes: dict[str, Any] = {part: None, "added_headers": ()}
    interceptor = Tracing(**changes)
    with pytest.MonkeyPatch.context() as patch, simulated_with(interceptor) as simulation:
        patch.setattr("ottla.tables.sending.time_ns", lambda: int(1e9 * 1_234.5))
        simulation.producer.send_table("t", table, headers="h", timestamp="at", partition="to")
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
    assert {name: getattr(record, name) for name in given} == {**given, **removed[part]}


@pytest.mark.parametrize(
    "kind", [MAPS, PAIRS, pa.large_list(PAIRS.value_type), pa.map_(pa.string_view(), pa.large_string())], ids=str
)
def test_added_headers_follow_those_of_each_row(kind: Any) -> None:
    given = [[("x", b"1"), ("y", None)], None, [], [("x", b"2")]]
    headers = pa.array(given, MAPS)
    if not pa.types.is_map(kind):
        headers = headers.cast(PAIRS)
    first, second = Tracing("1"), Tracing("2", added_headers=lambda rows: [*rows.added_headers, ("\u00e9", None)])
    with simulated_with(first, second) as simulation:
        table = pa.table({"value": [b"%d" % row for row in range(4)], "h": headers.cast(kind)})
        simulation.producer.send_table("t", table, headers="h")
        simulation.run_until_idle()

        added = (("1", b"1"), ("\u00e9", None))
        assert records(simulation) == [(b"%d" % row, (*(own or ()), *added)) for row, own in enumerate(given)]


def test_large_headers_that_are_added_do_not_take_much_memory_at_once() -> None:
    interceptor = Tracing(added_headers=(("large", bytes(50_000)),))
    sizes: list[int] = []

    def counted(headers: Sequence[Header], count: int) -> Any:
        sizes.append(count)
        return repeated_section(headers, count)

    with pytest.MonkeyPatch.context() as patch, simulated_with(interceptor, buffer_memory=16_000_000) as simulation:
        patch.setattr(encoded_headers, "repeated_section", counted)
        delivery = simulation.producer.send_table("t", batch(*(b"%d" % row for row in range(200))))
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 200
    assert len(interceptor.seen) == 1
    assert sum(sizes) == 200
    assert max(sizes) * 50_000 <= 4_000_000


def test_small_batches_of_a_stream_may_be_changed_differently() -> None:
    changing = Tracing(
        keys=lambda rows: pa.array(["k"], pa.large_string()) if rows.context else None,
        values=lambda rows: rows.values.cast(pa.large_binary()) if rows.context else rows.values,
        timestamps_ms=lambda rows: pa.array([NOW]) if rows.context == 1 else rows.timestamps_ms,
    )
    with simulated_with(changing) as simulation:
        delivery = simulation.producer.send_table("t", stream(batch(b"a"), batch(b"b"), batch(b"c")))
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 3
        log = [record for records in simulation.cluster.topics["t"].log.values() for record in records]
        assert sorted((record.value, record.key) for record in log) == [(b"a", None), (b"b", b"k"), (b"c", b"k")]
        assert [record.value for record in log if record.timestamp_ms == NOW] == [b"b"]
    assert [rows.context for rows in changing.seen] == [None, 1, 2]


def test_values_of_a_format_are_intercepted_before_their_serializer() -> None:
    def doubled(rows: ProducerRows) -> Any:
        fields = [pc.multiply(rows.values.field("id"), 2), rows.values.field("name")]
        return pa.StructArray.from_arrays(fields, fields=list(rows.values.type))

    interceptor = Tracing(values=doubled)
    with simulated_with(interceptor) as simulation:
        table = pa.table({"id": [1, 2], "other": [0, 0], "name": ["a", None], "key": ["k", "k"]})
        simulation.producer.send_table("t", table, value=["id", "name"], value_format="json")
        simulation.run_until_idle()

        headers = (("trace", b"1"),)
        assert records(simulation) == [(b'{"id":2,"name":"a"}', headers), (b'{"id":4}', headers)]
    assert interceptor.seen[0].values.type == pa.struct([("id", pa.int64()), ("name", pa.string())])


def test_values_of_a_format_keep_their_type(caplog: pytest.LogCaptureFixture) -> None:
    with simulated_with(Tracing(values=lambda rows: pc.cast(rows.values, pa.string()))) as simulation:
        simulation.producer.send_table("t", pa.table({"id": [1]}), value="id", value_format="json")
        simulation.run_until_idle()

        assert records(simulation) == [(b"1", ())]
    assert "values of type string; it must be int64, which the serializer has accepted" in caplog.text


def test_large_batches_are_intercepted_in_parts() -> None:
    interceptor = Tracing()
    with simulated_with(interceptor, buffer_memory=600_000) as simulation:
        simulation.producer.send_table("t", pa.table({"value": [bytes(200)] * 1_000}))
        simulation.run_until_idle()

        assert len(records(simulation)) == 1_000
    assert [rows.count for rows in interceptor.seen] == [638, 362]


def test_without_interceptors_no_rows_are_prepared_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tables, "TableInterceptors")
    monkeypatch.delattr(tables, "Intercepted")
    with simulated(1) as simulation:
        simulation.producer.send_table("t", batch(b"a"))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", ())]


# Faults of an interceptor


@pytest.mark.rule("producer.send-table.interceptors")
@pytest.mark.parametrize("error", [LookupError("no place"), SystemExit(3)])
def test_an_interceptor_that_fails_is_logged_and_the_rows_are_sent(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = Tracing("1"), Tracing("3")
    with simulated_with(first, Failing(error), last) as simulation:
        delivery = simulation.producer.send_table("t", batch(b"a"))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", (("1", b"1"), ("3", b"1")))]
        assert delivery.result(0).acknowledged == 1
    kind = type(error).__name__
    assert caplog.messages == [
        f"the interceptor 1 failed in on_send_table; the rows are sent without its change: {kind}",
        f"the interceptor 1 failed in on_table_acknowledgement: {kind}",
    ]
    assert len(first.outcomes) == len(last.outcomes) == 1


def rows_of(rows: ProducerRows, *cells: Any, kind: Any = None) -> Any:
    return pa.array([*cells][:1] * rows.count, kind)


@pytest.mark.rule("producer.send-table.interceptors")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topic": "other"}, "returned another topic, which cannot be changed"),
        ({"count": 1}, "returned a count of 1 for 2 rows"),
        ({"values": lambda rows: rows.values[:1]}, "returned values of 1 row for 2 rows"),
        ({"values": lambda rows: pa.concat_arrays([rows.values] * 2)}, "returned values of 4 rows for 2 rows"),
        ({"keys": lambda rows: rows_of(rows, 1)}, "returned keys of type int64; it must be binary, string"),
        ({"values": lambda rows: rows.values.to_pylist()}, "returned values as list, not as a pyarrow.Array"),
        ({"values": lambda rows: pa.chunked_array([rows.values])}, "returned values as ChunkedArray"),
        ({"headers": lambda rows: rows_of(rows, ["x"])}, "returned headers of type list<item: string>; it must be"),
        (
            {"headers": lambda rows: rows_of(rows, [(None, b"1")], kind=PAIRS)},
            "returned headers with a header that has no name",
        ),
        ({"partitions": lambda rows: rows_of(rows, -1)}, "returned partitions with a negative number"),
        ({"partitions": lambda rows: rows_of(rows, 2**64 - 1)}, "returned partitions with a negative number"),
        ({"partitions": lambda rows: rows_of(rows, "0")}, "returned partitions of type string; it must be any integer"),
        ({"timestamps_ms": lambda rows: rows_of(rows, -1)}, "returned timestamps_ms with a time that is not from 0 to"),
        ({"timestamps_ms": lambda rows: rows_of(rows, 1.5)}, "returned timestamps_ms of type double; it must be"),
        ({"added_headers": (("name", "text"),)}, "a header's name is str and its value bytes or None"),
        ({"added_headers": (("\ud800", b""),)}, "surrogates not allowed"),
        ({"added_headers": None}, "TypeError"),
        (
            {"values": lambda rows: pa.Array.from_buffers(pa.binary(), 2, [None, WRONG_OFFSETS, pa.py_buffer(b"ab")])},
            "Offset invariant failure",
        ),
        (
            {
                "headers": lambda rows: pa.Array.from_buffers(
                    PAIRS, 2, [None, WRONG_OFFSETS], children=[pa.array([("x", b"")] * 2, PAIRS.value_type)]
                )
            },
            "Offset invariant failure",
        ),
    ],
)
def test_a_wrong_change_of_rows_is_the_fault_of_the_interceptor(
    changes: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, last = Tracing("1", **changes), Tracing("2")
    with simulated_with(wrong, last) as simulation:
        delivery = simulation.producer.send_table("t", batch(b"a", b"b"))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", (("2", b"1"),)), (b"b", (("2", b"1"),))]
        assert delivery.result(0).acknowledged == 2
    [line] = caplog.messages
    assert line.startswith("the interceptor 0 failed in on_send_table; the rows are sent without its change: ")
    assert said in caplog.text
    assert [context for _result, _error, context in wrong.outcomes] == [None]
    assert [context for _result, _error, context in last.outcomes] == [1]


@pytest.mark.parametrize("made", [None, {}, (b"a",)])
def test_a_result_that_is_no_rows_is_the_fault_of_the_interceptor(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    wrong = Tracing()
    wrong.on_send_table = lambda rows: made  # type: ignore[method-assign]
    with simulated_with(wrong) as simulation:
        simulation.producer.send_table("t", batch(b"a"))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", ())]
    assert f"on_send_table returned {type(made).__name__}, not ProducerRows" in caplog.text


def test_a_fault_for_some_rows_leaves_the_context_of_the_others() -> None:
    def failing_once(rows: ProducerRows) -> Any:
        if rows.values[0].as_py() == b"b":
            raise LookupError
        return rows.values

    interceptor = Tracing(values=failing_once)
    with simulated_with(interceptor) as simulation:
        simulation.producer.send_table("t", stream(batch(b"a"), batch(b"b"), batch(b"c")))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", (("trace", b"1"),)), (b"b", ()), (b"c", (("trace", b"3"),))]
    assert [rows.context for rows in interceptor.seen] == [None, 1, 1]
    assert [context for _result, _error, context in interceptor.outcomes] == [2]


def test_invalid_rows_of_the_caller_fail_alone_and_blame_no_interceptor(caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table(
        {
            "value": [b"a", b"nameless", b"early", b"nowhere", b"e"],
            "h": pa.array([[("x", b"1")], [(None, b"")], None, None, []], PAIRS),
            "at": [5, 5, -5, 5, 5],
            "to": [0, 0, 0, -1, 0],
        }
    )
    touching = Tracing(
        headers=lambda rows: rows.headers.cast(pa.large_list(PAIRS.value_type)),
        timestamps_ms=lambda rows: pc.add(rows.timestamps_ms, 0),
        partitions=lambda rows: pc.add(rows.partitions, 0),
    )
    with simulated_with(touching) as simulation:
        delivery = simulation.producer.send_table("t", table, headers="h", timestamp="at", partition="to")
        simulation.run_until_idle()

        assert [value for value, _headers in records(simulation)] == [b"a", b"e"]
        assert list(delivery.failed_rows()) == [1, 2, 3]
    assert not caplog.messages
    [(result, error, _context)] = touching.outcomes
    assert (result.acknowledged, result.failed) == (2, 3)
    assert isinstance(error, TableDeliveryError)


def test_an_interceptor_of_generation_1_may_have_the_ability() -> None:
    former: Any = Tracing()
    with simulated(1, plugins={"interceptors": {"former": AdaptedInterceptor(former)}}) as simulation:
        simulation.producer.send_table("t", batch(b"a"))
        simulation.run_until_idle()

        assert records(simulation) == [(b"a", (("trace", b"1"),))]
    assert len(former.outcomes) == 1


# What became of the table


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
def test_the_outcome_comes_once_for_a_table_with_counts_and_context() -> None:
    first, second = Tracing("1"), Tracing("2", context="span")
    with simulated_with(first, second) as simulation:
        delivery = simulation.producer.send_table("t", stream(batch(b"a", b"b"), batch(b"c")))
        assert not first.outcomes
        simulation.run_until_idle()

        assert first.outcomes == [(delivery.result(0), None, 2)]
        assert second.outcomes == [(delivery.result(0), None, "span")]
        assert delivery.result(0).acknowledged == 3


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
def test_rows_pass_on_the_sending_thread_and_the_outcome_on_the_io_thread() -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        sender = threading.Thread(target=lambda: simulation.producer.send_table("t", batch(b"a")), name="sender")
        sender.start()
        sender.join()
        simulation.run_until_idle()

    [rows, outcome] = interceptor.threads
    assert rows == ("rows", "sender", False)
    assert outcome == ("outcome", threading.current_thread().name, True)


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
@pytest.mark.parametrize("table", [batch(), batch(b"a", at=pa.array([-1]))], ids=["no row", "no valid row"])
def test_an_outcome_known_at_the_end_of_the_call_comes_on_its_thread(table: Any) -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        simulation.producer.send_table("t", table, timestamp="at" if "at" in table.schema.names else None).exception(0)

    assert interceptor.threads[-1] == ("outcome", threading.current_thread().name, False)
    [(result, error, _context)] = interceptor.outcomes
    assert (result.rows, result.failed) == (table.num_rows, table.num_rows)
    assert (error is None) == (not table.num_rows)


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
def test_failed_rows_are_reported_with_the_error_and_stay_unretrieved() -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send_table("t", batch(b"a", b"b"))
        simulation.run_until_idle()

        [(result, error, context)] = interceptor.outcomes
        assert (result.rows, result.acknowledged, result.failed, context) == (2, 0, 2, 1)
        assert isinstance(error, TableDeliveryError)
        assert error.result == result
        with pytest.raises(UndeliveredError, match="2 records failed and their errors were never retrieved"):
            simulation.producer.close()


def test_a_callback_of_the_program_follows_the_interceptors_and_retrieves() -> None:
    order: list[str] = []
    interceptor = Tracing()
    interceptor.on_table_acknowledgement = lambda *outcome: order.append("interceptor")  # type: ignore[method-assign]
    with simulated_with(interceptor) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send_table("t", batch(b"a")).add_done_callback(lambda _delivery: order.append("program"))
        simulation.run_until_idle()

        assert simulation.producer.close().failed == 1
    assert order == ["interceptor", "program"]


def test_the_outcome_comes_once_if_a_batch_is_split() -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        simulation.producer.send_table("t", batch(*(b"%d" % row for row in range(20))))
        simulation.run_until_idle()

    assert [(result.acknowledged, error) for result, error, _context in interceptor.outcomes] == [(20, None)]


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
@pytest.mark.parametrize(
    ("topic", "table", "refused"),
    [
        ("t", pa.table({"other": [b"a"]}), InvalidRecordError),
        ("t", pa.table({"value": [1]}), InvalidRecordError),
        ("t", b"no table", InvalidRecordError),
    ],
)
def test_a_table_that_is_refused_is_reported_at_once_and_raised(
    topic: str, table: Any, refused: type[Exception]
) -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation, pytest.raises(refused) as raised:
        simulation.producer.send_table(topic, table)

    assert not interceptor.seen
    assert interceptor.outcomes == [(TableResult(rows=0, acknowledged=0, failed=0, partitions={}), raised.value, None)]
    assert interceptor.threads == [("outcome", threading.current_thread().name, False)]


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
def test_an_error_in_the_middle_of_a_table_comes_with_the_rows_before() -> None:
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        with pytest.raises(TableReadError) as raised:
            simulation.producer.send_table("t", stream(batch(b"a", b"b"), error=OSError("torn")))
        assert not interceptor.outcomes
        simulation.run_until_idle()

        [(result, error, context)] = interceptor.outcomes
    assert (result.rows, result.acknowledged, context) == (2, 2, 1)
    assert error is raised.value


@pytest.mark.rule("producer.send-table.interceptors.outcomes")
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
def test_an_interrupt_in_the_middle_of_a_table_ends_it_for_interceptors(interrupt: BaseException) -> None:
    """As Ctrl-C does while a generator waits for its database; a span would never end."""
    interceptor = Tracing()
    with simulated_with(interceptor) as simulation:
        with pytest.raises(type(interrupt)) as raised:
            simulation.producer.send_table("t", stream(batch(b"a", b"b"), error=interrupt))
        simulation.run_until_idle()

        [(result, error, context)] = interceptor.outcomes
    assert raised.value is interrupt
    assert raised.value.delivery.rows == result.rows  # type: ignore[attr-defined]
    assert (result.acknowledged + result.failed, context) == (result.rows, 1)
    assert isinstance(error, TableReadError)
    assert str(error).startswith("send_table read the table no further: it was interrupted by ")
    assert error.__cause__ is interrupt


def test_an_interceptor_of_rows_alone_gets_no_outcome() -> None:
    interceptor = Tracing()
    interceptor.on_table_acknowledgement = None  # type: ignore[assignment, method-assign]
    with simulated_with(interceptor) as simulation:
        delivery = simulation.producer.send_table("t", batch(b"a"))
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 1
        with pytest.raises(InvalidRecordError):
            simulation.producer.send_table("t", b"no table")
    assert not interceptor.outcomes


def test_tables_of_many_threads_have_contexts_of_their_own() -> None:
    interceptor = Tracing(context=lambda rows: (rows.context or "") + rows.values[0].as_py().decode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "choose_plugins", choosing({"interceptors": named(interceptor)}))
        producer = MockProducer()

    def send(name: str) -> None:
        for _ in range(20):
            producer.send_table("t", stream(*[batch(name.encode())] * 5))

    threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close()

    contexts = [context for _result, _error, context in interceptor.outcomes]
    assert sorted(contexts) == sorted(name * 5 for name in "abcd" for _ in range(20))
