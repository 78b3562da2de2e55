"""One client at a distance, in a process of its own: `python distance_client.py CLIENT SERVERS COLLECTOR`.

Each line on its stdin is one work (`Work.line`); it answers each with a line of JSON, a `Took`. Later works reuse the
producer of the first work with the same settings, so connections and metadata are ready. After the first work, the
process sets Python's garbage collector as COLLECTOR names.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from ottla import Delivery

TIMEOUT: Final = 60.0


@attrs.frozen(kw_only=True)
class Work:
    """Records of a size for a topic.

    With an *interval*, in seconds, each interval sends *bunch* records, else all are sent at once. They go to all
    partitions in turn, or by key, or by the client's choice.
    """

    topic: str
    partitions: int
    records: int
    size: int
    way: str
    """`turns`, `keys` or `free`."""
    interval: float
    bunch: int
    idempotent: bool

    @property
    def line(self) -> str:
        """The work as a line for a client."""
        return " ".join(str(value) for value in attrs.astuple(self))

    @classmethod
    def read(cls, line: str) -> Work:
        """Parse the result of `line`."""
        topic, partitions, records, size, way, interval, bunch, idempotent = line.split()
        return cls(
            topic=topic,
            partitions=int(partitions),
            records=int(records),
            size=int(size),
            way=way,
            interval=float(interval),
            bunch=int(bunch),
            idempotent=idempotent == "True",
        )


@attrs.frozen(kw_only=True)
class Took:
    """Milliseconds of each record from `send` to its callback, and from the first `send` to the end of the flush."""

    p50: float
    p95: float
    p99: float
    all: float


class Client(Protocol):
    """A producer under test."""

    def send(
        self, topic: str, value: bytes, key: bytes | None, partition: int | None, done: Callable[[], object]
    ) -> None:
        """Send a record; *done* is called when it is acknowledged."""

    def wait(self, until: float) -> None:
        """Wait until a time."""

    def flush(self) -> None:
        """Wait for all records."""


class OttlaClient:
    """Client with `send` and `on_delivery`."""

    def __init__(self, servers: str, idempotent: bool, encoder: str) -> None:
        from ottla import Producer

        self._producer = Producer(
            bootstrap_servers=servers, enable_idempotence=idempotent, linger_ms=5, record_encoder=encoder
        )

    def send(
        self, topic: str, value: bytes, key: bytes | None, partition: int | None, done: Callable[[], object]
    ) -> None:
        """Send a record; *done* is called when it is acknowledged."""

        def acknowledged(delivery: Delivery) -> None:
            if delivery.error is None:
                done()

        self._producer.send(topic, value, key, partition=partition, on_delivery=acknowledged)

    def wait(self, until: float) -> None:
        """Wait; Ottla has a thread of its own."""
        time.sleep(max(0.0, until - time.perf_counter()))

    def flush(self) -> None:
        """Wait for all records. Raises when one failed."""
        self._producer.flush(TIMEOUT)


class ConfluentClient:
    """Client with `produce`, and `poll` while it waits."""

    def __init__(self, servers: str, idempotent: bool) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "max.in.flight.requests.per.connection": 5,
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )

    def send(
        self, topic: str, value: bytes, key: bytes | None, partition: int | None, done: Callable[[], object]
    ) -> None:
        """Send a record; *done* is called when it is acknowledged."""

        def acknowledged(error: object, _message: object) -> None:
            if error is None:
                done()

        self._producer.produce(
            topic, value, key, partition=-1 if partition is None else partition, on_delivery=acknowledged
        )

    def wait(self, until: float) -> None:
        """Run callbacks when they are due."""
        while (left := until - time.perf_counter()) > 0:
            self._producer.poll(left)

    def flush(self) -> None:
        """Wait for all records."""
        self._producer.flush(TIMEOUT)


CLIENTS: Final[Mapping[str, Callable[[str, bool], Client]]] = {
    "ottla": lambda servers, idempotent: OttlaClient(servers, idempotent, "native"),
    "ottla-python": lambda servers, idempotent: OttlaClient(servers, idempotent, "python"),
    "confluent-kafka": ConfluentClient,
}


def freeze() -> None:
    """Leave all objects that exist now out of later collections."""
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """Collect only after 100,000 new objects, so that a burst makes one collection at most."""
    gc.set_threshold(100_000, *gc.get_threshold()[1:])


COLLECTORS: Final[Mapping[str, Callable[[], object]]] = {
    "usual": lambda: None,
    "frozen": freeze,
    "seldom": collect_seldom,
    "off": gc.disable,
}


def places(work: Work) -> Iterator[tuple[bytes | None, int | None]]:
    """Yield key and partition of each record."""
    for number in range(work.records):
        if work.way == "turns":
            yield None, number % work.partitions
        else:
            yield b"key-%d" % (number * 7_919 % 1_000) if work.way == "keys" else None, None


def run(client: Client, work: Work) -> Took:
    """Send the records and return the times. Raises when not every record was acknowledged."""
    value, took, clock = b"v" * work.size, [], time.perf_counter

    def timed(sent_at: float) -> Callable[[], object]:
        return lambda: took.append(clock() - sent_at)

    started = clock()
    for number, (key, partition) in enumerate(places(work)):
        if work.interval and number % work.bunch == 0:
            client.wait(started + number // work.bunch * work.interval)
        client.send(work.topic, value, key, partition, timed(clock()))
    client.flush()
    whole = clock() - started
    if len(took) != work.records:
        raise RuntimeError(f"{work.records} records were sent, {len(took)} were acknowledged")
    parts = quantiles(took, n=100, method="inclusive")
    return Took(p50=parts[49] * 1e3, p95=parts[94] * 1e3, p99=parts[98] * 1e3, all=whole * 1e3)


def main(name: str, servers: str, collector: str) -> None:
    """Run the works from stdin."""
    clients: dict[bool, Any] = {}
    for number, line in enumerate(sys.stdin):
        if number == 1:
            COLLECTORS[collector]()
        work = Work.read(line)
        if work.idempotent not in clients:
            clients[work.idempotent] = CLIENTS[name](servers, work.idempotent)
        print(json.dumps(attrs.asdict(run(clients[work.idempotent], work))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
