"""What programs in Python write that have no sink: confluent-kafka in `foreachPartition`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Row
from spark_frames import Direction

CONFLUENT: Final = Direction(name="confluent-kafka in foreachPartition", format="foreachPartition")
"""Not a format."""

FLUSH_SECONDS: Final = 600.0
POLL_EVERY: Final = 1_000  # records


def by_confluent(options: Mapping[str, str]) -> Callable[[Iterable[Row]], None]:
    """Return the function for `foreachPartition`: a producer for each task, and an error if a record failed.

    Waits and batches are those that confluent-kafka's documentation recommends for a high rate.
    """
    settings: dict[str, Any] = {
        name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")
    }
    topic = options["topic"]

    def produce(rows: Iterable[Row]) -> None:
        from confluent_kafka import Producer

        failed: list[object] = []

        def note(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({"linger.ms": 50, "batch.size": 1_000_000, "log_level": 0, **settings})
        for number, row in enumerate(rows):
            while True:
                try:
                    producer.produce(topic, row.value, row.key, on_delivery=note)
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.1)
            if number % POLL_EVERY == 0:
                producer.poll(0)
        if producer.flush(FLUSH_SECONDS) or failed:
            raise RuntimeError(f"{len(failed)} records failed: {failed[:1]}")

    return produce
