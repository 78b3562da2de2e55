"""One run in a process of its own: `python peers.py PEER SERVERS TOPIC WORKLOAD` prints its measurement.

Every peer sends the same records with the same settings, in the fastest way that its documentation shows. The time
covers sending and the final flush, but not the creation of producer, connections and data.
"""

from __future__ import annotations

import json
import ssl
import sys
from asyncio import Runner
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Protocol

import attrs
from stopwatch import Measurement, Stopwatch, memory_now, peak_memory
from workload import Workload

WARM_UP: Final = 2_000
"""Records before the measurement: connections are open, metadata is known, code has run once."""

POLL_EVERY: Final = 1_000


CONFLUENT_AT_ITS_BEST: Final = MappingProxyType(
    {"linger.ms": 50, "batch.size": 1_000_000, "batch.num.messages": 100_000}
)
"""Its documentation's advice for throughput: longer waits, and batches as large as possible."""


class Peer(Protocol):
    """A producer under test."""

    def send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Send these records and wait until all are acknowledged."""

    def close(self) -> None:
        """End the producer."""


class Counter:
    """A minimal delivery callback."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *outcome: object) -> None:
        """Count one delivered record."""
        self.count += 1


class OttlaPeer:
    """Peer with `send`, then `flush`."""

    def __init__(
        self, workload: Workload, servers: str, topic: str, counter: Counter | None, encoder: str = "native"
    ) -> None:
        from ottla import Producer

        self._topic = topic
        self._headers = workload.header_list or ()
        self._counter = counter
        self._producer = Producer(
            bootstrap_servers=servers,
            acks=workload.acks,
            enable_idempotence=workload.idempotent,
            linger_ms=workload.linger_ms,
            batch_size=workload.batch_size,
            compression_type=workload.compression,
            max_in_flight_requests_per_connection=workload.max_in_flight,
            record_encoder=encoder,
            security_protocol=workload.security,
            ssl_truststore_location=workload.authorities,
            buffer_memory=workload.buffer_mib << 20 if workload.buffer_mib else None,
        )

    def send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Send and flush; flush raises when a record failed."""
        send, topic, headers, counter = self._producer.send, self._topic, self._headers, self._counter
        for value, key in zip(values, keys, strict=True):
            send(topic, value, key, headers=headers, on_delivery=counter)
        self._producer.flush()

    def close(self) -> None:
        """End the producer."""
        self._producer.close()


class OttlaTablePeer(OttlaPeer):
    """Peer with `send_table` of an existing pyarrow table, then `flush`."""

    def prepare(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> Any:
        """Return the records as a table."""
        import pyarrow as pa

        columns = {"value": pa.array(values, pa.binary())}
        if keys and keys[0] is not None:
            columns["key"] = pa.array(keys, pa.binary())
        return pa.table(columns)

    def send_table(self, table: Any) -> None:
        """Send and flush."""
        self._producer.send_table(self._topic, table)
        self._producer.flush()


class ConfluentPeer:
    """Peer with `produce` and regular `poll(0)`; its queue has a limit only where memory is compared."""

    def __init__(
        self,
        workload: Workload,
        servers: str,
        topic: str,
        counter: Counter | None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._headers = workload.header_list
        self._counter = counter
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": workload.acks,
                "enable.idempotence": workload.idempotent,
                "linger.ms": workload.linger_ms,
                "batch.size": workload.batch_size,
                "compression.type": workload.compression,
                "max.in.flight.requests.per.connection": workload.max_in_flight,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 0,
                "queue.buffering.max.kbytes": (workload.buffer_mib or 0) << 10 or 2**31 - 1,
                **workload.librdkafka_security,
                **settings,
            }
        )

    def send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Send and flush."""
        produce, topic, headers, counter = self._producer.produce, self._topic, self._headers, self._counter
        records = zip(values, keys, strict=True)
        for _ in range(0, len(values), POLL_EVERY):
            for value, key in islice(records, POLL_EVERY):
                try:
                    produce(topic, value, key, headers=headers, on_delivery=counter)
                except BufferError:
                    self._wait_and_produce(value, key)
            self._producer.poll(0)
        self._producer.flush()

    def _wait_and_produce(self, value: bytes, key: bytes | None) -> None:
        while True:
            self._producer.poll(0.01)
            try:
                return self._producer.produce(self._topic, value, key, headers=self._headers, on_delivery=self._counter)
            except BufferError:
                continue

    def close(self) -> None:
        """Do nothing: it has no close."""


class KafkaPythonPeer:
    """Peer with `send`, then `flush`."""

    def __init__(self, workload: Workload, servers: str, topic: str, counter: Counter | None) -> None:
        from kafka import KafkaProducer

        self._topic = topic
        self._headers = workload.header_list
        self._counter = counter
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            acks=_acks(workload),
            enable_idempotence=workload.idempotent,
            linger_ms=workload.linger_ms,
            batch_size=workload.batch_size,
            compression_type=_codec(workload),
            max_in_flight_requests_per_connection=workload.max_in_flight,
            security_protocol=workload.security,
            ssl_cafile=workload.authorities,
        )

    def send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Send and flush."""
        send, topic, headers, counter = self._producer.send, self._topic, self._headers, self._counter
        for value, key in zip(values, keys, strict=True):
            future = send(topic, value, key, headers=headers)
            if counter is not None:
                future.add_callback(counter)
        self._producer.flush()

    def close(self) -> None:
        """End the producer."""
        self._producer.close()


class AiokafkaPeer:
    """Peer with `await send`, which returns once the record is queued, then `flush`.

    It has no setting for requests in flight: one for each partition.
    """

    def __init__(self, workload: Workload, servers: str, topic: str, counter: Counter | None) -> None:
        self._topic = topic
        self._headers = workload.header_list
        self._counter = counter
        self._runner = Runner()
        self._producer = self._runner.run(_started_aiokafka(workload, servers))

    def send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Send and flush."""
        self._runner.run(self._send(values, keys))

    async def _send(self, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        send, topic, headers, counter = self._producer.send, self._topic, self._headers, self._counter
        for value, key in zip(values, keys, strict=True):
            future = await send(topic, value, key, headers=headers)
            if counter is not None:
                future.add_done_callback(counter)
        await self._producer.flush()

    def close(self) -> None:
        """End the producer and its loop."""
        self._runner.run(self._producer.stop())
        self._runner.close()


PEERS: Final[Mapping[str, Callable[[Workload, str, str, Counter | None], Peer]]] = {
    "ottla": OttlaPeer,
    "ottla-python": partial(OttlaPeer, encoder="python"),
    "ottla-table": OttlaTablePeer,
    "ottla-table-python": partial(OttlaTablePeer, encoder="python"),
    "confluent-kafka": ConfluentPeer,
    "confluent-kafka-best": partial(ConfluentPeer, settings=CONFLUENT_AT_ITS_BEST),
    "aiokafka": AiokafkaPeer,
    "kafka-python": KafkaPythonPeer,
}


async def _started_aiokafka(workload: Workload, servers: str) -> Any:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        acks=_acks(workload),
        enable_idempotence=workload.idempotent,
        linger_ms=workload.linger_ms,
        max_batch_size=workload.batch_size,
        compression_type=_codec(workload),
        security_protocol=workload.security,
        ssl_context=_context(workload),
    )
    await producer.start()
    return producer


def _acks(workload: Workload) -> str | int:
    return "all" if workload.acks == "all" else int(workload.acks)


def _context(workload: Workload) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=workload.authorities) if workload.security == "SSL" else None


def _codec(workload: Workload) -> str | None:
    return None if workload.compression == "none" else workload.compression


def run(name: str, servers: str, topic: str, workload: Workload) -> Measurement:
    """Warm up, then time one run."""
    counter = Counter() if workload.callback else None
    values, keys = workload.values(workload.records), workload.keys(workload.records)
    peer = PEERS[name](workload, servers, topic, counter)
    if isinstance(peer, OttlaTablePeer):
        table = peer.prepare(values, keys)
        work = partial(peer.send_table, table)
        peer.send_table(table[:WARM_UP])
    else:
        work = partial(peer.send, values, keys)
        peer.send(values[:WARM_UP], keys[:WARM_UP])
    before = memory_now()
    with Stopwatch() as watch:
        work()
    peer.close()
    peak = peak_memory()
    return Measurement(
        sent=len(values[:WARM_UP]) + len(values),
        called_back=counter.count if counter else None,
        seconds=watch.seconds,
        cpu_seconds=watch.cpu_seconds,
        peak_memory=peak,
        memory_taken=max(0, peak - before),
    )


if __name__ == "__main__":
    name, servers, topic, workload = sys.argv[1:]
    print(json.dumps(attrs.asdict(run(name, servers, topic, Workload(**json.loads(workload))))))
