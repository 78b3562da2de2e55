"""A program that reads, transforms and writes in transactions, killed again and again: it ends exactly-once."""

from __future__ import annotations

import pytest
from long_forms import LONG

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from transactions_kit import WAIT, chance, finished, group_offsets, new_id, numbered, program, read, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 20 if LONG else 4
PARTITIONS = 3
AT_ONCE = 20
STEPS = ("begun", "sent", "flushed", "offsets", "committed")

# It has no place in the group: its successor need not wait until the group has noticed that it is dead.
TRANSFORM = """
    import sys
    from confluent_kafka import Consumer, KafkaException, TopicPartition
    from ottla import Producer
    servers, source, target, name, at_once, *ends = sys.argv[1:]
    partitions = range(3)
    producer = Producer(bootstrap_servers=servers, transactional_id=name, max_block_ms=60_000)
    producer.init_transactions()  # first: it ends what a dead one left open, offsets too
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "isolation.level": "read_committed",
                         "enable.auto.commit": False, "fetch.wait.max.ms": 10})
    places = None
    while places is None:
        try:
            places = consumer.committed([TopicPartition(source, each) for each in partitions], timeout=60)
        except KafkaException:  # a new broker has yet to make the topic of offsets
            pass
    position = {each.partition: max(0, each.offset) for each in places}
    consumer.assign([TopicPartition(source, each, position[each]) for each in partitions])
    while any(position[each] < int(ends[each]) for each in partitions):
        batch = consumer.consume(int(at_once), timeout=1)
        if not batch:
            continue
        producer.begin_transaction()
        print("begun")
        for message in batch:
            producer.send(target, b"made of " + message.value(), partition=message.partition())
            position[message.partition()] = message.offset() + 1
        print("sent")
        if position[0] % 2:
            producer.flush()
            print("flushed")
        producer.send_offsets_to_transaction({(source, each): position[each] for each in partitions}, name)
        print("offsets")
        producer.commit_transaction()
        print("committed")
    consumer.close()
    producer.close()
"""


@pytest.mark.parametrize("level", [2, pytest.param(0, marks=pytest.mark.thorough("the gate has version 2"))])
def test_consume_transform_produce_is_exactly_once_despite_kills(kafka: KafkaCluster, level: int) -> None:
    random, name = chance(f"kills at {level}"), new_id()
    most_steps = 40
    records = KILLS * most_steps * AT_ONCE // 4 + 200
    source, target = f"{name}.source", f"{name}.target"
    set_feature(kafka.address(1), TRANSACTION_VERSION, level)
    try:
        for topic in (source, target):
            kafka.create_topic(topic, partitions=PARTITIONS)
        fill(kafka, source, records)
        ends = [
            2 + len(range(each, records, PARTITIONS)) for each in range(PARTITIONS)
        ]  # after the aborted and its marker
        arguments = (kafka.bootstrap_servers, source, target, name, str(AT_ONCE), *map(str, ends))

        killed_at = []
        for _ in range(KILLS):
            with program(TRANSFORM, *arguments) as child:
                assert child.stdout is not None
                for _ in range(random.randint(2, most_steps)):
                    step = child.stdout.readline().strip()
                    assert step in STEPS, child.stderr and child.stderr.read()
                child.kill()
                killed_at.append(step)
        print("killed after", killed_at)
        with program(TRANSFORM, *arguments) as child:
            finished(child)
    finally:
        set_feature(kafka.address(1), TRANSACTION_VERSION, 2)

    expected = [numbered(range(each, records, PARTITIONS), prefix=b"made of ") for each in range(PARTITIONS)]
    assert read(kafka.bootstrap_servers, target, partitions=PARTITIONS) == expected
    assert group_offsets(kafka.bootstrap_servers, name, source, partitions=PARTITIONS) == ends


def fill(kafka: KafkaCluster, source: str, records: int) -> None:
    """An aborted record in each partition, which no reader may see, and numbered ones behind it."""
    with transactional(kafka) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(source, b"never", partition=partition)
        producer.flush(WAIT)
        producer.abort_transaction()
        with producer.transaction():
            for number in range(records):
                producer.send(source, b"%d" % number, partition=number % PARTITIONS)
