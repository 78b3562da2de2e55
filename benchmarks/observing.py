"""What a metrics reporter costs a producer: processor time with and without it, in alternating runs of one process.

`python benchmarks/observing.py` sends records to a real broker with two producers in turn. One of them has the reporter
with its histograms, and logs slow records (`slow.record.threshold.ms`). The broker and scrapes are not counted.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

import click

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "records"
KEYS: Final = [b"key-%d" % number for number in range(1_024)]
VALUE: Final = b"x" * 100


def processor_seconds(producer: Producer, records: int, *, keyed: bool) -> float:
    """Send records and wait for them; returns the processor seconds of all threads."""
    begin = time.process_time()
    if keyed:
        for number in range(records):
            producer.send(TOPIC, VALUE, key=KEYS[number & 1_023])
    else:
        for _ in range(records):
            producer.send(TOPIC, VALUE)
    producer.flush()
    return time.process_time() - begin


def ratios(off: Producer, on: Producer, records: int, rounds: int, *, keyed: bool) -> list[float]:
    """The cost with the reporter divided by that without, of each round; the order changes from round to round."""
    found = []
    for number in range(rounds + 1):
        order = (off, on) if number % 2 else (on, off)
        taken = {producer: processor_seconds(producer, records, keyed=keyed) for producer in order}
        found.append(taken[on] / taken[off])
    return found[1:]  # the first round warms up


@click.command(help=__doc__)
@click.option("--reporter", default="prometheus", show_default=True)
@click.option("--encoder", default="native", show_default=True)
@click.option("--records", default=200_000, show_default=True)
@click.option("--rounds", default=21, show_default=True)
def main(reporter: str, encoder: str, records: int, rounds: int) -> None:
    """Print the median of the ratios, and the middle half of them."""
    with KafkaCluster(sustained=True) as kafka:
        kafka.create_topic(TOPIC, partitions=4)
        plain: dict[str, Any] = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "record.encoder": encoder,
            "linger.ms": 5,
        }
        observed = {**plain, "metric.reporters": reporter, "slow.record.threshold.ms": 60_000}
        with Producer(plain) as off, Producer(observed) as on:
            for keyed in (False, True):
                found = ratios(off, on, records, rounds, keyed=keyed)
                first, median, third = statistics.quantiles(found, n=4)
                click.echo(f"{'keys' if keyed else 'no key'}: {median:.3f} (middle half {first:.3f} to {third:.3f})")


if __name__ == "__main__":
    main()
