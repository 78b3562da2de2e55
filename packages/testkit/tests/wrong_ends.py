"""Ends of plugins that each break a promise, to be mixed with a plugin of any kind that keeps the others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import wrong_compressors
import wrong_encoders
import wrong_interceptors
import wrong_mechanisms
import wrong_partitioners
import wrong_providers
import wrong_serializers

import wrong_transports

RIGHT: Final = {
    "transport": wrong_transports.RightTransport,
    "authenticator": wrong_mechanisms.Right,
    "partitioner": wrong_partitioners.Right,
    "compressor": wrong_compressors.Right,
    "serializer": wrong_serializers.Right,
    "encoder": wrong_encoders.WrongEncoder,
    "interceptor": wrong_interceptors.Right,
    "config_provider": wrong_providers.Right,
}
"""A plugin of each kind that keeps all promises; reporters have ends of their own."""


def plugin(kind: str, end: str) -> Any:
    """Return a plugin of this kind with one of the ends below."""
    return type(end, (globals()[end], RIGHT[kind]), {})()


class WithAThread:
    """Has a thread from its making on, and ends it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.over.wait, args=(5,), name="background", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.over.set()
        self.thread.join()


class LeavesItsThread(WithAThread):
    def close(self) -> None:
        pass


class CannotBeClosed(WithAThread):
    close = None  # type: ignore[assignment]


class KeepsTheProgram(WithAThread):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        super().close()
        self.over.clear()
        self.thread = threading.Thread(target=self.over.wait, args=(5,), name="background", daemon=False)
        self.thread.start()


class RaisesAtItsEnd(WithAThread):
    def close(self) -> None:
        super().close()
        raise OSError("no such file")


class WaitsAtItsEnd(WithAThread):
    """Waits for its thread, and forgets to end it."""

    def close(self) -> None:
        self.thread.join()


class JoinsWhatItNeverStarted:
    """Starts its thread at its first use."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.thread = threading.Thread(target=print, name="background", daemon=True)

    def close(self) -> None:
        self.thread.join()


class WithAPool:
    """Has workers, which are no daemons, and which the interpreter ends."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pool = ThreadPoolExecutor(1)
        self.pool.submit(int).result()

    def close(self) -> None:
        self.pool.shutdown()
