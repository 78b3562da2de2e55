"""The system as the producer uses it: time, random numbers, locks and threads.

`producer.build` makes all parts of a producer with one environment. A simulation passes its own, and so decides what
time it is and which thread runs next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

import attrs


class ReentrantLock(Protocol):
    """The methods of `threading.RLock` that are used."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, waiting at most *timeout* seconds; return whether it was taken."""
        ...

    def release(self) -> None:
        """Release the lock; raise RuntimeError if it is free."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object: ...


class Lock(ReentrantLock, Protocol):
    """The methods of `threading.Lock` that are used."""

    def locked(self) -> bool:
        """Return whether the lock is taken."""
        ...


@attrs.frozen(kw_only=True)
class Environment:
    """Functions of the system, by default those of Python. They are read when a part is made, never for a record."""

    clock: Callable[[], float] = time.monotonic
    """The time in seconds, which never goes backwards."""
    lock: Callable[[], Lock] = threading.Lock
    """Make a lock that any thread may release."""
    rlock: Callable[[], ReentrantLock] = threading.RLock
    """Make a lock that its owner may take again."""


SYSTEM: Final = Environment()
"""Python's own clock, locks and threads."""
