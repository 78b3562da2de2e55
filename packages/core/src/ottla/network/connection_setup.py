"""The setup of one connection: ApiVersions, then the login, and later logins that renew its session. It does no I/O.

    begin -> Ask -> response -> NodeApiVersions -> log_in -> (Ask, Token or a computation, repeated) -> LoggedIn

Each method returns the next step. The caller sends the messages and passes their responses to `response`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from ottla.errors import AuthenticationError, ConnectionFailedError, NetworkError, OttlaError, UnsupportedVersionError
from ottla.network.api_versions import NodeApiVersions, api_versions_request, read_api_versions
from ottla.network.authentication import (
    Ask,
    Authentication,
    Computation,
    Compute,
    LoggedIn,
    LoginStep,
    Token,
    login_errors,
)
from ottla.network.connection_stage import Stage
from ottla.protocol import API_VERSIONS

if TYPE_CHECKING:
    from ottla.network.authentication.exchange import Exchange

SetupStep: TypeAlias = Ask | Token | NodeApiVersions | LoggedIn | None
"""The next step: a message to send, the broker's versions, the end of the setup, or None to wait."""


class ConnectionSetup:
    """The setup of one opened connection, from ApiVersions until it is ready. *peer* names the broker in errors.

    Every method that returns a step raises a NetworkError to end the connection, and `response` raises ProtocolError
    for a response that cannot be parsed.
    """

    def __init__(self, authentication: Authentication | None, *, host: str, port: int, peer: str) -> None:
        self._authentication = authentication
        self._host = host
        self._port = port
        self.peer = peer  # changes with the broker of the connection
        self._asked_version = API_VERSIONS.max_version
        self._exchange: Exchange | None = None
        self._accepted: Exchange | None = None  # of the last login
        self._user: str | None = None  # of the session, if the mechanism names it
        self._computation: Computation | None = None

    @property
    def logs_in(self) -> bool:
        """Return whether the setup includes a login."""
        return self._authentication is not None

    @property
    def waits_for(self) -> str:
        """Return what the setup waits for on our side, for error messages; empty if it waits for the broker."""
        if self._computation is None or self._authentication is None:
            return ""
        return login_errors.slow(self._authentication.mechanism, begun=self._computation.begun)

    @property
    def computed(self) -> bool:
        """Return whether our own mechanism has finished its computation."""
        return self._computation is not None and self._computation.outcome is not None

    def begin(self) -> SetupStep:
        """Request the API versions; call it again if the response names another version for the request."""
        body = api_versions_request().body(self._asked_version)[0]
        return Ask(message=API_VERSIONS, version=self._asked_version, body=bytes(body))

    def response(self, body: memoryview) -> SetupStep:
        """Handle the response to the last message."""
        if self._exchange is not None:
            return self._follow(partial(self._exchange.answered, body))
        api_versions = read_api_versions(self._asked_version, body)
        if api_versions.ask_again_with is not None:
            self._asked_version = api_versions.ask_again_with
        return api_versions

    def log_in(self, versions: Mapping[int, tuple[int, int]]) -> SetupStep:
        """Start a login at a broker that offers these versions, or renew the session; without logins the setup ends."""
        if self._authentication is None:
            return LoggedIn()
        self._exchange = self._authentication.exchange(
            host=self._host, port=self._port, peer=self.peer, versions=versions, session_user=self._user
        )
        return self._follow(self._exchange.begin)

    def written(self) -> SetupStep:
        """Note that a message without a response is written: it is the last one of a login."""
        self._end_login()
        return LoggedIn()

    def resume(self) -> SetupStep:
        """Continue with the result of our own mechanism."""
        computation, self._computation = self._computation, None
        assert computation is not None
        assert computation.outcome is not None
        assert self._exchange is not None, "only a login computes"
        if isinstance(computation.outcome, NetworkError):
            raise computation.outcome
        return self._follow(partial(self._exchange.computed, computation.outcome))

    def abandon(self) -> None:
        """Cancel the computation, because the connection has ended."""
        if self._computation is not None and self._authentication is not None:
            self._authentication.cancel(self._computation)

    def end_error(
        self, stage: Stage, error: ConnectionFailedError, *, expired: bool, unanswered: bool, again: bool
    ) -> OttlaError:
        """The error for a connection that the peer closed. *expired*: its session had expired.

        *unanswered*: it has not answered a request since the login. *again*: it closed the connection before soon, too.
        """
        if self._authentication is None:
            return error
        mechanism = self._authentication.mechanism
        bare = self._exchange is not None and self._exchange.bare
        if self._exchange is not None:
            self._exchange.refused(certain=bare)  # without SaslAuthenticate a broker refuses by closing the connection
        match stage:
            case Stage.AUTHENTICATING if bare:
                return login_errors.closed_without_answer(mechanism, self.peer, error)
            case Stage.AUTHENTICATING:
                return login_errors.interrupted(mechanism, error)
            case Stage.RENEWING:
                return login_errors.ended_while_renewing(mechanism, self.peer, error)
            case Stage.READY if expired:
                return login_errors.expired(self.peer, error)
            case Stage.READY if unanswered and self._accepted is not None and self._accepted.keeps_credentials:
                # Kafka accepts a token for clock.skew.seconds after its expiry, and closes the connection at the first
                # request, because the session has ended. A broker that stops does that once.
                self._accepted.refused(certain=again)
                return login_errors.closed_after_login(mechanism, error)
            case _:
                return error

    def _follow(self, next_move: Callable[[], LoginStep]) -> SetupStep:
        try:
            move = next_move()
        except UnsupportedVersionError as cause:
            raise AuthenticationError(f"no login at {self.peer} is possible: {cause}") from cause
        match move:
            case Ask() | Token():
                return move
            case Compute():
                assert self._authentication is not None
                self._computation = self._authentication.compute(move)
                return None
            case LoggedIn():
                self._end_login()
                return move
            case _:
                assert_never(move)

    def _end_login(self) -> None:
        assert self._exchange is not None, "there is one as long as there is a login"
        self._user, self._accepted, self._exchange = self._exchange.user, self._exchange, None
