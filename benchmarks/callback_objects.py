"""A burst with a callback for each record, without a producer: the time of the program itself.

`callback_objects.py --help`. Run it with two Pythons to compare them: only Ottla's core has to be installed, because
the number of objects that exist decides how long a garbage collection takes. The loop is that of `distance_client.py`;
all callbacks are kept until the last record, and then called on another thread, as by a producer far from its broker.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import attrs
import click
from distance_client import COLLECTORS, Work, run

from ottla import Producer

IMPORTED: Final = Producer
"""Its modules have most of the objects that exist before the burst."""

BURST: Final = Work(
    topic="t", partitions=4, records=20_000, size=1_000, way="keys", interval=0.0, bunch=1, idempotent=True
)
WARM_UP_ROUNDS: Final = 3


@attrs.define
class Delivered:
    """The delivery that all callbacks get."""

    error: Exception | None = None


class Keeper:
    """A client that sends nothing, and keeps the callbacks until the flush."""

    def __init__(self) -> None:
        self._kept: list[Callable[[Delivered], object]] = []

    def send(
        self, topic: str, value: bytes, key: bytes | None, partition: int | None, done: Callable[[], object]
    ) -> None:
        """Keep a callback, as `OttlaClient` makes it."""

        def acknowledged(delivery: Delivered) -> None:
            if delivery.error is None:
                done()

        self._kept.append(acknowledged)

    def wait(self, until: float) -> None:
        """Do nothing: a burst does not wait."""

    def flush(self) -> None:
        """Call all callbacks on another thread."""
        thread = threading.Thread(target=self._call)
        thread.start()
        thread.join()

    def _call(self) -> None:
        delivered = Delivered()
        for callback in self._kept:
            callback(delivered)
        self._kept.clear()


def measure(rounds: int) -> Sequence[tuple[float, float]]:
    """Return the wall and the processor time of each round, in milliseconds."""
    took = []
    client = Keeper()
    for _ in range(WARM_UP_ROUNDS + rounds):
        cpu = time.process_time()
        wall = run(client, BURST).all
        took.append((wall, (time.process_time() - cpu) * 1e3))
    return took[WARM_UP_ROUNDS:]


@click.command(context_settings={"show_default": True})
@click.option("--collector", type=click.Choice(list(COLLECTORS)), default="usual", help="Python's garbage collector.")
@click.option("--rounds", default=20, help="Bursts that count.")
def main(collector: str, rounds: int) -> None:
    """Make a burst's callbacks and call them, without a producer."""
    COLLECTORS[collector]()
    walls, cpus = zip(*measure(rounds), strict=True)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    click.echo(
        f"Python {sys.version.split()[0]} {'with' if gil else 'without'} the GIL, collector {collector}: "
        f"wall {median(walls):.1f} ms, processor {median(cpus):.1f} ms"
    )


if __name__ == "__main__":
    main()
