"""Log lines about brokers without a connection: the first failure, its repetitions, and the recovery."""

from __future__ import annotations

import errno
from typing import Final, TypeAlias

from ottla.errors import OttlaError, SecurityError, counted
from ottla.errors.outages import LONGEST_GAP, Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger
from ottla.network.cluster import Broker
from ottla.network.connection import Connection
from ottla.network.connection_errors import describe

logger = robust_logger(__name__)

RECENTLY: Final = 5.0
"""Seconds. A connection used more recently was not ended because it was idle: its broker may be shutting down."""

_LACKS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of this machine: the broker may work again, and no connection to it can be made."""

_Reason: TypeAlias = tuple[Broker, type[OttlaError] | int | None]


class ConnectionLog:
    """The brokers that one client cannot reach now. For the I/O thread, without a lock.

    A refused login or certificate, and a lack of file descriptors or memory, are logged even during an outage that has
    another cause.
    """

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        self._outages: Outages[Broker, _Reason] = Outages()
        self._ended_at: dict[Broker, float] = {}  # connections that ended quietly, and are not open again yet
        self._ended_logged_at: dict[Broker, float] = {}  # the time of the last such line for each broker
        self._short_sessions_logged = False
        self.active = False
        """True while a broker cannot be reached, or a line is still to be written."""

    def failed(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Note a connection that was lost, or an attempt that failed."""
        self.active = True
        self._ended_at.pop(connection.broker, None)
        broker = connection.broker
        self._outages.failed(broker, (broker, _kind(error)), describe(connection, error), now)

    def ended(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Log that a broker ended a connection without requests in flight."""
        broker = connection.broker
        if now - connection.used_at > RECENTLY or now < self._ended_logged_at.get(broker, float("-inf")) + LONGEST_GAP:
            logger.debug("%s: %s; no request was in flight", self._client_id, describe(connection, error))
            return
        self._ended_at[broker] = self._ended_logged_at[broker] = now
        logger.info(
            "%s: %s; no request was in flight; the broker may be restarting",
            self._client_id,
            describe(connection, error),
        )

    def ready(self, connection: Connection, now: float) -> None:
        """Log that a connection that ended quietly is open again."""
        ended_at = self._ended_at.pop(connection.broker, None)
        if ended_at is not None:
            logger.info("%s: %s is connected again, after %.1f s", self._client_id, connection.broker, now - ended_at)

    def short_session(self, connection: Connection) -> None:
        """Warn once that sessions are so short that each needs its own connection."""
        if self._short_sessions_logged:
            return
        self._short_sessions_logged = True
        logger.warning(
            "%s: %s ends sessions after %.3f s; one shorter than 10 s is followed by a new connection, with "
            "reconnect.backoff.ms up to reconnect.backoff.max.ms in between; raise connections.max.reauth.ms of the "
            "broker, or the lifetime of the tokens",
            self._client_id,
            connection.broker,
            connection.session.seconds,
        )

    def answered(self, connection: Connection, now: float) -> None:
        """Note that a broker answers requests. If this ends an outage, a later `write` logs that."""
        self._outages.recovered(connection.broker, now)

    def gone(self, connection: Connection, now: float) -> None:
        """Note that a broker left the cluster, or that a bootstrap server is not needed any more."""
        self._ended_at.pop(connection.broker, None)
        self._ended_logged_at.pop(connection.broker, None)
        self._outages.forget(connection.broker, now)

    def due_at(self) -> float:
        """The time at which a line is due without further events."""
        return self._outages.due_at()

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        for line in self._outages.take_lines(now):
            brokers = ", ".join(map(str, line.shown)) + (", ..." if line.count > len(line.shown) else "")
            if isinstance(line, OutageUpdate):
                if line.first:
                    logger.warning(
                        "%s: %s; connecting again, with reconnect.backoff.ms up to reconnect.backoff.max.ms between "
                        "attempts",
                        self._client_id,
                        line.error,
                    )
                else:
                    logger.warning(
                        "%s: still no connection after %.1f s and %s: %s",
                        self._client_id,
                        line.lasting,
                        counted(line.failures, "more failed attempt"),
                        line.error,
                    )
            elif line.recovered:
                logger.info(
                    "%s: %s answers again, after %.1f s and %s",
                    *line.log_arguments(self._client_id, brokers),
                )
            else:
                logger.info(
                    "%s: %s is no longer tried, because other brokers are used now; the last "
                    "attempts failed, %d in %.1f s",
                    *line.log_arguments(self._client_id, brokers),
                )
        self.active = bool(self._outages)


def _kind(error: OttlaError) -> type[OttlaError] | int | None:
    """What makes a failure another reason than those before it."""
    if isinstance(error, SecurityError):
        return type(error)
    number = getattr(error.__cause__, "errno", None)
    return number if number in _LACKS else None
