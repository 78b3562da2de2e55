"""Records and tables as Avro, compared with confluent-kafka's AvroSerializer and with a loop over fastavro.

`python benchmarks/schemas.py` sends the same flights, as dicts and as a table, to a real broker, in interleaved rounds
of one process. A run ends when the broker has acknowledged all records. The registry is a small server that knows one
schema, because it is asked once in a run.
"""

from __future__ import annotations

import io
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import click
import confluent_kafka
import fastavro
import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "flights"
OURS: Final = "ottla"
ID: Final = 1

SCHEMA: Final = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "number", "type": "int"},
        {"name": "carrier", "type": "string"},
        {"name": "origin", "type": "string"},
        {"name": "delay", "type": ["null", "double"], "default": None},
        {"name": "seats", "type": "long"},
        {"name": "late", "type": "boolean"},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "scheduled", "type": "long"},
    ],
}


def flights(count: int) -> Sequence[Mapping[str, Any]]:
    """Return flights as a program has them."""
    return [
        {
            "number": number % 9_000,
            "carrier": ("UA", "LX", "B6")[number % 3],
            "origin": ("EWR", "JFK", "LGA", "ZRH")[number % 4],
            "delay": None if number % 10 == 0 else number % 60 / 4,
            "seats": 50 + number % 300,
            "late": number % 7 == 0,
            "stops": ["BOS", "ORD"][: number % 3],
            "scheduled": 1_750_000_000_000 + number,
        }
        for number in range(count)
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return flights as a table with the types of the schema."""
    types = {"number": pa.int32(), "carrier": pa.string(), "origin": pa.string(), "delay": pa.float64()}
    types |= {"seats": pa.int64(), "late": pa.bool_(), "stops": pa.list_(pa.string()), "scheduled": pa.int64()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))


@contextmanager
def registry() -> Iterator[str]:
    """Run a server that has one schema under every subject, and yield its address."""
    answer = json.dumps({"subject": f"{TOPIC}-value", "version": 1, "id": ID, "schema": json.dumps(SCHEMA)}).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ways(
    servers: str, address: str, rows: Sequence[Mapping[str, Any]]
) -> Mapping[str, Mapping[str, Callable[[], None]]]:
    """Return what is compared: for records and for tables, each way by its name."""
    ours: dict[str, Any] = {
        "bootstrap.servers": servers,
        "value.serializer": "avro",
        "value.schema": SCHEMA,
        "schema.registry.url": address,
        "linger.ms": 5,
    }
    columns = table(rows)

    def ottla_records(encoder: str) -> None:
        with Producer({**ours, "record.encoder": encoder}) as producer:
            for row in rows:
                producer.send(TOPIC, row)
            producer.flush()

    def confluent_records() -> None:
        with SchemaRegistryClient({"url": address}) as client:
            serialize = AvroSerializer(client, json.dumps(SCHEMA), conf={"subject.name.strategy.type": "TOPIC"})
            context = SerializationContext(TOPIC, MessageField.VALUE)
            _produce(servers, (serialize(row, context) for row in rows))

    def ottla_table(encoder: str) -> None:
        with Producer({**ours, "record.encoder": encoder}) as producer:
            producer.send_table(TOPIC, columns, value="*", value_format="avro").result()

    def fastavro_loop() -> None:
        _produce(servers, _encoded(columns.to_pylist()))

    return {
        "records": {
            OURS: lambda: ottla_records("native"),
            "ottla, Python": lambda: ottla_records("python"),
            "confluent-kafka": confluent_records,
        },
        "table": {
            OURS: lambda: ottla_table("native"),
            "ottla, Python": lambda: ottla_table("python"),
            "fastavro and confluent-kafka": fastavro_loop,
        },
    }


def _encoded(rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    schema, prefix = fastavro.parse_schema(SCHEMA), b"\0" + ID.to_bytes(4, "big")
    for row in rows:
        out = io.BytesIO()
        out.write(prefix)
        fastavro.schemaless_writer(out, schema, row)
        yield out.getvalue()


def _produce(servers: str, values: Iterator[bytes]) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10**6,
        }
    )
    for value in values:
        while True:
            try:
                producer.produce(TOPIC, value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


@click.command(help=__doc__)
@click.option("--records", default=100_000, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Rounds that count; one more goes before them.")
@click.option("--partitions", default=4, show_default=True)
def main(records: int, rounds: int, partitions: int) -> None:
    """Print the medians, and how many times as fast as each way ours is."""
    rows = flights(records)
    with KafkaCluster(sustained=True) as kafka, registry() as address:
        kafka.create_topic(TOPIC, partitions=partitions)
        for what, compared in ways(kafka.bootstrap_servers, address, rows).items():
            taken = _measured(compared, rounds)
            for name, (wall, processor) in taken.items():
                ratio = statistics.median(other / own for other, own in zip(wall, taken[OURS][0], strict=True))
                click.echo(
                    f"{what}, {name}: {records / statistics.median(wall):,.0f} records/s, "
                    f"{statistics.median(processor) / records * 1e6:.2f} us of processor time each, "
                    f"{ratio:.2f} times the time of {OURS}"
                )


def _measured(
    compared: Mapping[str, Callable[[], None]], rounds: int
) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
    """The wall and processor seconds of each way, round by round; the order rotates, and the first round warms up."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in compared}
    names = list(compared)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            wall, processor = time.perf_counter(), time.process_time()
            compared[name]()
            if number:
                taken[name][0].append(time.perf_counter() - wall)
                taken[name][1].append(time.process_time() - processor)
    return taken


if __name__ == "__main__":
    main()
