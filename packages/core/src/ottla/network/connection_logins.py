"""Logins on connections: the first one, which makes a connection ready, and later ones that renew its session.

Decides when a session is renewed, and which error the end of a connection means during a login. The exchange makes the
messages; the client moves the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, assert_never

from ottla.errors import AuthenticationError, ConnectionFailedError, NetworkError, OttlaError, UnsupportedVersionError
from ottla.network.authentication import (
    SHORT_SESSION,
    Ask,
    Authentication,
    Compute,
    LoggedIn,
    Move,
    Token,
    login_errors,
)
from ottla.network.connection import Connection, LoginState, Stage
from ottla.network.request import Reader


class LoginTransport(Protocol):
    """The client's methods that a login uses."""

    def ask(self, connection: Connection, move: Ask | Token, reader: Reader, now: float) -> None:
        """Send a message of the exchange; *reader* takes the response, or is called when the last token is written."""

    def admit(self, connection: Connection, now: float) -> None:
        """Mark the connection as ready for requests."""

    def drop(self, connection: Connection, reason: NetworkError) -> None:
        """Close the connection."""


class Logins:
    """The logins of one producer's connections."""

    def __init__(self, authentication: Authentication, transport: LoginTransport) -> None:
        self._authentication = authentication
        self._transport = transport

    def begin(self, connection: Connection, now: float) -> None:
        """Log in on a connection whose versions are known."""
        broker = connection.broker
        exchange = self._authentication.exchange(
            host=connection.host, port=broker.port, peer=str(broker), versions=connection.versions
        )
        connection.login = LoginState(exchange=exchange)
        self._follow(connection, exchange.begin, now)

    def go_on(self, connections: Iterable[Connection], now: float) -> None:
        """Continue logins whose mechanism has finished computing."""
        for connection in connections:
            while (login := connection.login) is not None and login.thought is not None and not connection.closing:
                outcome = login.thought.outcome
                if outcome is None:
                    break
                login.thought = None
                if isinstance(outcome, NetworkError):
                    self._transport.drop(connection, outcome)
                else:
                    self._follow(connection, partial(login.exchange.computed, outcome), now)

    def abandon(self, connection: Connection) -> None:
        """Cancel the computation of a connection that has ended."""
        if connection.login is not None and connection.login.thought is not None:
            self._authentication.cancel(connection.login.thought)

    def end_of(self, connection: Connection, error: ConnectionFailedError, now: float) -> OttlaError:
        """The error for a connection that the peer closed."""
        mechanism = self._authentication.mechanism
        if connection.login is not None:  # without SaslAuthenticate a broker refuses by closing the connection
            connection.login.exchange.refused(certain=connection.login.exchange.bare)
        match connection.stage:
            case Stage.AUTHENTICATING if connection.login is not None and connection.login.exchange.bare:
                return login_errors.closed_without_answer(mechanism, str(connection.broker), error)
            case Stage.AUTHENTICATING:
                return login_errors.interrupted(mechanism, error)
            case Stage.RENEWING:
                return login_errors.ended_while_renewing(mechanism, str(connection.broker), error)
            case Stage.READY if now >= connection.session_ends_at:
                return login_errors.expired(str(connection.broker), error)
            case _:
                return error

    def close(self) -> None:
        """Close the authentication."""
        self._authentication.close()

    def _follow(self, connection: Connection, next_move: Callable[[], Move], now: float) -> None:
        """Make the exchange's next move; a refusal closes the connection."""
        try:
            self._make(connection, next_move(), now)
        except NetworkError as error:
            self._transport.drop(connection, error)
        except UnsupportedVersionError as cause:
            refusal = AuthenticationError(f"no login at {connection.broker} is possible: {cause}")
            refusal.__cause__ = cause
            self._transport.drop(connection, refusal)

    def _make(self, connection: Connection, move: Move, now: float) -> None:
        login = connection.login
        assert login is not None
        match move:
            case Token(last=True):
                self._transport.ask(connection, move, lambda _nothing, at: self._end(connection, 0.0, at), now)
            case Ask() | Token():
                answered = login.exchange.answered

                def read(body: memoryview, at: float) -> None:
                    self._follow(connection, partial(answered, body), at)

                self._transport.ask(connection, move, read, now)
            case Compute():
                login.thought = self._authentication.compute(move)
            case LoggedIn(session=session):
                self._end(connection, session, now)
            case _:
                assert_never(move)

    def _end(self, connection: Connection, session: float, now: float) -> None:
        connection.login = None
        connection.short_sessions = connection.short_sessions + 1 if 0 < session < SHORT_SESSION else 0
        connection.renew_at = now + self._authentication.renewal_after(session)
        connection.session_ends_at = now + session if session > 0 else float("inf")
        self._transport.admit(connection, now)
