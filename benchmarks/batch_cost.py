"""Processor time of a batch, without a network: `python benchmarks/batch_cost.py --encoder native`.

Each batch has a few records for one of many partitions. The floor is the smallest Python code that does what no
producer can leave out: memory counted under a lock, an object with an outcome, a queue, a request, a response.
"""

from __future__ import annotations

import gc
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Final

import click
from append import accumulator, encoder
from rich.console import Console
from rich.table import Table
from workload import Workload

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.concurrency import signals
from ottla.interfaces import Buffer, Columns, ColumnsKind, RecordEncoder, TopicView
from ottla.network.cluster import Broker, Cluster, Topic
from ottla.protocol import PRODUCE
from ottla.protocol import produce_request as encoded_request
from ottla.recordbatch.header_v2 import batch_header
from ottla.sender.produce_messages import produce_request, read_response

TOPIC: Final = "t"
TOPIC_ID: Final = b"i" * 16
NODE: Final = 1
IN_A_REQUEST: Final = 128
VERSION: Final = 13
STEPS: Final = ("begin, with its first record", "drain: out of its queue, and sealed", "request", "response")
_PARTITION_RESPONSE: Final = struct.Struct(">ihqqqbbb")


class OwnPath:
    """The steps of the producer's own code."""

    def __init__(self, encoder: RecordEncoder, partitions: int) -> None:
        self._accumulator = accumulator(workload(partitions), encoder)
        broker = Broker(id=NODE, host="localhost", port=9092)
        known = Topic(name=TOPIC, id=TOPIC_ID, leaders=(NODE,) * partitions, epochs=(0,) * partitions)
        self._cluster = Cluster(brokers={NODE: broker}, topics={TOPIC: known})
        view = TopicView(partitions=partitions, available=(), queued_bytes=())
        self._queues = self._accumulator.appender.queues(TOPIC, view).queues

    def begin(self, partitions: Sequence[int], key: bytes, value: bytes) -> None:
        """Begin a batch for each partition."""
        for partition in partitions:
            self._accumulator.appender.append(TOPIC, partition, (key, value, (), None, None), len(key) + len(value))

    def fill(self, partitions: Sequence[int], key: bytes, value: bytes, records: int) -> None:
        """Append the other records, and close the batches."""
        for partition in partitions:
            batch = self._queues[partition].open
            assert batch is not None
            for _ in range(records - 1):
                batch.append(key, value, (), None, None)
        self._accumulator.close_open_batches()

    def drain(self, _partitions: Sequence[int]) -> Sequence[ProducerBatch]:
        """Take and seal the batches of one request."""
        drained = self._accumulator.drain(self._cluster, [NODE], max_size=1 << 24, now=time.monotonic())
        return drained[NODE]

    def request(self, batches: Sequence[ProducerBatch]) -> Sequence[Buffer]:
        """Make the request of the batches."""
        ids = {TOPIC: TOPIC_ID}
        return produce_request(batches, acks=-1, timeout=30.0, topic_ids=ids, on_complete=id).body(VERSION)

    def response(self, batches: Sequence[ProducerBatch], response: bytes) -> None:
        """Complete the batches by the response."""
        read = read_response(PRODUCE.response(VERSION).decode(response), batches, {TOPIC: TOPIC_ID})
        self._accumulator.complete_all(
            (batch, outcome)
            for batch in batches
            if isinstance(outcome := read[batch.topic, batch.partition], Acknowledged)
        )


class FloorBatch:
    """A batch of the floor."""

    __slots__ = ("columns", "held", "outcome", "partition")

    def __init__(self, partition: int, columns: Columns, held: int) -> None:
        self.partition = partition
        self.columns = columns
        self.held = held
        self.outcome: int | None = None


class Floor:
    """The same steps with the least code."""

    def __init__(self, encoder: RecordEncoder, partitions: int) -> None:
        self._encoder = encoder
        self._lock = RLock()
        self._free = 1 << 40
        self._queues: list[deque[FloorBatch]] = [deque() for _ in range(partitions)]
        self._waiting: dict[int, None] = {}

    def begin(self, partitions: Sequence[int], key: bytes, value: bytes) -> None:
        """Begin a batch for each partition."""
        for partition in partitions:
            with self._lock:
                self._free -= 4096
                columns = self._encoder.columns(ColumnsKind.OBJECTS, 4096)
                assert columns is not None
                columns.append(key, value, (), time.time_ns() // 1_000_000)
                self._queues[partition].append(FloorBatch(partition, columns, 4096))
                self._waiting[partition] = None

    def fill(self, partitions: Sequence[int], key: bytes, value: bytes, records: int) -> None:
        """Append the other records."""
        for partition in partitions:
            columns = self._queues[partition][0].columns
            for _ in range(records - 1):
                columns.append(key, value, (), 0)

    def drain(self, partitions: Sequence[int]) -> Sequence[tuple[FloorBatch, Sequence[Buffer]]]:
        """Take and encode the batches of one request."""
        drained: list[tuple[FloorBatch, Sequence[Buffer]]] = []
        for partition in partitions:
            with self._lock:
                batch = self._queues[partition].popleft()
                del self._waiting[partition]
            encoded = batch.columns.encode(2)
            header = batch_header(
                encoded.chunks,
                codec_id=0,
                first_timestamp=encoded.first_timestamp,
                max_timestamp=encoded.max_timestamp,
                count=encoded.count,
            )
            drained.append((batch, [header, *encoded.chunks]))
        return drained

    def request(self, batches: Sequence[tuple[FloorBatch, Sequence[Buffer]]]) -> Sequence[Buffer]:
        """Make the request of the batches."""
        partitions = [(batch.partition, chunks) for batch, chunks in batches]
        return encoded_request(
            VERSION, transactional_id=None, acks=-1, timeout_ms=30_000, topics=[(TOPIC, TOPIC_ID, partitions)]
        )

    def response(self, batches: Sequence[tuple[FloorBatch, Sequence[Buffer]]], response: bytes) -> None:
        """Complete the batches by the response."""
        offsets: Mapping[int, int] = {
            partition.index: partition.base_offset
            for topic in PRODUCE.response(VERSION).decode(response).responses
            for partition in topic.partition_responses
        }
        released = 0
        for batch, _chunks in batches:
            with self._lock:
                batch.outcome = offsets[batch.partition]
            released += batch.held
        with self._lock:
            self._free += released


def workload(partitions: int) -> Workload:
    """Return what an accumulator is built for."""
    return Workload(
        records=partitions,
        value_size=100,
        partitions=partitions,
        keyed=True,
        distinct_keys=partitions,
        headers=False,
        callback=False,
        compression="none",
        acks="all",
    )


def response_for(partitions: Sequence[int]) -> bytes:
    """Return a response that acknowledges a batch in each of these partitions, 127 or more."""
    number = len(partitions) + 1
    length = bytes([number & 0x7F | 0x80, number >> 7])
    parts = b"".join(_PARTITION_RESPONSE.pack(partition, 0, 100, -1, 0, 1, 0, 0) for partition in partitions)
    return b"\x02" + TOPIC_ID + length + parts + b"\0" + bytes(4) + b"\0"


def measured(path: OwnPath | Floor, partitions: int, records: int) -> Sequence[float]:
    """Return the seconds of each step for one batch in every partition, taken in requests."""
    key, value = b"k" * 16, b"v" * 100
    seconds = [0.0] * len(STEPS)
    clock = time.thread_time
    for start in range(0, partitions - IN_A_REQUEST + 1, IN_A_REQUEST):
        those = range(start, start + IN_A_REQUEST)
        response = response_for(those)
        began = clock()
        path.begin(those, key, value)
        begun = clock()
        path.fill(those, key, value, records)
        filled = clock()
        batches = path.drain(those)
        drained = clock()
        path.request(batches)  # type: ignore[arg-type]  # its own batches
        requested = clock()
        path.response(batches, response)  # type: ignore[arg-type]
        ended = clock()
        for step, spent in enumerate((begun - began, drained - filled, requested - drained, ended - requested)):
            seconds[step] += spent
    return seconds


def best(path: Callable[[], OwnPath | Floor], partitions: int, records: int, repeats: int) -> Sequence[float]:
    """Return the least µs of each step of a batch, without the garbage collector."""
    number = partitions // IN_A_REQUEST * IN_A_REQUEST
    made = path()
    gc.collect()
    gc.disable()
    try:
        rounds = [measured(made, partitions, records) for _ in range(repeats)]
    finally:
        gc.enable()
    return [min(each) * 1e6 / number for each in zip(*rounds, strict=True)]


def deferral() -> float:
    """Return the µs of deferring signals once on this thread, which is a part of each beginning."""
    started = time.thread_time()
    for _ in range(20_000):
        signals.begin()
        signals.end()
    return (time.thread_time() - started) * 1e6 / 20_000


@click.command(context_settings={"show_default": True})
@click.option("--partitions", default=5_000)
@click.option("--records", default=20, help="Records of a batch.")
@click.option("--repeats", default=15)
@click.option("--encoder", "name", default="python", help="native: the one of ottla-accel.")
def main(partitions: int, records: int, repeats: int, name: str) -> None:
    """Time the steps of a batch, and those of the floor."""
    own = best(lambda: OwnPath(encoder(name), partitions), partitions, records, repeats)
    floor = best(lambda: Floor(encoder(name), partitions), partitions, records, repeats)
    shown = Table()
    for title in ("µs of a batch", "Ottla", "floor"):
        shown.add_column(title, justify="left" if shown.columns == [] else "right")
    for step, mine, least in zip(STEPS, own, floor, strict=True):
        shown.add_row(step, f"{mine:.1f}", f"{least:.1f}")
    shown.add_row("all", f"{sum(own):.1f}", f"{sum(floor):.1f}")
    shown.add_row("of the beginning, deferring signals", f"{deferral():.1f}", "")
    Console().print(shown)


if __name__ == "__main__":
    main()
