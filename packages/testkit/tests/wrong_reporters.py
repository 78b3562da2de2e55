"""Reporters that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from ottla.interfaces import MetricName, MetricsRegistry


class Right:
    """Reads now and then, and at the end."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self.registry: Any = None

    def start(self, registry: MetricsRegistry) -> None:
        self.registry = registry
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.report()

    def report(self) -> None:
        self.registry.snapshot()

    def _run(self) -> None:
        while not self._over.wait(60.0):
            self.report()


class HasAnotherName:
    def begin(self, registry: MetricsRegistry) -> None: ...


class RaisesAtItsStart(Right):
    def start(self, registry: MetricsRegistry) -> None:
        raise OSError("no such server")


class RaisesAtItsEnd(Right):
    def close(self) -> None:
        super().close()
        raise OSError("no such server")


class WaitsForItsServer(Right):
    def start(self, registry: MetricsRegistry) -> None:
        super().start(registry)
        time.sleep(1.5)  # what is caught is just this


class WaitsAtItsEnd(Right):
    def close(self) -> None:
        super().close()
        time.sleep(1.5)


class LosesTheLastFigures(Right):
    def close(self) -> None:
        self._over.set()
        self._thread.join()


class ReadsAtItsStartAlone(LosesTheLastFigures):
    """Keeps the snapshot of its start."""

    def start(self, registry: MetricsRegistry) -> None:
        registry.snapshot()
        super().start(registry)


class ReadsAllTheTime(Right):
    def _run(self) -> None:
        while not self._over.is_set():
            self.report()


class NeedsADescription(Right):
    def report(self) -> None:
        units = {(each.group, each.name): each.unit for each in self.registry.describe()}
        for name in self.registry.snapshot():
            assert units[name.group, name.name]


class ExpectsTheSameNames(Right):
    """Looks up at the end what it has seen at its start."""

    def start(self, registry: MetricsRegistry) -> None:
        self.names = list(registry.snapshot())
        super().start(registry)

    def report(self) -> None:
        figures = self.registry.snapshot()
        for name in self.names:
            assert figures[name] is not None


class TakesFiguresOut(Right):
    def report(self) -> None:
        figures = self.registry.snapshot()
        figures.pop(next(iter(figures)))


class HasNoWordForNan(Right):
    def report(self) -> None:
        for figure in self.registry.snapshot().values():
            math.floor(figure)


class NeedsTags(Right):
    def report(self) -> None:
        for name in self.registry.snapshot():
            assert name.tags[0]


class DoesNotJoin(Right):
    """Leaves the last report to its thread, and does not wait for it."""

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        self._over.wait()
        self.report()


class ExportsNothing(Right):
    lines = ""


class Exports(Right):
    """Remembers what it would write."""

    lines = ""

    def report(self) -> None:
        self.lines += "".join(
            f"{str(name).replace('-', '_')}={value}\n" for name, value in self.chosen(self.registry.snapshot()).items()
        )

    def chosen(self, figures: Mapping[MetricName, float]) -> Mapping[MetricName, float]:
        return figures


class ExportsFive(Exports):
    def chosen(self, figures: Mapping[MetricName, float]) -> Mapping[MetricName, float]:
        return dict(list(figures.items())[:5])


class ExportsOneInItsOwnForm(Right):
    """Sends the name of one metric in one word, as bytes."""

    lines = b""

    def report(self) -> None:
        names = [name.name for name in self.registry.snapshot() if name.name == "record-send-total"]
        self.lines += "".join(name.title().replace("-", "") for name in names).encode()


class IsReadByOthers(Exports):
    """Has no thread, and reads the metrics for others."""

    def start(self, registry: MetricsRegistry) -> None:
        self.registry = registry

    def close(self) -> None: ...


class DiesInItsThread(Right):
    def _run(self) -> None:
        raise ValueError("the thread has died")


class ReportsAtItsStart(LosesTheLastFigures):
    """Reads when its thread begins."""

    def _run(self) -> None:
        self.report()
        super()._run()


class _LeftToItself(Right):
    """Its thread ends soon, because no call ends it."""

    def _run(self) -> None:
        self._over.wait(5.0)


class BeginsInItsConstructor(_LeftToItself):
    def __init__(self) -> None:
        super().__init__()
        self._thread.start()

    def start(self, registry: MetricsRegistry) -> None:
        self.registry = registry


class LeavesItsThread(_LeftToItself):
    def close(self) -> None:
        self.report()


class KeepsTheProgram(Right):
    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=False)


class OneForAll(Right):
    """Remembers the first registry for all that come."""

    first: Any = None

    def start(self, registry: MetricsRegistry) -> None:
        OneForAll.first = OneForAll.first or registry
        super().start(OneForAll.first)


class TakesTheOnlyPlace(Right):
    """As with a registry of the whole program, in which each name is free once."""

    taken = False

    def start(self, registry: MetricsRegistry) -> None:
        if TakesTheOnlyPlace.taken:
            raise ValueError("duplicated timeseries")
        TakesTheOnlyPlace.taken = True
        super().start(registry)

    def close(self) -> None:
        super().close()
        TakesTheOnlyPlace.taken = False
