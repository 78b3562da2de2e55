"""Rounds of the sender, with recovery: after a failed round the state is repaired, and the next one follows a pause.

A fault of Ottla, a plugin or the system must cost a round and its connections, not the producer: records fail by
`delivery.timeout.ms` even if no round ever succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import AutoResetEvent
from ottla.errors import counted
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.robust_logger import log_robustly, robust_logger
from ottla.network.backoff import Backoff
from ottla.sender.sender import Sender

logger = robust_logger(__name__)

PAUSE: Final = Backoff(initial=0.01, maximum=1.0)
"""The pause between rounds that fail, so that a persistent fault does not keep a processor busy."""


class Rounds:
    """Runs rounds. `run` never raises an Exception; all methods are for one thread at a time.

    *sleep* waits for so many seconds, or until `end_sleep`.
    """

    def __init__(
        self,
        *,
        sender: Sender,
        name: str,
        environment: Environment,
        pause: Backoff = PAUSE,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._sender = sender
        self._name = name
        self._clock = environment.clock
        self._backoff = pause
        self._sleep_ended = AutoResetEvent(environment)
        self._sleep = sleep or self._sleep_ended.wait
        self._throttled_log = ThrottledLog(logger, clock=self._clock)
        self._failures = 0  # in a row
        self._next_at = float("-inf")
        self._broken: BaseException | None = None  # the error of a failed round that is not repaired yet
        self.forgotten = False
        """Whether this is a forked child, where nothing runs and nothing is repaired any more."""
        self.given_up = False
        """Whether the records were failed while a round did not return; how it ends does not matter any more."""

    @property
    def failing(self) -> bool:
        """Whether the last round failed: before the next one comes a pause, and perhaps another recovery."""
        return self._failures > 0

    def run(self, now: float, until: float) -> None:
        """Run one round, which waits no longer than *until*; after a failed round, a pause comes first."""
        if self.forgotten:
            return
        if now < self._next_at:
            self._sleep(min(self._next_at, until) - now)
            now = self._clock()
        try:
            if self._failures:
                self._sender.expire(now)  # first: the recovery, or the round, may fail each time
            if self._broken is not None:
                self._recover(now)
            self._sender.run_once(now, until=until)
        except Exception as error:
            self.failed(error)
        else:
            if self._failures:
                logger.info(
                    "%s: the I/O thread works again after %s", self._name, counted(self._failures, "failed round")
                )
            self._failures = 0

    def failed(self, error: BaseException) -> None:
        """Handle the *error* of a round: log it, repair the state, and set the pause."""
        if self.forgotten or self.given_up:
            return
        self._next_at = self._clock() + self._backoff.delay(self._failures)
        self._failures += 1
        self._broken = error
        log_robustly(
            lambda: self._throttled_log.error(
                _origin(error),
                "%s: a round of the I/O thread failed; its connections are closed, its batches are sent again, and the "
                "next round follows",
                self._name,
                error=error,
            )
        )
        try:
            self._recover(self._clock())
        except Exception as second:  # the next round begins with the recovery
            self._log_second(second)

    def _log_second(self, error: Exception) -> None:
        log_robustly(
            lambda: self._throttled_log.error(
                _origin(error), "%s: the recovery from a failed round failed, too", self._name, error=error
            )
        )

    def end_sleep(self) -> None:
        """End a pause. For any thread, takes no lock, and may interrupt the pause itself."""
        self._sleep_ended.set()

    def _recover(self, now: float) -> None:
        assert self._broken is not None
        self._sender.recover(self._broken, now)
        self._broken = None


def _origin(error: BaseException) -> tuple[str, str, int]:
    """The identity of a fault: the name of its type, and the file and line where it was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return type(error).__name__, "", 0
    return type(error).__name__, traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
