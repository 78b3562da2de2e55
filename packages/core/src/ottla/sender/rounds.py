"""Rounds of the sender that may fail: what one has touched is made whole, then the next one follows after a pause.

A fault of ours, of a plugin or of the system must cost a round and its connections, not the producer: records end by
`delivery.timeout.ms` even where no round ever succeeds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final

from ottla.errors import counted
from ottla.errors.log_throttle import ThrottledLog
from ottla.network.backoff import Backoff
from ottla.sender.sender import Sender

logger = logging.getLogger(__name__)

PAUSE: Final = Backoff(initial=0.01, maximum=1.0)
"""Between rounds that fail, so that a fault that stays does not keep a processor busy."""


class Rounds:
    """One round after the other. `run` never raises an Exception; all methods are for one thread at a time.

    *sleep* waits for so many seconds, or until `hurry`.
    """

    def __init__(
        self,
        *,
        sender: Sender,
        name: str,
        clock: Callable[[], float],
        pause: Backoff = PAUSE,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._sender = sender
        self._name = name
        self._clock = clock
        self._backoff = pause
        self._hurry = threading.Lock()  # held; a lock, since an Event must not be set by whoever may interrupt its wait
        self._hurry.acquire()
        self._sleep = sleep or self._sleep_unless_hurried
        self._throttled_log = ThrottledLog(logger, clock=clock)
        self._failures = 0  # in a row
        self._next_at = float("-inf")
        self._broken: BaseException | None = None  # why a round failed whose traces are not removed yet

    def run(self, now: float, until: float) -> None:
        """One round, which waits no longer than *until*; after one that failed, a pause comes first."""
        if now < self._next_at:
            self._sleep(min(self._next_at, until) - now)
            now = self._clock()
        try:
            if self._broken is not None:
                self._sender.expire(now)  # first, for the recovery may fail each time
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
        """A round was broken off by *error*: log it, make whole what the round has touched, and pause."""
        self._next_at = self._clock() + self._backoff.delay(self._failures)
        self._failures += 1
        self._broken = error
        self._throttled_log.error(
            _origin(error),
            "%s: a round of the I/O thread failed; its connections are closed, its batches are sent again, and the "
            "next round follows",
            self._name,
            error=error,
        )
        try:
            self._recover(self._clock())
        except Exception as second:  # the next round begins with it
            self._throttled_log.error(
                _origin(second), "%s: the recovery from a failed round failed, too", self._name, error=second
            )

    def hurry(self) -> None:
        """End a pause. For any thread, takes no lock, and may interrupt the pause itself."""
        with contextlib.suppress(RuntimeError):  # nobody sleeps, and the next sleep ends at once
            self._hurry.release()

    def _recover(self, now: float) -> None:
        assert self._broken is not None
        self._sender.recover(self._broken, now)
        self._broken = None

    def _sleep_unless_hurried(self, seconds: float) -> None:
        if seconds > 0:
            self._hurry.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))


def _origin(error: BaseException) -> tuple[str, str, int]:
    """What tells one fault from another: its kind, and where it was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return type(error).__name__, "", 0
    return type(error).__name__, traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
