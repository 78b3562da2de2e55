"""Time until a record is acknowledged, with linger 0: one record after the other, or at a rate.

`python latency.py PEER SERVERS TOPIC RECORDS RATE` runs in a process of its own and prints the records' times. With a
RATE of 0 the next record is sent when the one before is acknowledged. Otherwise records are due at each millisecond as
the rate requires, and each is timed from then, even if the producer falls behind.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from ottla import Delivery

VALUE: Final = b"v" * 100
WARM_UP: Final = 2_000
TIMEOUT: Final = 60.0
POLL_SECONDS: Final = 0.1
BURST_SECONDS: Final = 0.001


@attrs.frozen(kw_only=True)
class Latency:
    """Percentiles of the records' times, in microseconds."""

    records: int
    p50: float
    p99: float
    p999: float


class Client(Protocol):
    """A producer under test. `late` gets the index of a record and the time of its acknowledgement."""

    def awaited(self) -> None:
        """Send one record and wait until it is acknowledged."""

    def send(self, index: int, late: Callable[[int, float], None]) -> None:
        """Send one record without waiting."""

    def flush(self) -> None:
        """Wait for all records."""


class OttlaClient:
    """Client with `send(...).result()`, and `on_delivery`."""

    def __init__(self, servers: str, topic: str, encoder: str, **settings: Any) -> None:
        from ottla import Producer

        self._topic = topic
        self._producer = Producer(bootstrap_servers=servers, linger_ms=0, record_encoder=encoder, **settings)

    def awaited(self) -> None:
        """Send one record and wait until it is acknowledged."""
        self._producer.send(self._topic, VALUE).result(TIMEOUT)

    def send(self, index: int, late: Callable[[int, float], None]) -> None:
        """Send one record without waiting."""

        def acknowledged(delivery: Delivery) -> None:
            if delivery.error is None:
                late(index, time.perf_counter())

        self._producer.send(self._topic, VALUE, on_delivery=acknowledged)

    def flush(self) -> None:
        """Wait for all records."""
        self._producer.flush()


class ConfluentClient:
    """Client with `produce`, and `poll` until the callback has run: here, or without waiting on a thread of its own.

    Ottla and Java have such a thread. A program that polls between its sends gets callbacks later.
    """

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        settings = {"bootstrap.servers": servers, "linger.ms": 0, "acks": "all", "enable.idempotence": True}
        self._producer = Producer({**settings, "queue.buffering.max.messages": 0})
        self._ended = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)

    def awaited(self) -> None:
        """Send one record and wait until it is acknowledged."""
        acknowledged: list[object] = []
        self._producer.produce(self._topic, VALUE, on_delivery=lambda error, _message: acknowledged.append(error))
        while not acknowledged:
            self._producer.poll(TIMEOUT)
        if acknowledged[0] is not None:
            raise RuntimeError(acknowledged[0])

    def send(self, index: int, late: Callable[[int, float], None]) -> None:
        """Send one record without waiting."""

        def acknowledged(error: object, _message: object) -> None:
            if error is None:
                late(index, time.perf_counter())

        if self._polling.ident is None:
            self._polling.start()
        self._producer.produce(self._topic, VALUE, on_delivery=acknowledged)

    def flush(self) -> None:
        """Wait for all records."""
        self._producer.flush()
        self._ended.set()
        self._polling.join()

    def _poll(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(POLL_SECONDS)


CLIENTS: Final[Mapping[str, Callable[[str, str], Client]]] = {
    "ottla": lambda servers, topic: OttlaClient(servers, topic, "native"),
    "ottla-python": lambda servers, topic: OttlaClient(servers, topic, "python"),
    "confluent-kafka": ConfluentClient,
}


def one_by_one(client: Client, records: int) -> Sequence[float]:
    """Return the seconds of each record, sent when the one before was acknowledged."""
    took = []
    for _ in range(records):
        started = time.perf_counter()
        client.awaited()
        took.append(time.perf_counter() - started)
    return took


def at_rate(client: Client, records: int, rate: float) -> Sequence[float]:
    """Return the seconds of each record from its due time, with *rate* records a second."""
    done = [0.0] * records

    def late(index: int, at: float) -> None:
        done[index] = at

    dues = [int(index / rate / BURST_SECONDS) * BURST_SECONDS for index in range(records)]
    started = time.perf_counter()
    for index, due in enumerate(dues):
        while (ahead := started + due - time.perf_counter()) > 0:
            time.sleep(ahead)
        client.send(index, late)
    client.flush()
    if failed := done.count(0.0):
        raise RuntimeError(f"{failed} of {records} records were not acknowledged")
    return [at - started - due for at, due in zip(done, dues, strict=True)]


def summary(seconds: Sequence[float]) -> Latency:
    """Return the percentiles."""
    parts = quantiles(seconds, n=1_000)
    return Latency(records=len(seconds), p50=parts[499] * 1e6, p99=parts[989] * 1e6, p999=parts[998] * 1e6)


def run(name: str, servers: str, topic: str, records: int, rate: float) -> Latency:
    """Warm up, then measure."""
    client = CLIENTS[name](servers, topic)
    one_by_one(client, WARM_UP)
    return summary(at_rate(client, records, rate) if rate else one_by_one(client, records))


def main(arguments: Sequence[Any]) -> None:
    """Print one run's percentiles as JSON."""
    name, servers, topic, records, rate = arguments
    print(json.dumps(attrs.asdict(run(name, servers, topic, int(records), float(rate)))))


if __name__ == "__main__":
    main(sys.argv[1:])
