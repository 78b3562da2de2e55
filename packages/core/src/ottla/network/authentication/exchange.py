"""One login on one connection: the order of messages, and their framing.

    SaslHandshake 1 -> SaslAuthenticate, as often as the mechanism wants -> logged in
    SaslHandshake 0 -> bare tokens, for brokers without SaslAuthenticate (before Kafka 1.0)

An exchange does no I/O and reads no clock: each call returns the next step. A computation of the mechanism may block,
so it is a step as well; the caller chooses its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.errors import AuthenticationError, BrokerError, ErrorCode, NetworkError, OttlaError, error_code
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import Authenticator, Mechanism, Step, SupportsRefused, supports
from ottla.network.authentication import login_errors
from ottla.network.authentication.steps import Ask, Compute, LoggedIn, LoginStep, Token
from ottla.protocol import choose_version
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest

logger = robust_logger(__name__)

T = TypeVar("T")

MAX_TOKEN: Final = 512 * 1024
"""Maximum bytes of a mechanism's message in either direction; a broker's default (`sasl.server.max.receive.size`)."""

MAX_TURNS: Final = 64
"""Maximum number of messages. No mechanism needs more; the limit ends a login with a broker that never finishes."""


class Exchange:
    """The login on one connection. Every method raises AuthenticationError, or the mechanism's temporary NetworkError.

    *peer* names the broker in errors; *versions* are the request versions that it offers. *session_user* is the user of
    the session that this login renews. Kafka refuses another user, so that is a ConnectionRetiredError, before the
    mechanism's first message is sent. With *announced*, the mechanism learns of the login before its first computation,
    on the thread that calls `answered`.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        host: str,
        port: int,
        peer: str,
        versions: Mapping[int, tuple[int, int]],
        session_user: str | None = None,
        announced: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._host = host
        self._port = port
        self._peer = peer
        self._versions = versions
        self._session_user = session_user
        self._announced = announced
        self._wrapped = SASL_AUTHENTICATE.key in versions
        self._authenticator: Authenticator | None = None
        self._agreed = False  # the broker has accepted the mechanism
        self._mechanism_done = False  # the mechanism has finished; only the broker's response is missing
        self._version = 0  # of SaslAuthenticate
        self._session = 0.0
        self._turns = 0
        self._started = False  # the mechanism's first message exists, and may have been sent
        self.user: str | None = None
        """The user of the first message, if the mechanism names it."""
        self.offers: tuple[str, ...] = ()
        """The mechanisms that the broker listed in its SaslHandshake response."""

    @property
    def bare(self) -> bool:
        """Return whether the tokens have no header, so that a broker can refuse them only by closing the connection."""
        return not self._wrapped

    @property
    def keeps_credentials(self) -> bool:
        """Return whether the mechanism keeps credentials for later logins, unless they are refused."""
        return supports(self._authenticator, SupportsRefused)

    def refused(self, *, certain: bool) -> None:
        """Report to the mechanism that the broker refused its messages, or closed the connection after them."""
        if not self._started:
            return
        try:
            if supports(self._authenticator, SupportsRefused):
                self._authenticator.refused(certain=certain)
        except faults() as error:  # its message may have secrets
            logger.error("refused() of the mechanism %s raised %s", self._mechanism.name, type(error).__name__)

    def begin(self) -> LoginStep:
        """Start with a SaslHandshake request."""
        if SASL_HANDSHAKE.key not in self._versions:
            raise login_errors.no_login(self._peer)
        version = choose_version(SASL_HANDSHAKE, *self._versions[SASL_HANDSHAKE.key]) if self._wrapped else 0
        body = SASL_HANDSHAKE.request(version).encode(SaslHandshakeRequest(mechanism=self._mechanism.name))
        return Ask(message=SASL_HANDSHAKE, version=version, body=body)

    def answered(self, body: memoryview) -> LoginStep:
        """Handle the response to the last request. Raises ProtocolError if it cannot be parsed."""
        if not self._agreed:
            return self._agree(body)
        self._turns += 1
        if self._turns > MAX_TURNS:
            raise login_errors.too_many_messages(self._mechanism, self._peer, MAX_TURNS)
        data = self._unwrapped(body) if self._wrapped else bytes(self._bounded(body))
        if self._mechanism_done:
            return LoggedIn(session=self._session)
        return Compute(work=lambda: self._compute(lambda authenticator: authenticator.challenge(data)))

    def computed(self, step: Step) -> LoginStep:
        """Handle the result of the mechanism."""
        if self._session_user is not None and self.user is not None and self._session_user != self.user:
            raise login_errors.another_user(self._peer, self._session_user, self.user)
        self._started = True
        if step.reply is None:
            if not step.done:
                raise login_errors.deadlocked(self._mechanism)
            return LoggedIn(session=self._session)
        if len(step.reply) > MAX_TOKEN:
            raise login_errors.too_long(self._mechanism, f"{len(step.reply)} bytes from the client", MAX_TOKEN)
        self._mechanism_done = step.done
        if not self._wrapped:
            return Token(message=SASL_AUTHENTICATE, data=step.reply, last=step.done)
        version = choose_version(SASL_AUTHENTICATE, *self._versions[SASL_AUTHENTICATE.key])
        body = SASL_AUTHENTICATE.request(version).encode(SaslAuthenticateRequest(auth_bytes=step.reply))
        self._version = version
        return Ask(message=SASL_AUTHENTICATE, version=version, body=body)

    def _agree(self, body: memoryview) -> LoginStep:
        # The response has the same format in both versions.
        response = SASL_HANDSHAKE.response(0).decode(body, exact=False)
        self.offers = tuple(response.mechanisms)
        code = error_code(response.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise login_errors.not_enabled(self._mechanism, self._peer, self.offers)
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise login_errors.no_login(self._peer)
        if code is not ErrorCode.NONE:
            raise login_errors.refused(self._mechanism, self._peer, str(BrokerError(code)))
        self._agreed = True
        if self._announced:
            self._call(self._make_authenticator)
        return Compute(work=lambda: self._compute(self._first), first=True)

    def _first(self, authenticator: Authenticator) -> Step:
        step = Step(reply=authenticator.start(), done=False)
        self.user = login_errors.user_of(self._mechanism)  # at once: the next login may be another user's
        return step

    def _unwrapped(self, body: memoryview) -> bytes:
        response = SASL_AUTHENTICATE.response(self._version).decode(body, exact=False)
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            self.refused(certain=True)
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise login_errors.refused(self._mechanism, self._peer, response.error_message or code.meaning)
        if code is not ErrorCode.NONE:
            raise login_errors.refused(
                self._mechanism, self._peer, str(BrokerError(code, response.error_message or None))
            )
        self._session = max(response.session_lifetime_ms, 0) / 1000
        return bytes(self._bounded(response.auth_bytes))

    def _bounded(self, data: memoryview | bytes) -> memoryview | bytes:
        if len(data) > MAX_TOKEN:
            raise login_errors.too_long(self._mechanism, f"{len(data)} bytes from {self._peer}", MAX_TOKEN)
        return data

    def _compute(self, work: Callable[[Authenticator], Step]) -> Step:
        step = self._call(lambda: work(self._authenticator or self._make_authenticator()))
        if not _well_formed(step):
            raise login_errors.malformed(self._mechanism)
        return step

    def _make_authenticator(self) -> Authenticator:
        self._authenticator = self._mechanism.authenticator(self._host, self._port)
        return self._authenticator

    def _call(self, work: Callable[[], T]) -> T:
        """Call the mechanism, which may be third-party code; convert its exceptions to errors of Ottla."""
        try:
            return work()
        except NetworkError:
            raise
        except OttlaError as cause:
            raise AuthenticationError(f"the mechanism {self._mechanism.name} failed: {cause}") from cause
        except BaseException as cause:
            raise login_errors.broken(self._mechanism, cause) from None


def _well_formed(step: object) -> bool:
    return isinstance(step, Step) and (step.reply is None or isinstance(step.reply, bytes | bytearray | memoryview))
