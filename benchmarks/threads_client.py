"""Ottla in a process of its own: `PYTHON threads_client.py SERVERS THREADS PRODUCERS ENCODER RECORDS BATCH_SIZE`.

Its threads send values of 100 bytes, RECORDS in all, with producers that they share evenly. It prints a `Took` as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Final

import attrs

from ottla import Producer

TOPIC: Final = "t"
WARM_UP: Final = 2_000
"""Records of each producer before the clock starts: the topic is known, and code is specialized, then."""


@attrs.frozen(kw_only=True)
class Took:
    """Seconds from the first `send` to the end of the last flush, and processor seconds of the process."""

    wall: float
    cpu: float


def measured(servers: str, threads: int, producers: int, encoder: str, records: int, batch_size: int) -> Took:
    """Send the records."""
    made = [
        Producer(bootstrap_servers=servers, record_encoder=encoder, batch_size=batch_size) for _ in range(producers)
    ]
    value = bytes(100)
    for producer in made:
        for _ in range(WARM_UP):
            producer.send(TOPIC, value)
        producer.flush()
    barrier = threading.Barrier(threads + 1)

    def work(producer: Producer) -> None:
        send = producer.send
        barrier.wait()
        for _ in range(records // threads):
            send(TOPIC, value)
        producer.flush()

    crew = [threading.Thread(target=work, args=(made[number % producers],)) for number in range(threads)]
    for thread in crew:
        thread.start()
    barrier.wait()
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in crew:
        thread.join()
    took = Took(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)
    for producer in made:
        producer.close()
    return took


if __name__ == "__main__":
    servers, threads, producers, encoder, records, batch_size = sys.argv[1:]
    took = measured(servers, int(threads), int(producers), encoder, int(records), int(batch_size))
    print(json.dumps(attrs.asdict(took)))
