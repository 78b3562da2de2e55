"""The login of a simulated broker: PLAIN with a list of users, sessions that end, and scripted behaviour.

Like Kafka, it accepts ApiVersions and SaslHandshake from all clients, and everything else only after a login; it closes
the connection after an unexpected request. Unlike Kafka, it renews a session while responses are still pending.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import API_VERSIONS
from ottla.protocol.messages.sasl_authenticate import (
    SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse

Verify = Callable[["Session", bytes], SaslAuthenticateResponse | None]

REFUSED: Final = SaslAuthenticateResponse(
    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed: Invalid username or password"
)


class HangUpError(Exception):
    """The broker closes the connection."""


@attrs.define(kw_only=True)
class Session:
    """One connection's login."""

    mechanism: str | None = None
    wrapped: bool = True
    user: str | None = None
    ends_at: float = float("inf")
    logins: int = 0


@attrs.define(kw_only=True, slots=False)
class SimulatedLogin:
    """A broker's login. `verify` returns the response to a mechanism's message, or None for no response."""

    users: Mapping[str, str] = attrs.field(factory=dict)
    mechanisms: list[str] = attrs.field(factory=lambda: ["X-PLAIN"])
    lifetime: float = 0.0
    handshake_code: ErrorCode = ErrorCode.NONE
    verify: Verify | None = None
    silent: bool = False
    refusing: bool = False
    """Whether it refuses every user."""
    logins: int = 0
    asked: list[tuple[str, int]] = attrs.field(factory=list)

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the API versions that a broker supports only if it has a login."""
        return {SASL_HANDSHAKE.key: (0, 1), SASL_AUTHENTICATE.key: (0, 2)}

    def answer(self, session: Session, frame: bytes, now: float) -> bytes | None:
        """Return the response to a frame of a login, or None if the broker stays silent.

        Raises HangUpError if the broker closes the connection instead.
        """
        if _expects_token(session):
            self.asked.append(("token", 0))
            return self._bare(session, frame)
        api_key, version, correlation_id, client_size = struct.unpack_from(">hhih", frame)
        prefix: bytes = correlation_id.to_bytes(4, "big")
        body = frame[10 + client_size :]
        if api_key == SASL_HANDSHAKE.key:
            self.asked.append(("SaslHandshake", version))
            return None if self.silent else prefix + self._handshake(session, version, body)
        self.asked.append(("SaslAuthenticate", version))
        return self._authenticate(session, version, prefix, body, now)

    def belongs(self, session: Session, frame: bytes, now: float) -> bool:
        """Return whether a frame is for the login. Raises HangUpError for an unexpected one."""
        [api_key] = struct.unpack_from(">h", frame)
        if _expects_token(session):
            return True
        if api_key in (SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key):
            return True
        if api_key != API_VERSIONS.key and (session.user is None or now >= session.ends_at):
            raise HangUpError("the client has not logged in, or its session has ended")
        return False

    def _handshake(self, session: Session, version: int, body: bytes) -> bytes:
        request = SASL_HANDSHAKE.request(version).decode(body)
        assert isinstance(request, SaslHandshakeRequest)
        code = self.handshake_code
        if code is ErrorCode.NONE and request.mechanism not in self.mechanisms:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if code is ErrorCode.NONE:
            session.mechanism, session.wrapped = request.mechanism, version > 0
        answer = SaslHandshakeResponse(error_code=code, mechanisms=list(self.mechanisms))
        encoded: bytes = SASL_HANDSHAKE.response(version).encode(answer)
        return encoded

    def _authenticate(self, session: Session, version: int, prefix: bytes, body: bytes, now: float) -> bytes | None:
        flexible = SASL_AUTHENTICATE.flexible(version)
        request = SASL_AUTHENTICATE.request(version).decode(body[flexible:])
        assert isinstance(request, SaslAuthenticateRequest)
        response = self._check_token(session, bytes(request.auth_bytes))
        if response is None:
            return None
        if session.user is not None and response.error_code == ErrorCode.NONE and version > 0:
            session.ends_at = now + self.lifetime if self.lifetime else float("inf")
            response = attrs.evolve(response, session_lifetime_ms=round(self.lifetime * 1000))
        encoded: bytes = SASL_AUTHENTICATE.response(version).encode(response)
        return prefix + bytes(flexible) + encoded

    def _bare(self, session: Session, frame: bytes) -> bytes | None:
        response = self._check_token(session, frame)
        if response is None:
            return None
        if response.error_code != ErrorCode.NONE:
            raise HangUpError("a broker without SaslAuthenticate refuses a login by closing the connection")
        return bytes(response.auth_bytes)

    def _check_token(self, session: Session, token: bytes) -> SaslAuthenticateResponse | None:
        if self.silent:
            return None
        response = (self.verify or self._plain)(session, token)
        if response is not None and response.error_code == ErrorCode.NONE and session.user is not None:
            session.logins += 1
            self.logins += 1
        return response

    def _plain(self, session: Session, token: bytes) -> SaslAuthenticateResponse:
        _authzid, user, password = token.decode().split("\0")
        if self.refusing or self.users.get(user) != password:
            return REFUSED
        if session.user not in (None, user):
            message = f"Cannot change principals during re-authentication from {session.user} to {user}"
            return attrs.evolve(REFUSED, error_message=message)
        session.user = user
        return SaslAuthenticateResponse()


def _expects_token(session: Session) -> bool:
    return session.mechanism is not None and not session.wrapped and session.user is None
