"""Tasks that send rows through a whole producer to simulated brokers with three topics."""

from __future__ import annotations

import threading
import time
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa

from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.task import send_rows
from ottla_spark.sink.task_written import TaskWritten
from simulated_producer import Simulated, simulated

TOPICS = ("t", "u", "v")
PARTITIONS = 3
HANG_GUARD = 20.0


def options(topic: str | None = None, **more: str) -> WriteOptions:
    """Options of a write; `_` in the name of one is a `.`."""
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": "seed:9092"} | ({"topic": topic} if topic else {})
    read = read_options(given | {key.replace("_", "."): value for key, value in more.items()}, problems=problems)
    assert problems == []
    return read


@contextmanager
def cluster(**config: Any) -> Iterator[Simulated]:
    """Three topics of three partitions each, known to the producer."""
    with simulated(1, 1, 1, **config) as simulation:
        for topic in TOPICS[1:]:
            simulation.cluster.create(topic, 1, 1, 1)
            simulation.know(topic)
        yield simulation


def sent(
    simulation: Simulated,
    batches: Iterable[pa.RecordBatch],
    *,
    topic: str | None = None,
    transactional: bool = False,
    **more: str,
) -> TaskWritten:
    """The result of a task with these batches and more options, or its error."""
    ended: list[Any] = []
    batches = iter(batches)
    first = next(batches)
    task: dict[str, Any] = {
        "options": options(topic, **more),
        "transactional": transactional,
        "columns": {name: at for at, name in enumerate(first.schema.names)},
        "task": "Spark partition 7",
    }

    def run() -> None:
        try:
            ended.append(send_rows(chain([first], batches), lambda: simulation.producer, **task))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for _ in range(1_000_000):
        if not thread.is_alive():
            break
        simulation.round(until=simulation.clock())
        thread.join(
            0.0005
        )  # or the rounds keep the interpreter's lock from the task, and look like a client that spins
    thread.join(HANG_GUARD)
    [outcome] = ended
    if isinstance(outcome, BaseException):
        raise outcome
    assert isinstance(outcome, TaskWritten)
    return outcome


def log(simulation: Simulated, topic: str, partition: int) -> list[Any]:
    return list(simulation.cluster.topics[topic].log.get(partition, []))


def numbered(start: int, end: int, **columns: Any) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % number for number in range(start, end)], **columns})


def received(columns: Mapping[str, pa.Array]) -> tuple[pa.RecordBatch, weakref.ref[object]]:
    """Return a record batch as Spark sends it, with all columns in one buffer, and that buffer's memory."""
    batch = pa.record_batch(dict(columns))
    memory = array("b", batch.serialize().to_pybytes())
    return pa.ipc.read_record_batch(pa.py_buffer(memory), batch.schema), weakref.ref(memory)


def until(happened: Callable[[], object]) -> None:
    """Wait for what the test's thread brings about with its rounds."""
    deadline = time.monotonic() + HANG_GUARD
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        threading.Event().wait(0.001)
