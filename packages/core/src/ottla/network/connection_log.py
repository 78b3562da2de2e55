"""Log lines about brokers without a connection: the first failure, its repetitions, and the recovery."""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from ottla.errors import OttlaError, SecurityError, counted
from ottla.errors.outages import LONGEST_GAP, Failing, Outages
from ottla.network.cluster import Broker
from ottla.network.connection import Connection
from ottla.network.connection_errors import describe

logger = logging.getLogger(__name__)

RECENTLY: Final = 5.0
"""A connection that was used within so many seconds is not ended for being idle: its broker may be shutting down."""

_Reason: TypeAlias = tuple[Broker, type[OttlaError] | None]


class ConnectionLog:
    """The brokers of one client that cannot be reached now. For the I/O thread, without a lock.

    A refused login or certificate is a reason of its own, so it is logged also in the middle of another outage.
    """

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        self._outages: Outages[Broker, _Reason] = Outages()
        self._ended_at: dict[Broker, float] = {}  # connections that ended quietly, and are not made again yet
        self._ended_logged_at: dict[Broker, float] = {}  # and when the last line about one of each broker was
        self._short_sessions_logged = False
        self.active = False
        """Whether any cannot be reached, or is left to log."""

    def failed(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Note a connection that was lost, or could not be made."""
        self.active = True
        self._ended_at.pop(connection.broker, None)
        kind = type(error) if isinstance(error, SecurityError) else None
        broker = connection.broker
        self._outages.failed(broker, (broker, kind), describe(connection, error), now)

    def ended(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Log that a broker has ended a connection on which nothing was under way."""
        broker = connection.broker
        if now - connection.used_at > RECENTLY or now < self._ended_logged_at.get(broker, float("-inf")) + LONGEST_GAP:
            logger.debug("%s: %s; no request was under way", self._client_id, describe(connection, error))
            return
        self._ended_at[broker] = self._ended_logged_at[broker] = now
        logger.info(
            "%s: %s; no request was under way, the broker may be restarting",
            self._client_id,
            describe(connection, error),
        )

    def ready(self, connection: Connection, now: float) -> None:
        """Log that a connection that ended quietly is there again."""
        ended_at = self._ended_at.pop(connection.broker, None)
        if ended_at is not None:
            logger.info("%s: %s is connected again, after %.1f s", self._client_id, connection.broker, now - ended_at)

    def short_session(self, connection: Connection, now: float) -> None:
        """Warn once of sessions that end so soon that each takes a connection of its own."""
        if self._short_sessions_logged:
            return
        self._short_sessions_logged = True
        logger.warning(
            "%s: %s ends sessions after %.3f s; one shorter than 10 s is followed by a new connection, with "
            "reconnect.backoff.ms up to reconnect.backoff.max.ms in between; raise connections.max.reauth.ms of the "
            "broker, or the lifetime of the tokens",
            self._client_id,
            connection.broker,
            connection.session_ends_at - now,
        )

    def answered(self, connection: Connection, now: float) -> None:
        """Note that a broker answers requests."""
        self._outages.recovered(connection.broker, now)

    def gone(self, connection: Connection, now: float) -> None:
        """Note that a broker is not part of the cluster any more, or a bootstrap server is not needed."""
        self._ended_at.pop(connection.broker, None)
        self._ended_logged_at.pop(connection.broker, None)
        self._outages.forget(connection.broker, now)

    def due_at(self) -> float:
        """When a line is due if nothing happens."""
        return self._outages.due_at()

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        for line in self._outages.take_lines(now):
            brokers = ", ".join(map(str, line.shown)) + (", ..." if line.count > len(line.shown) else "")
            if isinstance(line, Failing):
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
                    self._client_id,
                    brokers,
                    line.lasting,
                    counted(line.failures, "failed attempt"),
                )
            else:
                logger.info(
                    "%s: %s is not tried any more, other brokers are used now; the last attempts failed, %d in %.1f s",
                    self._client_id,
                    brokers,
                    line.failures,
                    line.lasting,
                )
        self.active = bool(self._outages)
