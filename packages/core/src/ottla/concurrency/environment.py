"""The system as the producer uses it: time, random numbers, locks, threads and sockets.

`producer.build` makes all parts of a producer with one environment. A simulation passes its own, and so decides what
time it is, which thread runs next, and what the network does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import Context
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, Final, Protocol

import attrs

from ottla.errors import IllegalStateError
from ottla.errors.own_threads import OwnThread


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


class Lock(Protocol):
    """The methods of `threading.Lock` that are used."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, waiting at most *timeout* seconds; return whether it was taken."""
        ...

    def release(self) -> None:
        """Release the lock, on any thread; raise RuntimeError if it is free."""

    def locked(self) -> bool:
        """Return whether the lock is taken."""
        ...


class Thread(Protocol):
    """The methods of `threading.Thread` that are used."""

    @property
    def ident(self) -> int | None:
        """The thread's number, None before it was started."""
        ...

    def start(self) -> None:
        """Start the thread; raise RuntimeError when the system has no thread left."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most *timeout* seconds."""

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        ...


def daemon_thread(run: Callable[[], object], name: str) -> Thread:
    """A new daemon thread, not started yet: it does not keep the program alive.

    It has a context of its own. Without the GIL, from Python 3.14 on, it would have a copy of the starter's context:
    all delivery callbacks would see the request and the trace of the first call.
    """
    return OwnThread(target=Context().run, args=(run,), name=name, daemon=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Environment:
    """Functions of the system, by default those of Python.

    The parts of a producer read them when they are built, not for each record.
    """

    clock: Callable[[], float] = time.monotonic
    """The time in seconds, which never goes backwards."""
    time_ns: Callable[[], int] = time.time_ns
    """The time in nanoseconds since 1970, for the times of metrics."""
    random: Random = attrs.field(factory=SystemRandom)
    """The source of all random numbers of a producer, except its partitioner's.

    The system's generator does not depend on the seed that the program sets.
    """
    lock: Callable[[], Lock] = threading.Lock
    """Make a lock that any thread may release."""
    rlock: Callable[[], ReentrantLock] = threading.RLock
    """Make a lock that its owner may take again. Like Python's RLock, it has a method `_is_owned`."""
    condition: Callable[[], threading.Condition] = threading.Condition
    """Make a condition with its own lock, for threads on which no signal handler runs."""
    thread: Callable[[Callable[[], object], str], Thread] = daemon_thread
    """Make a thread from its function and its name; it is not started."""
    selector: Callable[[], Any] | None = None
    """Make the `Selectable` of all connections. None stands for real sockets."""


SYSTEM: Final = Environment()
"""Python's own clock, locks and threads."""

_PATCHERS: Final = ("gevent", "eventlet")
"""Libraries that replace Python's threads and locks by their own."""


def check_patches() -> None:
    """Raise IllegalStateError if a library has replaced Python's locks after they were taken for `SYSTEM`.

    Then some threads and locks of a producer would be Python's and others the library's, and no record would be sent.
    """
    if threading.Lock is SYSTEM.lock:
        return
    library = _library_of(threading.Lock)
    if library in _PATCHERS and _library_of(SYSTEM.lock) != library:
        raise IllegalStateError(
            f"{library} has patched threading after ottla was imported, so a producer could send nothing; patch in the "
            "program's first lines, before anything imports ottla; for gunicorn with --preload that is in its "
            "gunicorn.conf.py, or leave out --preload"
        )


def _library_of(function: object) -> str:
    return str(getattr(function, "__module__", "")).partition(".")[0]
