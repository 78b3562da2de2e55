"""Time of a record's steps up to a request, without a network: `python benchmarks/append.py`.

It prints each step's nanoseconds per record, the best of some repetitions: for tuning, not for comparing machines.
`ProducerBatch.append` contains `Columns.append`.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import click
from rich.console import Console
from rich.table import Table
from workload import DISTINCT_KEYS, Workload

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.time_settings import TimeSettings
from ottla.interfaces import Columns, ColumnsKind, RecordEncoder, TopicView
from ottla.network.backoff import Backoff
from ottla.plugins.registry import Plugin, Registry
from ottla.recordbatch.header_v2 import batch_header

NOW_MS: Final = 1_700_000_000_000
REGISTRY: Final = Registry()
RUN: Final = 1_000
"""Keys that are partitioned together, as in `send`."""


class SendPath:
    """The steps. Each method runs its step for all records and returns the seconds."""

    def __init__(self, workload: Workload, encoder: RecordEncoder) -> None:
        self._workload = workload
        self._encoder = encoder
        self._records = list(zip(workload.keys(workload.records), workload.values(workload.records), strict=True))
        self._headers = workload.header_list or ()

    def empty_loop(self) -> float:
        """The loop alone, which the others up to the accumulator contain."""
        started = time.perf_counter()
        for _key, _value in self._records:
            pass
        return time.perf_counter() - started

    def partition(self) -> float:
        """Choose the partitions of all keys, one run of keys at a time."""
        partition_column = made(REGISTRY.plugin("partitioner", "murmur2")).partition_column
        view = TopicView(partitions=self._workload.partitions, available=(), queued_bytes=())
        keys = [key for key, _value in self._records if key is not None]
        started = time.perf_counter()
        for start in range(0, len(keys), RUN):
            partition_column("t", keys[start : start + RUN], view)
        return time.perf_counter() - started

    def append_to_columns(self) -> float:
        """Append records to columns, new ones when they are full."""
        started = time.perf_counter()
        self._filled()
        return time.perf_counter() - started

    def append_to_accumulator(self) -> float:
        """Append records to batches of one partition, which are never drained."""
        appender = accumulator(self._workload, self._encoder).appender
        headers, size = self._headers, self._workload.value_size
        queue = appender.queues("t", TopicView(partitions=1, available=(0,), queued_bytes=())).queues[0]
        started = time.perf_counter()
        for key, value in self._records:
            batch = queue.open
            if batch is None or batch.append(key, value, headers, None, None) is None:
                appender.append("t", 0, (key, value, headers, None, None), size)
        return time.perf_counter() - started

    def encode(self) -> float:
        """Encode records sections."""
        batches = self._filled()
        started = time.perf_counter()
        for batch in batches:
            batch.encode(2)
        return time.perf_counter() - started

    def make_header(self) -> float:
        """Encode the headers of batches, checksums included."""
        batches = [batch.encode(2) for batch in self._filled()]
        started = time.perf_counter()
        for batch in batches:
            batch_header(
                batch.chunks,
                codec_id=0,
                first_timestamp=batch.first_timestamp,
                max_timestamp=batch.max_timestamp,
                count=batch.count,
            )
        return time.perf_counter() - started

    def _filled(self) -> Sequence[Columns]:
        headers, limit = self._headers, self._workload.batch_size
        full = [self._columns(limit)]
        append = full[-1].append
        for key, value in self._records:
            if append(key, value, headers, NOW_MS) is None:
                full.append(self._columns(limit))
                append = full[-1].append
                append(key, value, headers, NOW_MS)
        return full

    def _columns(self, limit: int) -> Columns:
        columns = self._encoder.columns(ColumnsKind.OBJECTS, limit)
        assert columns is not None
        return columns


def made(plugin: Plugin) -> Any:
    """Return a plugin's object with its default configuration."""
    return plugin.create({key.name: key.default for key in plugin.config_keys()})


@functools.cache
def encoder(name: str) -> RecordEncoder:
    """Return an installed encoder."""
    return cast(RecordEncoder, made(REGISTRY.plugin("encoder", name)))


def accumulator(workload: Workload, encoder: RecordEncoder) -> RecordAccumulator:
    """Return an accumulator with enough memory for all records."""

    def columns(limit: int) -> Columns:
        made = encoder.columns(ColumnsKind.OBJECTS, limit)
        assert made is not None
        return made

    return RecordAccumulator(
        sizes=BatchSizes(target=workload.batch_size, max_bytes=1 << 20, record_cost=encoder.record_cost),
        times=TimeSettings(
            linger=1.0, delivery_timeout=120.0, max_block=0.0, retry_backoff=Backoff(initial=0.1, maximum=1.0)
        ),
        pool=BufferPool(2**40),
        columns=columns,
        seal=Sealer(None).seal,
        key_partitioner=None,
        sequences=Sequences(off=True),
        io_loop=WokenLoop(lambda: None),
    )


def best_of(repeats: int, step: Callable[[], float]) -> float:
    """Return the shortest of some repetitions, without the garbage collector's pauses."""
    gc.collect()
    gc.disable()
    try:
        return min(step() for _ in range(repeats))
    finally:
        gc.enable()


def table(rows: Iterable[tuple[str, float]]) -> Table:
    """Return a table of names and nanoseconds."""
    shown = Table()
    shown.add_column("step")
    shown.add_column("ns per record", justify="right")
    for name, nanoseconds in rows:
        shown.add_row(name, f"{nanoseconds:,.0f}")
    return shown


@click.command(context_settings={"show_default": True})
@click.option("--records", default=100_000)
@click.option("--value-size", default=100, help="Bytes of a value.")
@click.option("--keyed", is_flag=True)
@click.option("--distinct-keys", default=DISTINCT_KEYS)
@click.option("--headers", is_flag=True)
@click.option("--repeats", default=7)
@click.option("--encoder", "name", default="python", help="native: the one of ottla-accel.")
def main(
    records: int, value_size: int, keyed: bool, distinct_keys: int, headers: bool, repeats: int, name: str
) -> None:
    """Time the steps of the send path one by one."""
    workload = Workload(
        records=records,
        value_size=value_size,
        partitions=4,
        keyed=keyed,
        distinct_keys=distinct_keys,
        headers=headers,
        callback=False,
        compression="none",
        acks="all",
    )
    path = SendPath(workload, encoder(name))
    steps = {
        "an empty loop": path.empty_loop,
        "Partitioner.partition_column": path.partition,
        "Columns.append": path.append_to_columns,
        "ProducerBatch.append": path.append_to_accumulator,
        "Columns.encode": path.encode,
        "batch_header": path.make_header,
    }
    rows = [(name, best_of(repeats, step) * 1e9 / records) for name, step in steps.items()]
    Console().print(table(rows))


if __name__ == "__main__":
    main()
