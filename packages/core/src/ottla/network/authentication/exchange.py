"""One login on one connection: which message of the mechanism goes when, and in what it is wrapped.

    SaslHandshake 1 -> SaslAuthenticate, as often as the mechanism wants -> logged in
    SaslHandshake 0 -> bare tokens, for brokers without SaslAuthenticate (before Kafka 1.0)

Sends nothing and reads no clock: each call returns the next move. What the mechanism computes may block, so that is
a move as well, to be made wherever it suits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ottla.errors import AuthenticationError, BrokerError, ErrorCode, NetworkError, OttlaError, error_code
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla.network.authentication import login_errors
from ottla.network.authentication.steps import Ask, Compute, LoggedIn, Move, Token
from ottla.protocol import choose_version
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest

logger = logging.getLogger(__name__)

MAX_TOKEN: Final = 512 * 1024
"""Bytes of one message of a mechanism, either way; what a broker takes by default (`sasl.server.max.receive.size`)."""

MAX_TURNS: Final = 64
"""No mechanism needs more messages; a broker that goes on for ever is no broker."""


class Exchange:
    """The login of one connection. Every method raises AuthenticationError, or what the mechanism cannot do now.

    *peer* is the broker in words; *versions* is what it offers of each request.
    """

    def __init__(
        self, mechanism: Mechanism, *, host: str, port: int, peer: str, versions: Mapping[int, tuple[int, int]]
    ) -> None:
        self._mechanism = mechanism
        self._host = host
        self._port = port
        self._peer = peer
        self._versions = versions
        self._wrapped = SASL_AUTHENTICATE.key in versions
        self._authenticator: Authenticator | None = None
        self._agreed = False  # the broker has accepted the mechanism
        self._satisfied = False  # the mechanism is, and only the broker's word is missing
        self._version = 0  # of SaslAuthenticate
        self._session = 0.0
        self._turns = 0
        self._started = False  # the mechanism's first message is made, and may have been sent
        self.offers: tuple[str, ...] = ()
        """The mechanisms that the broker named in its answer to the handshake."""

    @property
    def bare(self) -> bool:
        """Whether the broker has no words for a refusal, and hangs up instead."""
        return not self._wrapped

    def refused(self, *, certain: bool) -> None:
        """Report to the mechanism that the broker refused its messages, or hung up on them."""
        if not self._started or (refused := getattr(self._authenticator, "refused", None)) is None:
            return
        try:
            refused(certain=certain)
        except Exception as error:  # its words may be secret
            logger.error("the mechanism %s failed to take a refusal: %s", self._mechanism.name, type(error).__name__)

    def begin(self) -> Move:
        """Name the mechanism."""
        if SASL_HANDSHAKE.key not in self._versions:
            raise login_errors.no_login(self._peer)
        version = choose_version(SASL_HANDSHAKE, *self._versions[SASL_HANDSHAKE.key]) if self._wrapped else 0
        body = SASL_HANDSHAKE.request(version).encode(SaslHandshakeRequest(mechanism=self._mechanism.name))
        return Ask(message=SASL_HANDSHAKE, version=version, body=body)

    def answered(self, body: memoryview) -> Move:
        """Take the answer to what was sent last. Raises ProtocolError for one that cannot be read."""
        if not self._agreed:
            return self._agree(body)
        self._turns += 1
        if self._turns > MAX_TURNS:
            raise login_errors.endless(self._mechanism, self._peer, MAX_TURNS)
        data = self._unwrapped(body) if self._wrapped else bytes(self._bounded(body))
        if self._satisfied:
            return LoggedIn(session=self._session)
        return Compute(work=lambda: self._compute(lambda authenticator: authenticator.challenge(data)))

    def computed(self, step: Step) -> Move:
        """Take what the mechanism computed."""
        self._started = True
        if step.reply is None:
            if not step.done:
                raise login_errors.speechless(self._mechanism)
            return LoggedIn(session=self._session)
        if len(step.reply) > MAX_TOKEN:
            raise login_errors.too_long(self._mechanism, f"{len(step.reply)} bytes of ours", MAX_TOKEN)
        self._satisfied = step.done
        if not self._wrapped:
            return Token(message=SASL_AUTHENTICATE, data=step.reply, last=step.done)
        version = choose_version(SASL_AUTHENTICATE, *self._versions[SASL_AUTHENTICATE.key])
        body = SASL_AUTHENTICATE.request(version).encode(SaslAuthenticateRequest(auth_bytes=step.reply))
        self._version = version
        return Ask(message=SASL_AUTHENTICATE, version=version, body=body)

    def _agree(self, body: memoryview) -> Move:
        # The form of the answer is the same in both versions.
        answer = SASL_HANDSHAKE.response(0).decode(body, exact=False)
        self.offers = tuple(answer.mechanisms)
        code = error_code(answer.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise login_errors.not_enabled(self._mechanism, self._peer, self.offers)
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise login_errors.no_login(self._peer)
        if code is not ErrorCode.NONE:
            raise login_errors.refused(self._mechanism, self._peer, str(BrokerError(code)))
        self._agreed = True
        return Compute(work=lambda: self._compute(lambda authenticator: Step(reply=authenticator.start(), done=False)))

    def _unwrapped(self, body: memoryview) -> bytes:
        answer = SASL_AUTHENTICATE.response(self._version).decode(body, exact=False)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            self.refused(certain=True)
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise login_errors.refused(self._mechanism, self._peer, answer.error_message or code.meaning)
        if code is not ErrorCode.NONE:
            raise login_errors.refused(
                self._mechanism, self._peer, str(BrokerError(code, answer.error_message or None))
            )
        self._session = max(answer.session_lifetime_ms, 0) / 1000
        return bytes(self._bounded(answer.auth_bytes))

    def _bounded(self, data: memoryview | bytes) -> memoryview | bytes:
        if len(data) > MAX_TOKEN:
            raise login_errors.too_long(self._mechanism, f"{len(data)} bytes of {self._peer}", MAX_TOKEN)
        return data

    def _compute(self, work: Callable[[Authenticator], Step]) -> Step:
        """Ask the mechanism, which may be anybody's: what it raises that is not ours becomes ours."""
        try:
            if self._authenticator is None:
                self._authenticator = self._mechanism.authenticator(self._host, self._port)
            step = work(self._authenticator)
        except NetworkError:
            raise
        except OttlaError as cause:
            raise AuthenticationError(f"the mechanism {self._mechanism.name} failed: {cause}") from cause
        except BaseException as cause:
            raise login_errors.broken(self._mechanism, cause) from None
        if not _well_formed(step):
            raise login_errors.malformed(self._mechanism)
        return step


def _well_formed(step: object) -> bool:
    return isinstance(step, Step) and (step.reply is None or isinstance(step.reply, bytes | bytearray | memoryview))
