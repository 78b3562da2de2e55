"""One fetch at a time, on a separate thread, shared by all callers that need its result.

A fetch that exceeds its limit is abandoned: the next caller starts another one, and callers that no longer wait ignore
its late result. Threads cannot be ended from outside, so at most `MAX_RUNNING` of them run at a time.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Final, Generic, TypeVar

from ottla.errors import ConnectionFailedError, printable
from ottla.errors.notes import unshared

MAX_RUNNING: Final = 4

T = TypeVar("T")


class Flight(Generic[T]):
    """One fetch. It completes once: by its result, by its error, or by `close`."""

    def __init__(self, limit: float) -> None:
        self._until = time.monotonic() + limit
        self._completed = threading.Event()
        self._completing = threading.Lock()
        self._result: T | None = None
        self._error: Exception | None = None

    @property
    def overdue(self) -> bool:
        """Whether the fetch has exceeded its limit."""
        return time.monotonic() >= self._until

    def wait(self, timeout: float) -> bool:
        """Wait until the fetch is complete, at most until its limit; return whether it is complete."""
        return self._completed.wait(max(0.0, min(timeout, self._until - time.monotonic())))

    def complete(self, *, result: T | None = None, error: Exception | None = None) -> None:
        """Keep the first outcome and release all waiting callers."""
        with self._completing:
            if not self._completed.is_set():
                self._result, self._error = result, error
                self._completed.set()

    def result(self) -> T:
        """Return the result of a completed fetch. Raises a copy of its error for each caller."""
        if self._error is not None:
            raise unshared(self._error)
        assert self._result is not None, "called after `complete`"
        return self._result


class Need(Generic[T]):
    """A need for a result: it is served by the first fetch that ends afterwards, which is kept until then."""

    __slots__ = ("__weakref__", "flight")

    def __init__(self) -> None:
        self.flight: Flight[T] | None = None


class SingleFlight(Generic[T]):
    """Start fetches and let callers join the running one. Any thread may call it.

    *source*, *wanted* and *time_out*, the key of the callers' time limit, are words for errors.
    """

    def __init__(
        self,
        fetch: Callable[[], T],
        *,
        name: str,
        source: str,
        limit: float,
        wanted: str = "a token",
        time_out: str = "socket.connection.setup.timeout.ms",
    ) -> None:
        self._fetch = fetch
        self._name = name
        self._source = source
        self._wanted = wanted
        self._time_out = time_out
        self._limit = limit
        self._lock = threading.Lock()
        self._current: Flight[T] | None = None
        self._running: set[Flight[T]] = set()
        self._closed = False
        self._needs: weakref.WeakSet[Need[T]] = weakref.WeakSet()

    def need(self) -> Need[T]:
        """Return a need that begins now, for `join` later. Returns immediately."""
        need = Need[T]()
        with self._lock:
            self._needs.add(need)
        return need

    def join(
        self,
        *,
        needless: Callable[[], bool],
        too_soon: Callable[[], ConnectionFailedError | None] = lambda: None,
        need: Need[T] | None = None,
    ) -> tuple[Flight[T], bool] | None:
        """Return the running fetch or a new one, and whether it is new; None if it is *needless* by now.

        With *need*, a fetch that has ended since that began counts as running.

        Raises ConnectionFailedError if none can start, or the error of *too_soon*.
        """
        with self._lock:
            if self._closed:
                raise self._ended()
            if needless():  # a fetch may have ended since the caller's last check
                return None
            if need is not None and need.flight is not None:
                return need.flight, False
            if self._current is not None and not self._current.overdue:
                return self._current, False
            if len(self._running) >= MAX_RUNNING:
                raise self.unanswered()
            if (refusal := too_soon()) is not None:
                raise refusal
            return self._start(), True

    def unanswered(self) -> ConnectionFailedError:
        """Return the error of a caller that times out before the fetch ends."""
        return ConnectionFailedError(
            f"{self._source} has not returned {self._wanted} in time; make it return or fail within {self._time_out}"
        )

    def close(self) -> None:
        """Start no more fetches, and release all waiting callers; returns immediately."""
        with self._lock:
            self._closed = True
            current = self._current
        if current is not None:
            current.complete(error=self._ended())

    def _start(self) -> Flight[T]:
        """Start a fetch, under the lock."""
        flight = Flight[T](self._limit)
        thread = threading.Thread(target=Context().run, args=(self._run, flight), name=self._name, daemon=True)
        try:
            self._running.add(flight)
            self._current = flight
            thread.start()
        except BaseException as cause:
            self._running.discard(flight)  # if Ctrl-C came when the thread had been started, it finds this
            self._current = None
            if not isinstance(cause, RuntimeError):
                raise
            raise ConnectionFailedError(  # the system has no more threads
                f"no thread could be started to get {self._wanted} from {self._source}: {printable(str(cause))}"
            ) from cause
        return flight

    def _run(self, flight: Flight[T]) -> None:
        with self._lock:
            if flight not in self._running:  # its start was interrupted: no caller has it
                return
        try:
            result = self._fetch()
        except Exception as error:
            self._leave(flight)
            flight.complete(error=error)
        except BaseException as error:  # such as SystemExit, which would end the thread silently
            self._leave(flight)
            flight.complete(error=ConnectionFailedError(f"{self._source} raised {type(error).__name__}"))
        else:
            self._leave(flight)
            flight.complete(result=result)

    def _leave(self, flight: Flight[T]) -> None:
        """Remove the fetch before it completes, so that a released caller can start the next one."""
        with self._lock:
            self._running.discard(flight)
            if self._current is flight:
                self._current = None
                for need in self._needs:
                    need.flight = flight
                self._needs.clear()

    def _ended(self) -> ConnectionFailedError:
        return ConnectionFailedError(f"the producer was closed before {self._source} returned {self._wanted}")
