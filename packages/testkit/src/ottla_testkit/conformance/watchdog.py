"""Notices a call that does not come back, and frees it, so that a layer that blocks fails its test and hangs none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watchdog:
    """Calls *free* when one call takes longer than *patience* seconds."""

    def __init__(self, *, patience: float, free: Callable[[], None]) -> None:
        self._patience = patience
        self._free = free
        self._lock = threading.Condition()
        self._calls = 0  # begun and ended: odd during a call
        self._stopped = False
        self.barked = False
        self._thread = threading.Thread(target=self._watch, name="conformance-watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The call is made inside."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls += 1

    def stop(self) -> None:
        """Watch no longer."""
        with self._lock:
            self._stopped = True
            self._lock.notify()
        self._thread.join()

    def _watch(self) -> None:
        with self._lock:
            while not self._stopped:
                before = self._calls
                self._lock.wait(self._patience)
                if before % 2 and self._calls == before and not self._stopped:
                    self.barked = True
                    self._free()
