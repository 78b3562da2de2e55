"""Metrics reporters: started with their producer, closed after it; their failures do not affect it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import OttlaError
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import MetricsRegistry, MetricsReporter
from ottla.plugins.calls import LEAST_SECONDS, BoundedCall, PluginCloser

logger = robust_logger(__name__)

START_SECONDS: Final = 5.0
"""The longest that a producer waits for its reporters to start."""


class Reporting:
    """The reporters of one producer, by their names in the log."""

    def __init__(
        self,
        reporters: Mapping[str, MetricsReporter],
        registry: MetricsRegistry,
        *,
        closer: PluginCloser,
        environment: Environment = SYSTEM,
    ) -> None:
        self._reporters = reporters
        self._registry = registry
        self._closer = closer
        self._environment = environment

    def start(self) -> None:
        """Start each reporter; drop those that fail to start.

        One that takes longer than `START_SECONDS` is not waited for; it is used once it has started.
        """
        clock = self._environment.clock
        deadline = clock() + START_SECONDS
        for name, reporter in self._reporters.items():
            self._start(name, reporter, max(deadline - clock(), LEAST_SECONDS))

    def _start(self, name: str, reporter: MetricsReporter, seconds: float) -> None:
        begin = partial(self._start_and_close_later, name, reporter)
        try:
            call = BoundedCall(begin, thread_name="ottla-reporter-start", environment=self._environment)
        except RuntimeError as error:  # no thread is left
            _log_refusal(name, error)
            return
        if not call.wait(seconds):
            logger.warning(
                "the %s has not started within %.1f s; its `start` is at %s; the producer continues without "
                "waiting for it",
                name,
                seconds,
                call.current_position(),
            )
        elif isinstance(call.error, OSError | OttlaError):  # such as a port in use: no fault of the reporter's code
            _log_refusal(name, call.error)
        elif call.error is not None:
            logger.error("the %s failed to start; the producer continues without it", name, exc_info=call.error)

    def _start_and_close_later(self, name: str, reporter: MetricsReporter) -> None:
        reporter.start(self._registry)
        self._closer.add(name, reporter, first=True)


def _log_refusal(name: str, error: BaseException) -> None:
    logger.error("the %s cannot be started; the producer continues without it: %s", name, error)
