"""Metrics reporters: started with their producer, closed after it; their failures do not affect it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.interfaces import MetricsRegistry, MetricsReporter

logger = logging.getLogger(__name__)


class Reporting:
    """The reporters of one producer, by their names in the log."""

    def __init__(self, reporters: Mapping[str, MetricsReporter], registry: MetricsRegistry) -> None:
        self._reporters = reporters
        self._registry = registry
        self._started: list[tuple[str, MetricsReporter]] = []

    def start(self) -> None:
        """Start each reporter; drop those that fail to start."""
        for name, reporter in self._reporters.items():
            try:
                reporter.start(self._registry)
            except Exception:
                logger.exception("the %s failed to start; the producer goes on without it", name)
            else:
                self._started.append((name, reporter))

    def close(self) -> None:
        """Close the started reporters in reverse order; once."""
        started, self._started = self._started, []
        for name, reporter in reversed(started):
            try:
                reporter.close()
            except Exception:
                logger.exception("the %s failed to close", name)
