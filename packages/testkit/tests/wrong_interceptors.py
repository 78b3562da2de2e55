"""Interceptors that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from ottla import RecordMetadata
from ottla.interfaces import Header


class Right:
    """Adds a header."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, (*headers, ("seen", b"1"))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None: ...


class HasAnotherName:
    def before_send(self, record: Any) -> Any:
        return record


class CannotBeClosed(Right):
    close = "soon"


class CrashesOnATombstone(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value + b"!", headers


class ReturnsNothing(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return None


class ForgetsTheHeaders(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value


class GivesADictOfHeaders(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, dict(headers)


class WritesATextHeader(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, [*headers, ("seen", "yes")]


class MakesTextOfValues(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, None if value is None else value.decode(), headers


class AppendsToTheTuple(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Any) -> Any:
        headers.append(("seen", b"1"))
        return key, value, headers


class RefusesItsOwnHeader(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        assert "seen" not in dict(headers)
        return super().on_send(topic, key, value, headers)


class StampsWhatItIsGiven(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        if isinstance(value, dict):
            value["seen"] = True
        return key, value, headers


class AsksSomebodyFirst(Right):
    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        time.sleep(1.5)  # what is caught is just this
        return key, value, headers


class TellsSomebodySlowly(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        time.sleep(1.5)


class ExpectsWhatItHasSent(Right):
    def __init__(self) -> None:
        self._open = {"orders": 3}

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self._open.pop(metadata.topic)


class ExpectsWordsInErrors(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is not None:
            assert str(error).split()[0]


class TornByThreads(Right):
    """Puts the value aside where other threads put theirs."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        self.value = value
        time.sleep(0.001)  # what a longer computation does now and then
        return key, self.value, headers


class RaisesAtItsEnd(Right):
    def close(self) -> None:
        raise OSError("no such file")


class LeavesItsThread(Right):
    def __init__(self) -> None:
        self._over = threading.Event()

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        threading.Thread(target=self._over.wait, name="audit", daemon=True).start()


class KeepsTheProgram(LeavesItsThread):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        threading.Thread(target=self._over.wait, args=(5,), name="audit", daemon=False).start()
