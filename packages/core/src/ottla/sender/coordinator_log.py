"""Log lines about requests for producer ids and transactions that are repeated: the first failure and the recovery."""

from __future__ import annotations

from typing import Final

from ottla.errors import BrokerError, counted
from ottla.errors.outages import Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger
from ottla.transactions.request_source import RequestSource

logger = robust_logger(__name__)

LOGGED_AFTER: Final = 1.0
"""Seconds. Failures that last less are normal: the coordinator loads its log, or is ending the previous transaction."""


class CoordinatorLog:
    """Logs the requests that fail, by name. For the I/O thread, without a lock."""

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        # A request that is refused for good, or of a producer that has failed permanently, is not repeated.
        self._outages: Outages[str, str] = Outages(timeout=LOGGED_AFTER, repeat_by_failure=True)
        self.active = False
        """Whether a request fails, or a line is left to log."""

    def note(self, request: str, request_source: RequestSource, now: float) -> None:
        """Note the result of a request: it will be repeated, or its response was accepted."""
        error = request_source.obstacle
        if error is None:
            self._outages.recovered(request, now)
        else:
            kind = error.code.name if isinstance(error, BrokerError) else type(error).__name__
            self.active = True
            self._outages.failed(request, f"{request} {kind}", str(error).rstrip("."), now)

    def due_at(self) -> float:
        """The time at which a line is due if nothing happens."""
        return self._outages.due_at()

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        for line in self._outages.take_lines(now):
            names = ", ".join(line.shown)
            if isinstance(line, OutageUpdate):
                logger.warning(
                    "%s: %s requests have failed for %.1f s, %s: %s; repeating them, with retry.backoff.ms up to "
                    "retry.backoff.max.ms in between",
                    self._client_id,
                    names,
                    line.lasting,
                    counted(line.failures, "attempt"),
                    line.error,
                )
            elif line.recovered:
                logger.info(
                    "%s: %s requests succeed again, after %.1f s and %s",
                    *line.log_arguments(self._client_id, names),
                )
            else:
                logger.info(
                    "%s: %s requests are not repeated any more; the last ones failed, %d in %.1f s",
                    *line.log_arguments(self._client_id, names),
                )
        self.active = bool(self._outages)
