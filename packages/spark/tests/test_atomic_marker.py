"""The meaning of the marker in Kafka for the batch that Spark asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs
import pytest

from ottla.errors import InvalidRecordError
from ottla.transactions import OffsetAndMetadata
from ottla_spark.atomic.errors import BatchRefusedError
from ottla_spark.atomic.marker import BatchAction, Marker, batch_action, check_rows, with_other_topics


def marker(batch: int, query: str = "q") -> Marker:
    return Marker(query=query, batch=batch)


@pytest.mark.parametrize("batch", [0, 1, 2**40])
def test_a_marker_survives_a_round_trip(batch: int) -> None:
    found = Marker.from_offset(attrs.evolve(marker(batch, "ü-1"), rows=batch).to_offset())

    assert (found, found.rows) == (marker(batch, "ü-1"), batch)


def test_a_marker_of_an_earlier_version_has_no_rows() -> None:
    assert Marker.from_offset(OffsetAndMetadata(5, '{"query": "q", "batch": 4}')).rows is None


@pytest.mark.parametrize(
    "found",
    [
        OffsetAndMetadata(5),
        OffsetAndMetadata(5, "a consumer's note"),
        OffsetAndMetadata(5, "[]"),
        OffsetAndMetadata(5, "[" * 4_000),
        OffsetAndMetadata(5, '{"query": "q"}'),
        OffsetAndMetadata(5, '{"query": 7, "batch": 4}'),
        OffsetAndMetadata(5, '{"query": "q", "batch": 5}'),
        OffsetAndMetadata(5, '{"query": "q", "batch": "4"}'),
        OffsetAndMetadata(5, '{"query": "q", "batch": 4, "rows": "7"}'),
    ],
)
def test_an_offset_of_another_program_is_not_a_marker(found: OffsetAndMetadata) -> None:
    with pytest.raises(InvalidRecordError, match="offset 5"):
        Marker.from_offset(found)


@pytest.mark.parametrize(
    ("found", "asked", "begins_with", "action"),
    [
        (None, 0, None, BatchAction.WRITE),
        (0, 0, None, BatchAction.SKIP),
        (0, 1, None, BatchAction.WRITE),
        (7, 7, 7, BatchAction.SKIP),
        (None, 7, 7, BatchAction.WRITE),
        (3, 7, 7, BatchAction.WRITE),
        (7, 8, 7, BatchAction.WRITE),
    ],
)
def test_a_batch_is_due_if_its_predecessor_is_the_last(
    found: int | None, asked: int, begins_with: int | None, action: BatchAction
) -> None:
    last = None if found is None else marker(found)

    assert batch_action(last, marker(asked), begins_with=begins_with, where="here") is action


@pytest.mark.parametrize(
    ("found", "asked", "begins_with", "says"),
    [
        (
            None,
            1,
            None,
            "there is no marker in here: the function of foreachBatch returned without calling the sink for batch 0 "
            ".*, the query had another topic, .*, the marker expired .* set begins_with=1",
        ),
        (None, 8, 7, "there is no marker in here"),
        (
            3,
            7,
            None,
            "the marker is of batch 3 in here: .* without calling the sink for batches 4 to 6 .* begins_with=7",
        ),
        (3, 5, None, "returned without calling the sink for batch 4 .*, or the cluster has lost its newest data"),
        (7, 6, None, "Kafka already has batch 7 according to here: the checkpoint is older"),
        (7, 0, 0, "the checkpoint is older"),
    ],
)
def test_an_ambiguous_marker_is_refused(found: int | None, asked: int, begins_with: int | None, says: str) -> None:
    last = None if found is None else marker(found)
    with pytest.raises(BatchRefusedError, match=says):
        batch_action(last, marker(asked), begins_with=begins_with, where="here")


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({}, "no marker"),
        ({"t": marker(4, "other")}, "no marker"),
        (
            {"t": marker(2), "u": marker(4)},
            r"no marker\. .* topic 'u' is of batch 4, .* begins_with=5 .*",
        ),
        ({"t": marker(5)}, ".* for topic 't' is of batch 5, .*: start it with that topic until batch 5 is over"),
        ({"t": marker(2)}, ".* for topic 't' is of batch 2, so its topic was changed"),
    ],
)
def test_a_marker_for_the_topic_of_before_is_named(others: Mapping[str, Marker], says: str) -> None:
    said = with_other_topics(BatchRefusedError("no marker"), others, marker(5))

    assert re.fullmatch(says, str(said))


@pytest.mark.parametrize("batch", [0, 1, 5])
def test_the_marker_of_another_query_is_refused_for_any_batch(batch: int) -> None:
    with pytest.raises(BatchRefusedError, match=r"query other .* and this is query q"):
        batch_action(marker(batch, "other"), marker(1), begins_with=1, where="here")


def test_a_batch_in_kafka_has_the_rows_that_spark_has_now() -> None:
    written = attrs.evolve(marker(4), rows=7)
    check_rows(written, 7, where="here")
    check_rows(marker(4), 8, where="here")
    with pytest.raises(BatchRefusedError, match=r"batch 4 is in Kafka with 7 rows .* now has 8 rows .* skips=4"):
        check_rows(written, 8, where="here")
