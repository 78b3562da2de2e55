"""Producers that outlive a task: Spark keeps a Python worker, and its next task with equal settings reuses them.

They are created only in the process that sends, never before a fork. A thread closes producers that stay unused for a
while; it runs only while the cache holds one. The core closes those still open when a worker ends; nothing is lost
then, because each task waits for its own records.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import attrs

from ottla import OttlaError, Producer
from ottla_spark.options.shipped_files import with_shipped_files

_log = logging.getLogger(__name__)

MAX_PRODUCERS: Final = 4
"""Maximum number of producers in a worker that serves many jobs; the one unused for longest is closed."""

Key: TypeAlias = frozenset[tuple[str, Any]]


class BorrowedProducer:
    """This process's producer with these settings, for one `with` block; created at first use.

    It is returned afterwards, to be kept for *idle* seconds. After an exception it is closed, and queued records are
    dropped: a retry would send them twice.
    """

    def __init__(self, settings: Mapping[str, Any], *, idle: float) -> None:
        self._settings = settings
        self._idle = idle
        self._producer: Producer | None = None

    def producer(self) -> Producer:
        """Return the producer, and create it at first use; errors of its creation are raised."""
        if self._producer is None:
            self._producer = _cache_of_process().take(self._settings)
        return self._producer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._producer is None:
            return
        if error is None:
            _cache_of_process().put_back(self._producer, self._settings, idle=self._idle)
        else:
            _close_now(self._producer)


@attrs.frozen(kw_only=True, eq=False)
class _Waiting:
    producer: Producer
    until: float


class ProducerCache:
    """The idle producers of one process. Its methods may be called from any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: dict[Key, _Waiting] = {}  # most recently used last
        self._thread: threading.Thread | None = None

    def take(self, settings: Mapping[str, Any]) -> Producer:
        """Return a producer with these settings, a new one if none is idle; it is the caller's until `put_back`."""
        with self._changed:
            found = self._waiting.pop(_key(settings), None)
        return found.producer if found is not None else Producer(with_shipped_files(settings))

    def put_back(self, producer: Producer, settings: Mapping[str, Any], *, idle: float) -> None:
        """Keep a producer for *idle* seconds, unless it is taken before.

        If too many are idle, this closes the oldest ones, and blocks until they are closed; it closes all if no thread
        can be started that would do so later.
        """
        key = _key(settings)
        with self._changed:
            surplus = [self._waiting.pop(key)] if key in self._waiting else []
            self._waiting[key] = _Waiting(producer=producer, until=self._clock() + idle)
            surplus += [self._waiting.pop(each) for each in list(self._waiting)[:-MAX_PRODUCERS]]
            if self._thread is None:
                thread = threading.Thread(
                    target=Context().run, args=(self._watch,), name="ottla-spark-idle-producers", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads: no reason to fail the task, whose rows are sent
                    surplus += self._waiting.values()
                    self._waiting.clear()
                else:
                    self._thread = thread
            self._changed.notify()
        _close_all(surplus)

    def close_idle(self) -> None:
        """Close producers whose idle time is over."""
        with self._changed:
            now = self._clock()
            idle = [self._waiting.pop(key) for key, each in list(self._waiting.items()) if each.until <= now]
        _close_all(idle)

    def empty(self) -> None:
        """Close all idle producers."""
        with self._changed:
            found = list(self._waiting.values())
            self._waiting.clear()
            self._changed.notify()
        _close_all(found)

    def _watch(self) -> None:
        while self._await_idle():
            self.close_idle()

    def _await_idle(self) -> bool:
        """Wait until the idle time of a producer is over. If there is none left, return False: the thread ends."""
        with self._changed:
            while self._waiting:
                seconds = min(each.until for each in self._waiting.values()) - self._clock()
                if seconds <= 0:
                    return True
                self._changed.wait(seconds)
            self._thread = None
            return False


_caches: dict[int, ProducerCache] = {}


def _cache_of_process() -> ProducerCache:
    return _caches.setdefault(os.getpid(), ProducerCache())


def _key(settings: Mapping[str, Any]) -> Key:
    return frozenset(settings.items())


def _close_all(waiting: list[_Waiting]) -> None:
    for each in waiting:
        _close_now(each.producer)


def _close_now(producer: Producer) -> None:
    """Close a producer without waiting. Queued records are dropped; an idle producer has none."""
    try:
        producer.close(timeout=0)
    except OttlaError:
        pass  # of records that were dropped
    except Exception:  # others are to be closed, too, and by a thread that nothing starts again
        _log.exception("a producer that is no longer used failed to close")
