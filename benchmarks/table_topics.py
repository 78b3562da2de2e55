"""`send_table` with a column of topics, compared with one topic, and with one call for each topic.

`python benchmarks/table_topics.py` starts a broker. The processor time is that of this process: wall time also has the
broker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.compute as pc

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster

Send = Callable[[Producer, Any], None]


def one_topic(producer: Producer, rows: Any) -> None:
    """All rows to one topic: the least work."""
    producer.send_table("topic-0", rows).result(120)


def a_column(producer: Producer, rows: Any) -> None:
    """Each row to the topic of its cell."""
    producer.send_table(None, rows, topic_column="topic").result(120)


def a_call_for_each(producer: Producer, rows: Any) -> None:
    """The rows of each topic, filtered by pyarrow."""
    sent = [
        producer.send_table(topic, rows.filter(pc.equal(rows["topic"], topic)))
        for topic in rows["topic"].unique().to_pylist()
    ]
    for delivery in sent:
        delivery.result(120)


WAYS: Final[Mapping[str, Send]] = {
    "one topic": one_topic,
    "topic_column": a_column,
    "a call for each topic": a_call_for_each,
}


def table(rows: int, topics: int) -> Any:
    """Return rows with values of 100 bytes whose topics take turns."""
    names = [f"topic-{number % topics}" for number in range(topics * 100)]
    return pa.table(
        {
            "topic": pa.chunked_array([pa.array((names * (rows // len(names) + 1))[:rows])]),
            "value": pa.array([b"%0100d" % number for number in range(1_000)] * (rows // 1_000)),
        }
    )


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=500_000, help="Rows of each call.")
@click.option("--rounds", default=5)
def main(rows: int, rounds: int) -> None:
    """Print the microseconds per row of each way: processor time and wall time, medians."""
    with KafkaCluster() as kafka:
        for number in range(100):
            kafka.create_topic(f"topic-{number}", partitions=1)
        for topics in (1, 4, 20, 100):
            _compare(kafka.bootstrap_servers, table(rows, topics), topics, rounds)


def _compare(servers: str, given: Any, topics: int, rounds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with Producer(bootstrap_servers=servers) as producer:
        for each in range(rounds + 1):
            for name, send in WAYS.items():
                processor, wall = time.process_time(), time.perf_counter()
                send(producer, given)
                if each:  # the first round is for the caches
                    used = time.process_time() - processor, time.perf_counter() - wall
                    found[name].append(used)
    for name, times in found.items():
        used, took = (1e6 * median(column) / given.num_rows for column in zip(*times, strict=True))
        click.echo(f"{topics:>4} topics  {name:<22} {used:6.3f} us processor  {took:6.3f} us wall")


if __name__ == "__main__":
    main()
