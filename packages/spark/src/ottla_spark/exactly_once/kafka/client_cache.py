"""Brokers that outlive a batch: Spark keeps its planner and its commit worker, which ask the same ones again.

A job has settings of its own, which nobody asks for again when it is done; so only a few are kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.settings import Settings

MOST: Final = 4
"""Each has connections of its own; those unused for longest are closed."""


@contextmanager
def connected(settings: Settings) -> Iterator[KafkaClusterClient]:
    """This process's own for these settings, the caller's alone until the end of the `with`; closed after an error."""
    kept = _of_process.setdefault(os.getpid(), ClientCache())
    brokers = kept.take(settings)
    try:
        yield brokers
    except BaseException:
        brokers.close()
        raise
    kept.put_back(settings, brokers)


class ClientCache:
    """The brokers of one process that nobody asks at the moment. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Settings, KafkaClusterClient]] = []  # put back last is last

    def take(self, settings: Settings) -> KafkaClusterClient:
        """Those with these settings, new ones if none wait."""
        with self._lock:
            found = next((each for each in reversed(self._waiting) if each[0] == settings), None)
            if found is not None:
                self._waiting.remove(found)
        return found[1] if found is not None else KafkaClusterClient(settings)

    def put_back(self, settings: Settings, brokers: KafkaClusterClient) -> None:
        """Keep them, unless too many wait already."""
        with self._lock:
            self._waiting.append((settings, brokers))
            surplus = self._waiting[:-MOST]
            del self._waiting[:-MOST]
        for _, each in surplus:
            each.close()


_of_process: dict[int, ClientCache] = {}
