"""All-or-nothing batches that are refused before any request or write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import TransactionTimeoutError
from ottla_spark.atomic import BatchRefusedError, atomically

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "200", "topic": "t"}


def frame(*, query: str | None = "q", speculation: str = "false") -> Any:
    """The part of Spark's own frame that is read first."""
    context = SimpleNamespace(
        getConf=lambda: {"spark.speculation": speculation}, getLocalProperty=lambda name: query and f"{query} {name}"
    )
    return SimpleNamespace(sparkSession=SimpleNamespace(_jsparkSession=None, sparkContext=context))


def test_speculation_is_refused_since_two_tasks_would_write_at_once() -> None:
    with pytest.raises(BatchRefusedError, match=r"spark\.speculation=true: two attempts .* set it to false, or use"):
        atomically(NOWHERE, transactional_id="x")(frame(speculation="True"), 0)


def test_spark_connect_is_refused_since_it_hides_the_query() -> None:
    with pytest.raises(
        BatchRefusedError, match="which Spark Connect does not provide; run the query in the driver, or use"
    ):
        atomically(NOWHERE, transactional_id="x")(SimpleNamespace(sparkSession=SimpleNamespace()), 0)  # type: ignore[arg-type]


def test_a_frame_outside_of_a_query_is_refused() -> None:
    with pytest.raises(BatchRefusedError, match=r"pass it to writeStream\.foreachBatch"):
        atomically(NOWHERE, transactional_id="x")(frame(query=None), 0)


def test_one_sink_serves_one_query() -> None:
    sink = atomically(NOWHERE, transactional_id="x")
    with pytest.raises(TransactionTimeoutError):
        sink(frame(query="first"), 0)
    with pytest.raises(BatchRefusedError, match=r"belongs to query first .* but query second .* called it"):
        sink(frame(query="second"), 0)
