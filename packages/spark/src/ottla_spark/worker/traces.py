"""OpenTelemetry's spans of writes and their tasks, in programs that use OpenTelemetry.

The driver's span of a write is the parent of the spans of its tasks; a task's span is the parent of those of its
tables, if the producer has an interceptor that makes them. This calls OpenTelemetry's API alone: what records and
exports is configured by the program, on the driver and on the executors. Without OpenTelemetry nothing is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from pyspark import TaskContext

Carrier: TypeAlias = Mapping[str, str]
"""The context of a span as propagators write it, such as `traceparent`; empty: there is none."""

FLUSH_MS: Final = 5_000
"""Milliseconds that the export of a task's spans may take in a worker that ends with its task."""

_SCOPE: Final = "ottla-spark"
_API: Final = "opentelemetry"


@contextmanager
def write_span(carrier: Carrier, *, topic: str | None, batch: int | None = None) -> Iterator[Carrier]:
    """Make the span of a write while the block runs, and return its context for `task_span`.

    For the driver. Its parent is the context in *carrier*, or else the current span. Without OpenTelemetry the block
    gets *carrier* as it is.
    """
    if not _in_use():
        yield carrier
        return
    from opentelemetry import propagate

    given = {} if batch is None else {"spark.streaming.batch.id": batch}
    with _span("write", topic, carrier, given):
        own: dict[str, str] = {}
        propagate.inject(own)
        yield own or carrier


@contextmanager
def task_span(carrier: Carrier, *, topic: str | None) -> Iterator[None]:
    """Make the span of a task while the block runs. For executors; *carrier* is what `write_span` returned."""
    if not _in_use() and not (carrier and find_spec(_API)):
        yield
        return
    try:
        with _span("write task", topic, carrier, _of_task()):
            yield
    finally:
        if not os.environ.get("SPARK_REUSE_WORKER"):  # the worker ends without its functions for the exit
            _flush()


def _in_use() -> bool:
    """Return whether this process has imported OpenTelemetry, as a program does that configures it."""
    return _API in sys.modules


@contextmanager
def _span(operation: str, topic: str | None, carrier: Carrier, attributes: Mapping[str, Any]) -> Iterator[None]:
    from opentelemetry import propagate, trace

    destination = {} if topic is None else {"messaging.destination.name": topic}
    with trace.get_tracer(_SCOPE).start_as_current_span(
        operation if topic is None else f"{operation} {topic}",
        propagate.extract(carrier) if carrier else None,
        attributes={"messaging.system": "kafka", **destination, **attributes},
    ):
        yield


def _of_task() -> Mapping[str, Any]:
    context = TaskContext.get()
    if context is None:
        return {}
    return {
        "spark.stage.id": context.stageId(),
        "spark.partition.id": context.partitionId(),
        "spark.task.attempt.number": context.attemptNumber(),
        "spark.task.attempt.id": context.taskAttemptId(),
    }


def _flush() -> None:
    from opentelemetry import metrics, trace

    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        flush: Callable[[int], object] | None = getattr(provider, "force_flush", None)  # the SDK's have it
        if flush is not None:
            flush(FLUSH_MS)
