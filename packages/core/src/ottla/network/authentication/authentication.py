"""The login of one producer: its mechanism, where it computes, and when a session is renewed (KIP-368)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Protocol

from ottla.interfaces import Mechanism, Step
from ottla.network.authentication.steps import Compute
from ottla.network.authentication.worker import Computation

if TYPE_CHECKING:
    from ottla.network.authentication.exchange import Exchange

logger = logging.getLogger(__name__)

_chance = SystemRandom()

RENEWED_AFTER: Final = (0.85, 0.95)
"""Of a session's time, by chance: connections that were made together do not log in together."""

SHORT_SESSION: Final = 10.0
"""Seconds: a shorter session is not renewed on its connection, but followed by a new connection after the backoff.

What a broker says would otherwise decide how often we log in: sessions of 1 ms were ten logins in a second."""

LEAST_SESSION: Final = 0.1
"""Seconds between two logins, whatever a broker says: there must be time for a request."""


class AuthExecutor(Protocol):
    """Computes elsewhere; `ottla.network.authentication.worker` has the one with a thread."""

    def begin(self, work: Callable[[], Step]) -> Computation:
        """Have something computed."""

    def cancel(self, computation: Computation) -> None:
        """Nobody waits for it any more."""

    def close(self) -> None:
        """Compute nothing more."""


class Authentication:
    """For the I/O thread. *uniform* draws from a range."""

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        worker: AuthExecutor,
        uniform: Callable[[float, float], float] = _chance.uniform,
    ) -> None:
        self.mechanism = mechanism
        self._worker = worker
        self._uniform = uniform

    def exchange(self, *, host: str, port: int, peer: str, versions: Mapping[int, tuple[int, int]]) -> Exchange:
        """A login on one connection, which has told its *versions*."""
        from ottla.network.authentication.exchange import Exchange  # here: its messages are for those who log in

        return Exchange(self.mechanism, host=host, port=port, peer=peer, versions=versions)

    def compute(self, move: Compute) -> Computation:
        """Have the mechanism compute: here and now, unless it may block. Raises ConnectionFailedError."""
        if self.mechanism.blocking:
            return self._worker.begin(move.work)
        computation = Computation(move.work)
        computation.run()
        return computation

    def cancel(self, computation: Computation) -> None:
        """Nobody waits for it any more."""
        self._worker.cancel(computation)

    def renewal_after(self, session: float) -> float:
        """After how many seconds of a session a request should wait for a new login; infinity: never."""
        if session <= 0:
            return float("inf")
        return max(session * self._uniform(*RENEWED_AFTER), LEAST_SESSION)

    def close(self) -> None:
        """The producer ends: so does whatever computes."""
        self._worker.close()
        close = getattr(self.mechanism, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception as error:  # its words may be secret
            logger.error("the mechanism %s failed to close: %s", self.mechanism.name, type(error).__name__)
