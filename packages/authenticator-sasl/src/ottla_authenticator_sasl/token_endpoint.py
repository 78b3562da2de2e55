"""Tokens from an identity server: a grant of OAuth (RFC 6749) over HTTP.

A fetch makes one request, without redirects, or repeats it if it fails; all attempts share one deadline. Error messages
quote only the status and error code of a response (RFC 6749 section 5.2), because the author of the configuration may
point the URL at a server whose responses they must not read.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import re
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

import attrs

from ottla.errors import (
    AuthenticationError,
    ConnectionFailedError,
    OttlaError,
    SecurityError,
    TlsHandshakeError,
    printable,
    without_frames,
)
from ottla.interfaces import Secret
from ottla_authenticator_sasl.bearer_token import ClaimNames, Token, token_of
from ottla_authenticator_sasl.deadline import Deadline
from ottla_authenticator_sasl.deadline_http import (
    MAX_ANSWER,
    MAX_INTERIM,
    Answer,
    HttpResponseTooLargeError,
    Limits,
    TooManyInterimResponsesError,
    post,
)
from ottla_authenticator_sasl.host_names import HostNames
from ottla_authenticator_sasl.token_cache import Retry
from ottla_authenticator_sasl.web_address import Address

_log = logging.getLogger(__name__)

RETRY_TIME: Final = 5.0
"""Seconds for retries: a login should fail with its cause before the connection times out (10 s)."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_ERROR_CODE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,64}")
"""The characters of an error code (RFC 6749 section 5.2) except the space; every registered code matches."""

_RETRIABLE_STATUS: Final = frozenset({408, 425, 429})


def _hidden(secret: str | Secret[str]) -> Secret[str]:
    return secret if isinstance(secret, Secret) else Secret(secret)


@attrs.frozen(kw_only=True)
class ClientCredentials:
    """The client's credentials. `urlencoded`: URL-encode id and secret, as RFC 6749 says; most servers do not."""

    client_id: str
    secret: Secret[str] = attrs.field(converter=_hidden)
    scope: str | None = None
    urlencoded: bool = False

    def headers(self) -> Mapping[str, str]:
        """Return the request's headers."""
        return {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(self._pair().encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def body(self) -> str:
        """Return the request body, form-encoded."""
        scope = {"scope": self.scope} if self.scope else {}
        return urllib.parse.urlencode({"grant_type": "client_credentials"} | scope)

    def secrets(self) -> Collection[str]:
        """Return the secret, as configured and as sent."""
        return (self.secret.reveal(), self.headers()["Authorization"].partition(" ")[2])

    def _pair(self) -> str:
        if self.urlencoded:
            return f"{urllib.parse.quote_plus(self.client_id)}:{urllib.parse.quote_plus(self.secret.reveal())}"
        return f"{self.client_id}:{self.secret.reveal()}"


class Grant(Protocol):
    """The grant of a request. Its methods are called once for each request."""

    def headers(self) -> Mapping[str, str]:
        """Return the request's headers."""

    def body(self) -> str:
        """Return the request body, form-encoded. Raises AuthenticationError."""

    def secrets(self) -> Collection[str]:
        """Return the secrets that an error message must not contain."""


@attrs.frozen(kw_only=True)
class EndpointKeys:
    """The configuration keys of the server's URL, the client and the trusted authorities, for error messages."""

    url: str = "sasl.oauthbearer.token.endpoint.url"
    client: str = "sasl.oauthbearer.*"
    trust: str = "https.ca.location"


class TokenEndpoint:
    """Fetch tokens. Transient errors are retried with growing waits, in total for no longer than the maximum wait.

    AuthenticationError: the server refused, or its response contains no token. ConnectionFailedError: it could not be
    reached.
    """

    def __init__(
        self,
        address: Address,
        credentials: Grant,
        *,
        names: ClaimNames,
        connect_timeout: float,
        read_timeout: float,
        retry: Retry,
        closing: threading.Event,
        clock: Callable[[], float] = time.time,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        keys: EndpointKeys | None = None,
    ) -> None:
        self._address = address
        self._grant = credentials
        self._names = names
        self._limits = Limits(connect=connect_timeout, answer=read_timeout)
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self._context = context
        self._keys = keys or EndpointKeys()
        self._host_names = HostNames(limit=connect_timeout)
        self.source = f"the token endpoint {address}"
        if not address.secure and address.host not in LOOPBACK:
            _log.warning("%s receives the client's secret without encryption; use https", self.source)

    @property
    def limit(self) -> float:
        """The maximum seconds of a fetch, all attempts together."""
        return self._limits.whole

    def fetch(self) -> Token:
        """Return a new token."""
        deadline = Deadline(self.limit)
        last_try = time.monotonic() + min(RETRY_TIME, self._retry.longest)
        failures = 0
        while True:
            try:
                return self._attempt(deadline)
            except SecurityError:
                raise
            except ConnectionFailedError as error:
                failures += 1
                wait = self._retry.wait(failures)
                if time.monotonic() + wait > last_try:
                    raise
                _log.debug("the request for a token is tried again in %.1f s: %s", wait, error)
            if self._closing.wait(wait):
                raise ConnectionFailedError(f"the producer was closed before {self.source} returned a token")

    def _attempt(self, deadline: Deadline) -> Token:
        asked_at = self._clock()
        try:
            answer = self._ask(deadline)
        except (
            OSError,
            UnicodeError,
            http.client.HTTPException,
            HttpResponseTooLargeError,
            TooManyInterimResponsesError,
        ) as error:
            refusal: OttlaError = self._refusal(without_frames(error))  # the frames of the request hold the secret
        except OttlaError as error:  # of the trust store, or of the look-up of the host name
            refusal = without_frames(error)
        else:
            return self._token_from(answer, asked_at)
        raise refusal  # outside the except block, so it has no context

    def _refusal(self, error: Exception) -> ConnectionFailedError:
        refusal: ConnectionFailedError
        match error:
            case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
                refusal = self._not_asked("the server closed the connection without ending TLS")
            case ssl.SSLError():
                refusal = TlsHandshakeError(
                    f"the TLS handshake with {self.source} failed: {printable(str(error))}; it must use TLS, and the "
                    f"authority of its certificate must be in {self._keys.trust}, or without that in SSL_CERT_FILE or "
                    "the system's trust store"
                )
            case HttpResponseTooLargeError():
                return AuthenticationError(
                    f"the response of {self.source} has more than {MAX_ANSWER} bytes; is it a token endpoint?"
                )
            case TooManyInterimResponsesError():
                return self._not_asked(f"it sent more than {MAX_INTERIM} interim responses (1xx) before a final one")
            case http.client.RemoteDisconnected():
                refusal = self._not_asked("it closed the connection without a response")
            case http.client.HTTPException():  # its message quotes the response
                return self._not_asked(f"its response is not HTTP ({type(error).__name__})")
            case _:
                refusal = self._not_asked(printable(str(error) or type(error).__name__))
        refusal.__cause__ = error
        return refusal

    def _ask(self, deadline: Deadline) -> Answer:
        return post(
            self._address,
            headers=self._grant.headers(),
            body=self._grant.body(),
            limits=self._limits,
            deadline=deadline,
            context=self._context,
            names=self._host_names,
        )

    def _not_asked(self, why: str) -> ConnectionFailedError:
        return ConnectionFailedError(f"no token could be fetched from {self.source}: {why}")

    def _token_from(self, answer: Answer, asked_at: float) -> Token:
        if 300 <= answer.status < 400:
            raise AuthenticationError(
                f"{self.source} responded with a redirect ({answer.status}), which is not followed, because the "
                f"request has secrets; set {self._keys.url} to the final address"
            )
        fields = _parsed(answer.body)
        if answer.status != 200:
            words = f"{self.source} responded with status {answer.status}{self._error_code(fields)}"
            if answer.status >= 500 or answer.status in _RETRIABLE_STATUS:
                raise ConnectionFailedError(words)
            raise AuthenticationError(
                f"{words}; check the client's id, secret and scope ({self._keys.client}), and the server's log"
            )
        return self._token(fields, asked_at)

    def _token(self, answer: Mapping[str, Any], asked_at: float) -> Token:
        given = answer.get("access_token") or answer.get("id_token")
        if not isinstance(given, str):
            raise AuthenticationError(f"the response of {self.source} has no access_token; is it a token endpoint?")
        token = token_of(given, names=self._names, source=self.source)
        lifetime = _seconds(answer.get("expires_in"))
        if lifetime is None:
            return token
        ends = (asked_at + lifetime) * 1000
        known = ends if token.expires_at_ms is None else min(ends, token.expires_at_ms)
        return attrs.evolve(token, expires_at_ms=known)

    def _error_code(self, answer: Mapping[str, Any]) -> str:
        code = answer.get("error")
        if not isinstance(code, str) or not _ERROR_CODE.fullmatch(code):
            return ""
        return f", error {printable(code, secrets=self._grant.secrets())}"


def _parsed(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in the response; an empty one if it is not a JSON object."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _seconds(value: object) -> float | None:
    """Return a lifetime in seconds, or None if it is invalid; some servers send it as a string."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None
