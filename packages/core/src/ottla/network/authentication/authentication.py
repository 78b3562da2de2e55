"""The login of one producer: its mechanism, its worker threads, and the renewal of sessions (KIP-368).

If the mechanism allows it, first messages, which may wait for a password or a token, have workers of their own. So
what follows them, which takes microseconds, never waits behind them, and the logins of several brokers end together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Protocol

from ottla.interfaces import Mechanism, Step, SupportsConcurrentLogins, supports
from ottla.network.authentication.login_session import LEAST_SESSION
from ottla.network.authentication.steps import Compute
from ottla.network.authentication.worker import Computation

if TYPE_CHECKING:
    from ottla.network.authentication.exchange import Exchange

_chance = SystemRandom()

RENEWED_AFTER: Final = (0.85, 0.95)
"""The fraction of a session after which it is renewed, drawn from this range: connections must not log in together."""

FIRST_MESSAGE_THREADS: Final = 4
"""Threads for the first messages of concurrent logins, such as those that ask Kerberos for tickets of several brokers.

Logins that wait for one result need only one: they are announced to the mechanism, which gives all of them the result.
"""


class AuthExecutor(Protocol):
    """Runs computations of a mechanism; `ottla.network.authentication.worker` implements it with threads."""

    def begin(self, work: Callable[[], Step]) -> Computation:
        """Start a computation, without waiting for its result."""

    def cancel(self, computation: Computation) -> None:
        """Cancel a computation; its result is not needed any more."""

    def close(self) -> None:
        """Start no more computations."""


class Authentication:
    """Authenticates the connections of one producer. For the I/O thread. *uniform* draws from a range.

    *first_worker* makes the first messages of mechanisms that allow concurrent logins; *worker* does all else.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        worker: AuthExecutor,
        first_worker: AuthExecutor | None = None,
        uniform: Callable[[float, float], float] = _chance.uniform,
    ) -> None:
        self.mechanism = mechanism
        self._concurrent = supports(mechanism, SupportsConcurrentLogins) and bool(mechanism.concurrent_logins)
        self._worker = worker
        self._first_worker = first_worker if self._concurrent and first_worker is not None else worker
        self._uniform = uniform

    def exchange(
        self,
        *,
        host: str,
        port: int,
        peer: str,
        versions: Mapping[int, tuple[int, int]],
        session_user: str | None = None,
    ) -> Exchange:
        """The messages of a login on one connection; *versions* are those that the broker supports.

        *session_user* is the user of the session that it renews.
        """
        from ottla.network.authentication.exchange import Exchange  # imported late: only logins need its messages

        return Exchange(
            self.mechanism,
            host=host,
            port=port,
            peer=peer,
            versions=versions,
            session_user=session_user,
            announced=self._concurrent,
        )

    def compute(self, move: Compute) -> Computation:
        """Run a computation of the mechanism: on this thread, or on a worker's thread if the mechanism may block.

        Raises ConnectionFailedError if the worker cannot start its thread.
        """
        if self.mechanism.blocking:
            return (self._first_worker if move.first else self._worker).begin(move.work)
        computation = Computation(move.work)
        computation.run()
        return computation

    def cancel(self, computation: Computation) -> None:
        """Cancel a computation; its result is not needed any more."""
        for worker in {self._worker, self._first_worker}:
            worker.cancel(computation)

    def renewal_after(self, session: float) -> float:
        """Seconds of a session after which requests wait for a new login; infinity: never."""
        if session <= 0:
            return float("inf")
        return max(session * self._uniform(*RENEWED_AFTER), LEAST_SESSION)

    def close(self) -> None:
        """End the workers; the mechanism is closed with the other plugins."""
        for worker in {self._worker, self._first_worker}:
            worker.close()
