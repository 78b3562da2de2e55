"""Cluster clients that outlive a batch: Spark's planner and commit worker stay, and reuse them for the next batch.

The settings of a job are not used again once it is done, so the cache keeps only a few clients.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.settings import Settings

MAX_CLIENTS: Final = 4
"""Each client has its own connections; the cache closes those unused for longest."""


@contextmanager
def connected(settings: Settings) -> Iterator[KafkaClusterClient]:
    """Yield this process's client for these settings, for the caller alone; it is closed after an error."""
    cache = _caches.setdefault(os.getpid(), ClientCache())
    client = cache.take(settings)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    cache.put_back(settings, client)


class ClientCache:
    """The idle cluster clients of one process. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Settings, KafkaClusterClient]] = []  # most recently used last

    def take(self, settings: Settings) -> KafkaClusterClient:
        """Return a client with these settings, a new one if none is idle."""
        with self._lock:
            found = next((each for each in reversed(self._waiting) if each[0] == settings), None)
            if found is not None:
                self._waiting.remove(found)
        return found[1] if found is not None else KafkaClusterClient(settings)

    def put_back(self, settings: Settings, client: KafkaClusterClient) -> None:
        """Keep a client; if too many are idle then, close the oldest ones."""
        with self._lock:
            self._waiting.append((settings, client))
            surplus = self._waiting[:-MAX_CLIENTS]
            del self._waiting[:-MAX_CLIENTS]
        for _, each in surplus:
            each.close()


_caches: dict[int, ClientCache] = {}
