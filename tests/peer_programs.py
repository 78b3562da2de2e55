"""Programs of other clients' users, in the shape of those clients' own examples, and the changes that move them here.

A program gets the brokers and a topic of one partition as its arguments. A change is a row of a page in the
documentation, and the same as a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs


@attrs.frozen
class Change:
    """A row of a page's table: `before` is its first cell, and each match of `pattern` is replaced."""

    before: str
    pattern: str
    replacement: str

    def applied(self, text: str) -> str:
        """The text after the change. Raises ValueError if the text has nothing to change."""
        changed, times = re.subn(self.pattern, self.replacement, text, flags=re.MULTILINE)
        if not times:
            raise ValueError(f"{self.before} changes nothing")
        return changed


@attrs.frozen(kw_only=True)
class Program:
    """A program, the changes that it needs, and what it leaves in the topic: keys and values."""

    name: str
    client: str
    text: str
    changes: Sequence[str]
    records: Sequence[tuple[bytes | None, bytes | None]]


CHANGES: Final[Mapping[str, Change]] = {
    # confluent-kafka
    "import": Change(
        "`from confluent_kafka import Producer`",
        r"^from confluent_kafka import (.*, )?Producer(.*)$",
        r"from ottla import Producer\nfrom confluent_kafka import \1Producer as _\2",
    ),
    "aio import": Change(
        "`from confluent_kafka.aio import AIOProducer`",
        r"from confluent_kafka.aio import AIOProducer",
        "from ottla.aio import AsyncProducer",
    ),
    "AIOProducer": Change(
        "`AIOProducer(conf, max_workers=5)`", r"AIOProducer\((.*), max_workers=5\)", r"AsyncProducer(\1)"
    ),
    "begin": Change(
        "`await producer.begin_transaction()`", r"await producer\.begin_transaction", "producer.begin_transaction"
    ),
    "text": Change(
        "`Producer(conf)`, with text as keys and values",
        r"(Producer\(conf)",
        r'\1, key_serializer="string", value_serializer="string"',
    ),
    "text keys": Change(
        "`Producer(conf)`, with text as keys only", r"(Producer\(conf)", r'\1, key_serializer="string"'
    ),
    "produce": Change("`p.produce(topic, value, key)`", r"\.produce\(", ".send("),
    "callback": Change("`p.produce(..., callback=f)`", r"\bcallback=", "on_delivery="),
    "def": Change(
        "`def f(err, msg):`",
        r"^( *)def (\w+)\(err, msg\):",
        r"\1def \2(delivery):\n\1    err, msg = delivery.error, delivery.metadata or delivery",
    ),
    "message": Change(
        "`msg.topic()`, `msg.partition()`, `msg.offset()`", r"\bmsg\.(topic|partition|offset)\(\)", r"msg.\1"
    ),
    "key": Change(
        "`msg.key()`, `msg.value()`, `msg.headers()`",
        r"^( *)def (\w+)\(err, msg\):((?:\n.*)*?)msg\.key\(\)((?:\n|.)*?)on_delivery=\2, key=(\w+)",
        r"\1def \2(key, delivery):\n\1    err, msg = delivery.error, delivery.metadata or delivery"
        r"\3key\4on_delivery=partial(\2, \5), key=\5",
    ),
    "key import": Change(
        "`msg.key()`, `msg.value()`, `msg.headers()`", r"^import sys$", "import sys\nfrom functools import partial"
    ),
    "err": Change("`err.str()`, `err.code()`", r"\berr\.str\(\)", "str(err)"),
    "partitions": Change(
        "`p.list_topics(topic).topics[topic].partitions`",
        r"p\.list_topics\(topic\)\.topics\[topic\]\.partitions",
        "p.partitions_for(topic)",
    ),
    "poll": Change("`p.poll(0)`", r"^ *(?:p|producer)\.poll\(.*\)\n", ""),
    "full": Change("`except BufferError:`", r"except BufferError:", "except BufferExhaustedError:"),
    "full import": Change(
        "`except BufferError:`", r"^import sys$", "import sys\nfrom ottla import BufferExhaustedError"
    ),
    "len": Change("`len(p)`", r"^.*\blen\(p\).*\n", ""),
    # kafka-python
    "kafka import": Change(
        "`from kafka import KafkaProducer`",
        r"^from kafka import KafkaProducer(?:, \w+)?$",
        "from ottla import Producer",
    ),
    "KafkaProducer": Change("`KafkaProducer(...)`", r"\bKafkaProducer\(", "Producer("),
    "alias": Change(
        "`from kafka import KafkaProducer`, in a program with its own `Producer`",
        r"^from kafka import KafkaProducer$",
        "from ottla import Producer as KafkaProducer",
    ),
    "more arguments": Change(
        "`future.add_callback(f, 1)`, `future.add_both(f)`",
        r"\.add_callback\((\w+), (\w+)\)",
        r".add_done_callback(lambda d, first=\2: \1(first, d.metadata) if d.error is None else None)",
    ),
    "succeeded": Change(
        "`future.succeeded()`, `future.failed()`, `future.exception`", r"\.succeeded\(\)", ".metadata is not None"
    ),
    "exception": Change("`future.succeeded()`, `future.failed()`, `future.exception`", r"\.exception\b", ".error"),
    "timestamp": Change("`metadata.timestamp`", r"metadata\.timestamp\b", "metadata.timestamp_ms"),
    "utf-16": Change(
        '`DefaultSerializer("utf-16")`', r"DefaultSerializer\(\"utf-16\"\)", 'lambda text: text.encode("utf-16")'
    ),
    "partitions of kafka": Change(
        "`producer.partitions_for(topic)`",
        r"producer\.partitions_for\((.*?)\)$",
        r"{each.partition for each in producer.partitions_for(\1)}",
    ),
    "metrics": Change(
        '`producer.metrics()["producer-metrics"]["request-rate"]`',
        r"producer\.metrics\(\)\[\"producer-metrics\"\]\[(.*?)\]",
        r"producer.metrics(\1)",
    ),
    "errors": Change(
        "`from kafka.errors import KafkaError`",
        r"^from kafka\.errors import KafkaError$",
        "from ottla import OttlaError",
    ),
    "KafkaError": Change("`except KafkaError:`", r"except KafkaError\b", "except OttlaError"),
    "get": Change("`future.get(timeout=10)`", r"\.get\(", ".result("),
    "callbacks": Change(
        "`future.add_callback(f)`, `future.add_errback(g)`",
        r"\.add_callback\((\w+)\)\.add_errback\((\w+)\)",
        r".add_done_callback(lambda d: \1(d.metadata) if d.error is None else \2(d.error))",
    ),
    "JsonSerializer": Change("`JsonSerializer()`", r"\bJsonSerializer\(\)", '"json"'),
    "partitioner": Change("`KafkaProducer(partitioner=p)`", r"\bpartitioner=", "partitioner_class="),
    "partitioner import": Change("`class Mine(Partitioner):`", r"^from kafka\.partitioner import Partitioner\n", ""),
    "class partitioner": Change("`class Mine(Partitioner):`", r"^class (\w+)\(Partitioner\):", r"class \1:"),
    "def partitioner": Change(
        "`def partition(self, topic, key, serialized_key, value, serialized_value, cluster):`",
        r"\bpartition\(self, topic, key, serialized_key, value, serialized_value, cluster\):",
        "partition(self, topic, key, view):",
    ),
    "cluster": Change(
        "`cluster.partitions_for_topic(topic)`",
        r"cluster\.partitions_for_topic\(topic\)",
        "range(view.partitions)",
    ),
    "available": Change(
        "`cluster.available_partitions_for_topic(topic)`",
        r"cluster\.available_partitions_for_topic\(topic\)",
        "view.available",
    ),
    "serialized_key": Change("`serialized_key`", r"\bserialized_key\b", "key"),
    # aiokafka
    "aiokafka import": Change(
        "`from aiokafka import AIOKafkaProducer`",
        r"^from aiokafka import AIOKafkaProducer$",
        "from ottla.aio import AsyncProducer",
    ),
    "AIOKafkaProducer": Change(
        "`producer = AIOKafkaProducer(...)`, `await producer.start()`",
        r"\bAIOKafkaProducer\(((?:.|\n)*?)^( *)await producer\.start\(\)\n",
        r"AsyncProducer(\1",
    ),
    "transactional start": Change(
        "`await producer.start()`, with a `transactional_id`",
        r"\bAIOKafkaProducer\(((?:.|\n)*?)await producer\.start\(\)\n",
        r"AsyncProducer(\1await producer.init_transactions()\n",
    ),
    "stop": Change("`await producer.stop()`", r"\bproducer\.stop\(\)", "producer.close()"),
    "producer import": Change(
        "`from aiokafka import AIOKafkaProducer`",
        r"^from aiokafka\.producer import AIOKafkaProducer$",
        "from ottla.aio import AsyncProducer",
    ),
    "create_batch": Change("`batch = producer.create_batch()`", r"^ *batch = producer\.create_batch\(\)\n", ""),
    "append": Change(
        "`batch.append(key=k, value=v, timestamp=t)`",
        r"batch\.append\(key=(\w+), value=(\w+), timestamp=(\w+)\)",
        r"await producer.send(topic, \2, \1, partition=partition, timestamp_ms=\3)",
    ),
    "send_batch": Change(
        "`await producer.send_batch(batch, topic, partition=p)`, `batch.close()`",
        r"^ *await producer\.send_batch\(.*\)\n",
        "",
    ),
    "record_count": Change("`batch.record_count()`", r"batch\.record_count\(\)", "number + 1"),
    "partitions of aiokafka": Change(
        "`await producer.partitions_for(topic)`",
        r"await producer\.partitions_for\(topic\)",
        "{each.partition for each in await producer.partitions_for(topic)}",
    ),
    "aiokafka partitioner": Change("`AIOKafkaProducer(partitioner=f)`", r"\bpartitioner=", "partitioner_class="),
    "aiokafka def": Change(
        "`def f(key, all_partitions, available):`",
        r"^def (\w+)\(key, all_partitions, available\):",
        r"def \1(topic, key, view):\n    all_partitions, available = range(view.partitions), view.available",
    ),
}

LINES: Final = """
import sys

from confluent_kafka import Producer

conf = {"bootstrap.servers": sys.argv[1], "client.id": "lines"}
topic = sys.argv[2]
p = Producer(conf)


def delivered(err, msg):
    if err:
        print("failed:", err)
    else:
        print("delivered to %s [%d] @ %d" % (msg.topic(), msg.partition(), msg.offset()))


for line in ["three apples\\n", "one pear\\n"]:
    try:
        p.produce(topic, line.rstrip(), callback=delivered)
    except BufferError:
        print("the queue is full")
        print("messages in it:", len(p))
    p.poll(0)

sys.stderr.write("waiting for %d deliveries" % len(p))
p.flush()
"""

CONTEXT: Final = """
import sys

from confluent_kafka import Producer

conf = {"bootstrap.servers": sys.argv[1], "linger.ms": 20}


def report(err, msg):
    if err is not None:
        print(f"failed: {err}")
        return
    print(f"to {msg.topic()} [{msg.partition()}] at {msg.offset()}")


with Producer(conf) as producer:
    for number in range(3):
        value = f"message {number}"
        producer.produce(sys.argv[2], key=f"key-{number}", value=value.encode("utf-8"), callback=report)
        producer.poll(0)
"""

SERIALIZERS: Final = """
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.serialization import StringSerializer


class User:
    def __init__(self, name, colour):
        self.name = name
        self.colour = colour


def report(err, msg):
    if err is not None:
        print("not delivered:", err)
        return
    print("user in {} [{}] at offset {}".format(msg.topic(), msg.partition(), msg.offset()))


serializer = StringSerializer("utf_8")
producer = Producer({"bootstrap.servers": sys.argv[1]})
for user in [User("ann", "red"), User("bob", "blue")]:
    producer.poll(0.0)
    value = serializer(json.dumps(vars(user)))
    producer.produce(topic=sys.argv[2], key=serializer(user.name), value=value, on_delivery=report)
producer.flush()
"""

REPORTS: Final = """
import sys

from confluent_kafka import Producer

topic = sys.argv[2]
p = Producer({"bootstrap.servers": sys.argv[1]})


def report(err, msg):
    if err is not None:
        print("%s of %s: %s" % (msg.key(), msg.topic(), err.str()))
    else:
        print(msg.topic(), msg.partition())


print(len(p.list_topics(topic).topics[topic].partitions), "partition")
for order in [b"7", b"8"]:
    p.produce(topic, b"paid", on_delivery=report, key=order)
p.flush()
"""

EXACTLY_ONCE: Final = """
import sys
import uuid
from base64 import b64encode

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

brokers, topic = sys.argv[1:3]
source = topic + "-in"

feeder = Producer({"bootstrap.servers": brokers})
for number in range(5):
    feeder.produce(source, b"%d" % number, b"k")
feeder.flush()

consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": topic,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
})
consumer.assign([TopicPartition(source, 0, 0)])
producer = Producer({"bootstrap.servers": brokers, "transactional.id": str(uuid.uuid4())})
producer.init_transactions()
producer.begin_transaction()
while True:
    producer.poll(0)
    found = consumer.poll(timeout=1.0)
    if found is None:
        continue
    if found.error():
        if found.error().code() == KafkaError._PARTITION_EOF:
            break
        continue
    producer.produce(topic, b64encode(found.value()), b64encode(found.key()))
producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
producer.commit_transaction()
[committed] = consumer.committed([TopicPartition(source, 0)])
print("committed", committed.offset)
consumer.close()
"""

AIO: Final = """
import asyncio
import sys
import uuid

from confluent_kafka.aio import AIOProducer


async def main():
    conf = {"bootstrap.servers": sys.argv[1], "transactional.id": str(uuid.uuid4())}
    producer = AIOProducer(conf, max_workers=5)
    await producer.init_transactions()
    try:
        await producer.begin_transaction()
        futures = [
            await producer.produce(topic=sys.argv[2], key=f"key{number}", value=f"value{number}") for number in range(3)
        ]
        await producer.flush()
        for msg in await asyncio.gather(*futures):
            print("to {} [{}] @ {}".format(msg.topic(), msg.partition(), msg.offset()))
        await producer.commit_transaction()
    finally:
        await producer.close()


asyncio.run(main())
"""

THREAD: Final = """
import sys
import threading

from kafka import KafkaProducer


class Sender(threading.Thread):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def run(self):
        producer = KafkaProducer(bootstrap_servers=sys.argv[1])
        for _ in range(self.count):
            producer.send(sys.argv[2], b"test")
            producer.send(sys.argv[2], b"\\xc2Hola")
        producer.close()


sender = Sender(2)
sender.start()
sender.join()
"""

OWN_PRODUCER: Final = """
import sys
import threading

from kafka import KafkaProducer


class Producer(threading.Thread):
    def run(self):
        producer = KafkaProducer(bootstrap_servers=sys.argv[1])
        producer.send(sys.argv[2], b"test")
        producer.close()


task = Producer()
task.start()
task.join()
"""

OUTCOMES: Final = """
import sys
import time

from kafka import KafkaProducer, DefaultSerializer


def noted(number, metadata):
    print(number, metadata.offset, abs(time.time() - metadata.timestamp / 1000) < 60)


producer = KafkaProducer(bootstrap_servers=sys.argv[1], value_serializer=DefaultSerializer("utf-16"))
partitions = producer.partitions_for(sys.argv[2])
print(partitions)
futures = []
for number in range(3):
    future = producer.send(sys.argv[2], "value %d" % number, partition=max(partitions))
    future.add_callback(noted, number)
    futures.append(future)
producer.flush()
print([future.succeeded() for future in futures], futures[0].exception)
print(producer.metrics()["producer-metrics"]["request-rate"] > 0)
producer.close()
"""

OWN_PARTITIONER: Final = """
import sys

from kafka import KafkaProducer
from kafka.partitioner import Partitioner


class Last(Partitioner):
    def partition(self, topic, key, serialized_key, value, serialized_value, cluster):
        print(serialized_key, list(cluster.available_partitions_for_topic(topic)))
        return max(cluster.partitions_for_topic(topic))


producer = KafkaProducer(bootstrap_servers=sys.argv[1], partitioner=Last())
print(producer.send(sys.argv[2], b"v", key=b"k").get(timeout=20).partition)
producer.close()
"""

FUTURES: Final = """
import sys

from kafka import KafkaProducer
from kafka.errors import KafkaError

producer = KafkaProducer(bootstrap_servers=[sys.argv[1]], retries=5)
future = producer.send(sys.argv[2], key=b"foo", value=b"bar", headers=[("content-encoding", b"base64")])
try:
    metadata = future.get(timeout=10)
except KafkaError as error:
    print("failed", error)
else:
    print(metadata.topic, metadata.partition, metadata.offset)
producer.flush()
producer.close(timeout=10)
"""

CALLBACKS: Final = """
import sys

from kafka import KafkaProducer


def succeeded(metadata):
    print(metadata.topic, metadata.partition, metadata.offset)


def failed(error):
    print("failed", error)


producer = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=10, compression_type="gzip")
for number in range(3):
    producer.send(sys.argv[2], b"msg %d" % number).add_callback(succeeded).add_errback(failed)
producer.flush()
producer.close()
"""

JSON: Final = """
import sys

from kafka import KafkaProducer, JsonSerializer

producer = KafkaProducer(bootstrap_servers=sys.argv[1], value_serializer=JsonSerializer(), key_serializer=str.encode)
producer.send(sys.argv[2], {"foo": "bar"}, key="ping")
producer.send(sys.argv[2], [1, 2], key="pong")
producer.flush()
producer.close()
"""

TRANSACTIONS: Final = """
import sys
import uuid

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=sys.argv[1], transactional_id=str(uuid.uuid4()))
producer.init_transactions()
producer.begin_transaction()
future = producer.send(sys.argv[2], value=b"yes")
print(future.get().offset)
producer.commit_transaction()

producer.begin_transaction()
future = producer.send(sys.argv[2], value=b"no")
future.get()
producer.abort_transaction()
producer.close()
"""

ONE: Final = """
import asyncio
import sys

from aiokafka import AIOKafkaProducer


async def send_some():
    producer = AIOKafkaProducer(
        bootstrap_servers=sys.argv[1], enable_idempotence=True)
    await producer.start()
    try:
        for _ in range(2):
            result = await producer.send_and_wait(sys.argv[2], b"Super message")
            print(result.topic, result.partition, result.offset)
    finally:
        await producer.stop()


asyncio.run(send_some())
"""

GATHERED: Final = """
import asyncio
import sys

from aiokafka import AIOKafkaProducer


async def send_many(count):
    producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=20, acks="all")
    await producer.start()
    futures = [await producer.send(sys.argv[2], b"%d" % number, key=b"k") for number in range(count)]
    for future in futures:
        print((await future).offset)
    await producer.flush()
    await producer.stop()


asyncio.run(send_many(4))
"""

PARTITIONER: Final = """
import asyncio
import sys

from aiokafka import AIOKafkaProducer


def first_or_last(key, all_partitions, available):
    if key == b"first":
        return all_partitions[0]
    return all_partitions[-1]


async def send_one(producer, key, value):
    future = await producer.send(sys.argv[2], value, key=key)
    result = await future
    print("%r in partition %d" % (value.decode(), result.partition))


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], partitioner=first_or_last)
    await producer.start()
    await send_one(producer, b"last", b"1")
    await send_one(producer, b"first", b"2")
    await producer.stop()


asyncio.run(main())
"""

BATCHES: Final = """
import asyncio
import random
import sys

from aiokafka.producer import AIOKafkaProducer


async def send_many(count):
    topic = sys.argv[2]
    producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1])
    await producer.start()
    partitions = await producer.partitions_for(topic)
    partition = random.choice(tuple(partitions))
    batch = producer.create_batch()
    for number in range(count):
        value = b"message %d" % number
        assert batch.append(key=None, value=value, timestamp=None) is not None
    await producer.send_batch(batch, topic, partition=partition)
    print("%d messages sent to partition %d" % (batch.record_count(), partition))
    await producer.stop()


asyncio.run(send_many(3))
"""

COMPRESSED: Final = """
import asyncio
import json
import sys

from aiokafka import AIOKafkaProducer


def serializer(value):
    return json.dumps(value).encode()


async def main():
    producer = AIOKafkaProducer(
        bootstrap_servers=sys.argv[1],
        value_serializer=serializer,
        compression_type="gzip")
    await producer.start()
    await producer.send(sys.argv[2], {"a": 123.4, "b": "some text"})
    await producer.send(sys.argv[2], [1, 2, 3, 4])
    await producer.stop()


asyncio.run(main())
"""

ASYNC_TRANSACTION: Final = """
import asyncio
import sys
import uuid

from aiokafka import AIOKafkaProducer


async def main():
    producer = AIOKafkaProducer(
        bootstrap_servers=sys.argv[1], transactional_id=str(uuid.uuid4()))
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(sys.argv[2], b"committed")
        try:
            async with producer.transaction():
                await producer.send_and_wait(sys.argv[2], b"aborted")
                raise ValueError("no")
        except ValueError as error:
            print("aborted:", error)
    finally:
        await producer.stop()


asyncio.run(main())
"""

PROGRAMS: Final = (
    Program(
        name="lines",
        client="confluent_kafka",
        text=LINES,
        changes=["import", "text", "produce", "callback", "def", "message", "poll", "full", "full import", "len"],
        records=[(None, b"three apples"), (None, b"one pear")],
    ),
    Program(
        name="context",
        client="confluent_kafka",
        text=CONTEXT,
        changes=["import", "text keys", "produce", "callback", "def", "message", "poll"],
        records=[(b"key-%d" % number, b"message %d" % number) for number in range(3)],
    ),
    Program(
        name="serializers",
        client="confluent_kafka",
        text=SERIALIZERS,
        changes=["import", "produce", "def", "message", "poll"],
        records=[(b"ann", b'{"name": "ann", "colour": "red"}'), (b"bob", b'{"name": "bob", "colour": "blue"}')],
    ),
    Program(
        name="reports",
        client="confluent_kafka",
        text=REPORTS,
        changes=["import", "produce", "key", "key import", "err", "message", "partitions"],
        records=[(b"7", b"paid"), (b"8", b"paid")],
    ),
    Program(
        name="exactly-once",
        client="confluent_kafka",
        text=EXACTLY_ONCE,
        changes=["import", "produce", "poll"],
        records=[(b"aw==", value) for value in (b"MA==", b"MQ==", b"Mg==", b"Mw==", b"NA==")],
    ),
    Program(
        name="aio",
        client="confluent_kafka",
        text=AIO,
        changes=["aio import", "AIOProducer", "begin", "text", "produce", "message"],
        records=[(b"key%d" % number, b"value%d" % number) for number in range(3)],
    ),
    Program(
        name="thread",
        client="kafka",
        text=THREAD,
        changes=["kafka import", "KafkaProducer"],
        records=[(None, b"test"), (None, b"\xc2Hola")] * 2,
    ),
    Program(
        name="own-producer",
        client="kafka",
        text=OWN_PRODUCER,
        changes=["alias"],
        records=[(None, b"test")],
    ),
    Program(
        name="outcomes",
        client="kafka",
        text=OUTCOMES,
        changes=[
            "kafka import",
            "KafkaProducer",
            "utf-16",
            "partitions of kafka",
            "more arguments",
            "timestamp",
            "succeeded",
            "exception",
            "metrics",
        ],
        records=[(None, f"value {number}".encode("utf-16")) for number in range(3)],
    ),
    Program(
        name="partitioner",
        client="kafka",
        text=OWN_PARTITIONER,
        changes=[
            "kafka import",
            "KafkaProducer",
            "partitioner",
            "partitioner import",
            "class partitioner",
            "def partitioner",
            "cluster",
            "available",
            "serialized_key",
            "get",
        ],
        records=[(b"k", b"v")],
    ),
    Program(
        name="futures",
        client="kafka",
        text=FUTURES,
        changes=["kafka import", "KafkaProducer", "errors", "KafkaError", "get"],
        records=[(b"foo", b"bar")],
    ),
    Program(
        name="callbacks",
        client="kafka",
        text=CALLBACKS,
        changes=["kafka import", "KafkaProducer", "callbacks"],
        records=[(None, b"msg %d" % number) for number in range(3)],
    ),
    Program(
        name="json",
        client="kafka",
        text=JSON,
        changes=["kafka import", "KafkaProducer", "JsonSerializer"],
        records=[(b"ping", b'{"foo":"bar"}'), (b"pong", b"[1,2]")],
    ),
    Program(
        name="transactions",
        client="kafka",
        text=TRANSACTIONS,
        changes=["kafka import", "KafkaProducer", "get"],
        records=[(None, b"yes")],
    ),
    Program(
        name="one",
        client="aiokafka",
        text=ONE,
        changes=["aiokafka import", "AIOKafkaProducer", "stop"],
        records=[(None, b"Super message")] * 2,
    ),
    Program(
        name="gathered",
        client="aiokafka",
        text=GATHERED,
        changes=["aiokafka import", "AIOKafkaProducer", "stop"],
        records=[(b"k", b"%d" % number) for number in range(4)],
    ),
    Program(
        name="partitioner",
        client="aiokafka",
        text=PARTITIONER,
        changes=["aiokafka import", "AIOKafkaProducer", "stop", "aiokafka partitioner", "aiokafka def"],
        records=[(b"last", b"1"), (b"first", b"2")],
    ),
    Program(
        name="batches",
        client="aiokafka",
        text=BATCHES,
        changes=[
            "producer import",
            "AIOKafkaProducer",
            "stop",
            "create_batch",
            "append",
            "send_batch",
            "record_count",
            "partitions of aiokafka",
        ],
        records=[(None, b"message %d" % number) for number in range(3)],
    ),
    Program(
        name="compressed",
        client="aiokafka",
        text=COMPRESSED,
        changes=["aiokafka import", "AIOKafkaProducer", "stop"],
        records=[(None, b'{"a": 123.4, "b": "some text"}'), (None, b"[1, 2, 3, 4]")],
    ),
    Program(
        name="transaction",
        client="aiokafka",
        text=ASYNC_TRANSACTION,
        changes=["aiokafka import", "transactional start", "stop"],
        records=[(None, b"committed")],
    ),
)
