"""Rows that cannot be sent, with errors.tolerance=all: they are skipped, or become dead letters."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_task_kit import PARTITIONS, TOPICS, cluster, log, numbered, sent, until

from ottla import ErrorCode
from ottla_spark.errors import WriteError
from ottla_spark.sink import refused_rows, row_buffer
from simulated_producer import Simulated

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SKIPPED: Mapping[str, Any] = {"errors_tolerance": "all"}
TO_V: Mapping[str, Any] = {**SKIPPED, "errors_deadletterqueue_topic_name": "v"}


def values(simulation: Simulated, topic: str) -> list[bytes | None]:
    return sorted(record.value or b"" for at in range(PARTITIONS) for record in log(simulation, topic, at))


def letters(simulation: Simulated) -> list[tuple[bytes | None, bytes | None, dict[str, bytes | None]]]:
    """Keys, values and headers of the dead letters."""
    records = [record for at in range(PARTITIONS) for record in log(simulation, "v", at)]
    return [(record.key, record.value, dict(record.headers)) for record in records]


def test_a_row_with_a_wrong_cell_becomes_a_dead_letter_with_the_reason() -> None:
    batch = pa.record_batch(
        {
            "topic": ["t", "t", "u"],
            "key": [b"a", b"b", b"c"],
            "value": ["1", "2", "3"],
            "partition": pa.array([0, -1, 1], pa.int32()),
            "headers": pa.array([None, [{"key": "trace", "value": b"x"}], None], HEADERS),
        }
    )
    with cluster() as simulation:
        written = sent(simulation, [batch], **TO_V)
        found, [letter] = (values(simulation, "t"), values(simulation, "u")), letters(simulation)

    assert found == ([b"1"], [b"3"])
    assert letter == (
        b"b",
        b"2",
        {
            "trace": b"x",
            "__ottla.errors.topic": b"t",
            "__ottla.errors.row": b"row 2 of Spark partition 7",
            "__ottla.errors.exception.message": b"column 'partition' is negative; null leaves the choice to the "
            b"partitioner",
        },
    )
    assert (written.records, written.refused) == (3, 1)
    assert sum(written.partitions.values()) == 3


def test_a_refused_row_without_a_topic_has_none_in_its_dead_letter() -> None:
    batch = pa.record_batch({"topic": pa.array(["t", None]), "value": ["1", "2"]})
    with cluster() as simulation:
        sent(simulation, [batch], **TO_V)
        [(_key, value, headers)] = letters(simulation)

    assert (value, headers["__ottla.errors.topic"]) == (b"2", None)
    assert (
        headers["__ottla.errors.exception.message"] == b"column 'topic' is null; give it a topic, or set option 'topic'"
    )


def test_headers_without_a_name_are_left_out_of_the_dead_letter() -> None:
    wrong = [{"key": "good", "value": b"1"}, {"key": None, "value": b"2"}, None]
    batch = pa.record_batch({"value": ["1"], "headers": pa.array([wrong], HEADERS)})
    with cluster() as simulation:
        sent(simulation, [batch], topic="t", **TO_V)
        [(_key, _value, headers)] = letters(simulation)

    assert headers.pop("good") == b"1"
    assert len(headers) == 3


def test_the_dead_letter_of_a_record_that_is_too_large_says_its_sizes() -> None:
    batch = pa.record_batch({"key": [b"k", b"kk"], "value": [b"", bytes(2000)]})
    with cluster(max_request_size=1000, batch_size=500) as simulation:
        written = sent(simulation, [batch], topic="t", **TO_V)
        [(key, value, headers)] = letters(simulation)

    reason = headers["__ottla.errors.exception.message"]
    assert (key, value) == (None, None)
    assert reason is not None
    assert reason.startswith(b"it has 2084 bytes, above max.request.size")
    assert reason.endswith(b"(column 'key': 2 bytes, column 'value': 2000 bytes)")
    assert (written.records, written.refused, written.bytes) == (2, 1, 2003)


def test_rows_without_a_dead_letter_topic_are_counted_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    batch = numbered(0, 4, partition=pa.array([0, -1, 1, -1], pa.int32()))
    with caplog.at_level(logging.WARNING, "ottla_spark"), cluster() as simulation:
        written = sent(simulation, [batch], topic="t", **SKIPPED)
        found = values(simulation, "t")

    assert found == [b"0", b"2"]
    assert (written.records, written.refused) == (2, 2)
    [said] = [record.getMessage() for record in caplog.records if record.name.startswith("ottla_spark")]
    assert said == (
        "Spark partition 7: 2 rows of 4 refused and skipped; the first, row 2 of Spark partition 7: column "
        "'partition' is negative; null leaves the choice to the partitioner"
    )


def test_dead_letters_are_sent_while_more_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_rows, "LETTERS_BYTES", 30_000)
    nowhere = pa.array([None] * 10, pa.string())
    with cluster() as simulation:

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, 100, 10):
                yield numbered(start, start + 10, topic=nowhere)
            until(lambda: len(letters(simulation)) >= 90)
            yield numbered(100, 110, topic=nowhere)

        written = sent(simulation, batches(), **TO_V)
        found = [value for _key, value, _headers in letters(simulation)]

    assert sorted(value or b"" for value in found) == sorted(b"%d" % number for number in range(110))
    assert (written.records, written.refused) == (110, 110)


def test_a_task_whose_rows_are_all_refused_is_complete() -> None:
    batch = numbered(0, 3, partition=pa.array([-1] * 3, pa.int32()))
    with cluster() as simulation:
        skipped = sent(simulation, [batch], topic="t", **SKIPPED)
        lettered = sent(simulation, [batch], topic="t", **TO_V)
        found = values(simulation, "v")

    assert (skipped.records, skipped.refused) == (0, 3)
    assert (lettered.records, lettered.refused) == (3, 3)
    assert found == [b"0", b"1", b"2"]


def test_a_record_that_only_the_broker_finds_too_large_is_refused_alone() -> None:
    batches = [numbered(0, 3, partition=pa.array([at, at, at], pa.int32())) for at in (0, 1)]
    with cluster() as simulation:
        simulation.cluster.topics["t"].max_message_bytes = 200
        large = pa.record_batch({"value": [b"x" * 300], "partition": pa.array([0], pa.int32())})
        written = sent(simulation, [*batches, large], topic="t", **TO_V)
        [(_key, value, headers)] = letters(simulation)
        found = values(simulation, "t")

    assert found == sorted([b"0", b"1", b"2"] * 2)
    assert value is None
    assert headers["__ottla.errors.row"] == b"row 7 of Spark partition 7"
    assert b"MESSAGE_TOO_LARGE" in (headers["__ottla.errors.exception.message"] or b"")
    assert (written.records, written.refused) == (7, 1)


def test_in_a_transaction_a_refusal_of_the_broker_fails_the_task() -> None:
    with cluster() as simulation:
        simulation.cluster.topics["t"].max_message_bytes = 200
        batch = pa.record_batch({"value": [b"x" * 300]})
        with pytest.raises(WriteError, match="MESSAGE_TOO_LARGE"):
            sent(simulation, [batch], topic="t", transactional=True, **TO_V)


def test_other_refusals_of_a_broker_still_fail_the_task() -> None:
    with cluster() as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.INVALID_RECORD] * 4)
        with pytest.raises(WriteError, match="INVALID_RECORD"):
            sent(simulation, [numbered(0, 3)], topic="t", **TO_V)


def test_a_missing_topic_is_no_error_of_a_row() -> None:
    with (
        cluster(max_block_ms=0) as simulation,
        pytest.raises(WriteError, match="and the later rows for topic 'nowhere'"),
    ):
        sent(simulation, [numbered(0, 3, topic=["t", "nowhere", "t"])], **TO_V)


def test_a_dead_letter_that_is_too_large_is_sent_without_its_content() -> None:
    batch = pa.record_batch({"value": [b"x" * 880], "partition": pa.array([-1], pa.int32())})
    with cluster(max_request_size=1000) as simulation:
        sent(simulation, [batch], topic="t", **TO_V)
        [(key, value, headers)] = letters(simulation)

    assert (key, value) == (None, None)
    assert (headers["__ottla.errors.exception.message"] or b"").endswith(b"partitioner (column 'value': 880 bytes)")


def test_a_dead_letter_that_is_refused_too_fails_the_task() -> None:
    batch = pa.record_batch({"value": [b"x" * 880], "partition": pa.array([-1], pa.int32())})
    with cluster(max_request_size=200) as simulation, pytest.raises(WriteError) as failed:
        sent(simulation, [batch], topic="t", **TO_V)

    said = str(failed.value)
    assert said.startswith("row 1 of Spark partition 7 was refused: column 'partition' is negative")
    assert "; its dead letter for topic 'v' cannot be sent, either: " in said


def _row() -> st.SearchStrategy[Mapping[str, Any]]:
    header = st.fixed_dictionaries({"key": st.none() | st.text(max_size=3), "value": st.none() | st.binary(max_size=3)})
    return st.fixed_dictionaries(
        {
            "topic": st.none() | st.sampled_from(TOPICS[:2]),
            "partition": st.sampled_from([-1, 0, 1, 2, None]),
            "headers": st.none() | st.lists(header, max_size=2),
            "size": st.sampled_from([1, 10, 2000]),
        }
    )


@given(rows=st.lists(_row(), min_size=1, max_size=40), size=st.integers(1, 20), table=st.integers(1, 4000))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_row_is_one_record_or_one_dead_letter(rows: list[Mapping[str, Any]], size: int, table: int) -> None:
    numbers = [b"%d" % number for number in range(len(rows))]
    columns = {
        "topic": pa.array([row["topic"] for row in rows], pa.string()),
        "key": pa.array(numbers, pa.binary()),
        "value": pa.array([b"x" * row["size"] for row in rows], pa.binary()),
        "partition": pa.array([row["partition"] for row in rows], pa.int32()),
        "headers": pa.array([row["headers"] for row in rows], HEADERS),
    }
    refused = {
        number
        for number, row in enumerate(rows)
        if row["topic"] is None
        or row["partition"] == -1
        or row["size"] == 2000
        or any(header["key"] is None for header in row["headers"] or ())
    }

    with pytest.MonkeyPatch.context() as patch, cluster(max_request_size=1000, batch_size=500) as simulation:
        patch.setattr(row_buffer, "TABLE_BYTES", table)
        written = sent(simulation, pa.table(columns).to_batches(max_chunksize=size), **TO_V)
        records = {topic: [r for at in range(PARTITIONS) for r in log(simulation, topic, at)] for topic in TOPICS}

    names = [dict(record.headers)["__ottla.errors.row"] for record in records["v"]]
    assert sorted(names) == sorted(b"row %d of Spark partition 7" % (number + 1) for number in refused)
    for topic in TOPICS[:2]:
        kept = {n for n, row in zip(numbers, rows, strict=True) if row["topic"] == topic and int(n) not in refused}
        assert {record.key for record in records[topic]} == kept
        assert len(records[topic]) == len(kept)
    assert (written.records, written.refused) == (len(rows), len(refused))
