"""Producers that outlive a task: Spark keeps a Python worker, and its next task with equal settings goes on.

They are made only in the process that sends, never before a fork. What is still open when a worker ends is
closed by the core; nothing is lost then, because each task waits for its own records.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from ottla import OttlaError, Producer

MOST = 4
"""A worker that serves many jobs keeps this many producers; the one unused for longest is closed."""

Key: TypeAlias = tuple[int, frozenset[tuple[str, Any]]]

_producers: dict[Key, Producer] = {}  # used last is last


def shared(settings: Mapping[str, Any]) -> Producer:
    """This process's producer with these settings."""
    key = _key(settings)
    producer = _producers.pop(key, None) or Producer(settings)
    _producers[key] = producer
    for stale in [each for each in _producers if each[0] == os.getpid()][:-MOST]:
        _producers.pop(stale).close()
    return producer


def give_up(settings: Mapping[str, Any]) -> None:
    """Drop the producer after a failed task, with what is still queued: a retry would only send it twice."""
    producer = _producers.pop(_key(settings), None)
    if producer is not None:
        with contextlib.suppress(OttlaError):
            producer.close(timeout=0)


def _key(settings: Mapping[str, Any]) -> Key:
    return os.getpid(), frozenset(settings.items())
