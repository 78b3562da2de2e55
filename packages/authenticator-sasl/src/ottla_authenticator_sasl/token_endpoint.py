"""Tokens from an identity server: OAuth's client credentials grant (RFC 6749 section 4.4) over HTTP.

One request per fetch and attempt, without redirects and proxies; answers are bounded in time and size. Errors carry the
server's own words and never the secret, even if the server repeats it.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from ottla.errors import AuthenticationFailed, ConnectionFailed, SecurityRefused, TlsFailed
from ottla_authenticator_sasl.bearer_token import ClaimNames, Token, token_of
from ottla_authenticator_sasl.quoting import quoted
from ottla_authenticator_sasl.token_keeper import Retry

_log = logging.getLogger(__name__)

MAX_ANSWER: Final = 1024 * 1024
PATIENCE: Final = 5.0
"""Seconds of trying again: a login should tell why it fails before the time for a connection (10 s) is over."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_CHUNK: Final = 64 * 1024
_WORTH_RETRYING: Final = frozenset({408, 425, 429})


@attrs.frozen(kw_only=True)
class Address:
    """Where the token endpoint is; `target` is path and query."""

    secure: bool
    host: str
    port: int | None
    target: str

    @classmethod
    def read(cls, url: str) -> Address:
        """From an http or https URL. ValueError does not quote it: some write secrets into URLs."""
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("its host or port cannot be read") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it must be https://host/path, http://host/path or file:///path")
        if parts.username is not None or parts.fragment:
            raise ValueError("it must have neither a user nor a fragment (#) in it")
        if not url.isascii() or any(letter <= " " for letter in url):
            raise ValueError("it must be ASCII without blanks; write other characters as %XX")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure=parts.scheme == "https", host=parts.hostname, port=port, target=target)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port is not None else ""
        return f"{'https' if self.secure else 'http'}://{host}{port}{self.target.partition('?')[0]}"


@attrs.frozen(kw_only=True)
class ClientCredentials:
    """Who asks. `urlencoded`: names are encoded once more before base64, as RFC 6749 says and most servers do not."""

    client_id: str
    secret: str = attrs.field(repr=False)
    scope: str | None = None
    urlencoded: bool = False

    def headers(self) -> Mapping[str, str]:
        """What goes above the body."""
        client_id, secret = self.client_id, self.secret
        if self.urlencoded:
            client_id, secret = urllib.parse.quote_plus(client_id), urllib.parse.quote_plus(secret)
        return {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def body(self) -> str:
        """The form."""
        scope = {"scope": self.scope} if self.scope else {}
        return urllib.parse.urlencode({"grant_type": "client_credentials"} | scope)


class TokenEndpoint:
    """Fetches tokens. What may pass is tried again with growing waits, for as long as the longest of them may be.

    AuthenticationFailed: the server refused us, or its answer is no token. ConnectionFailed: it could not be asked.
    """

    def __init__(
        self,
        address: Address,
        credentials: ClientCredentials,
        *,
        names: ClaimNames,
        connect_timeout: float,
        read_timeout: float,
        retry: Retry,
        closing: threading.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._names = names
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self.source = f"the token endpoint {address}"
        if not address.secure and address.host not in LOOPBACK:
            _log.warning("%s receives the client's secret without encryption; use https", self.source)

    def fetch(self) -> Token:
        """A new token."""
        deadline = time.monotonic() + min(PATIENCE, self._retry.longest)
        failures = 0
        while True:
            try:
                return self._attempt()
            except SecurityRefused:
                raise
            except ConnectionFailed as error:
                failures += 1
                wait = self._retry.wait(failures)
                if time.monotonic() + wait > deadline:
                    raise
                _log.debug("tried again in %.1f s: %s", wait, error)
            if self._closing.wait(wait):
                raise ConnectionFailed(f"the producer was closed while {self.source} was asked for a token")

    def _attempt(self) -> Token:
        asked_at = self._clock()
        try:
            status, location, body = self._ask()
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError) as error:
            raise self._not_asked(error) from error
        except ssl.SSLError as error:
            raise TlsFailed(
                f"{self.source} cannot be trusted: {quoted(str(error))}; it must speak TLS, with a certificate that "
                "the system's trust store (or the file that SSL_CERT_FILE names) vouches for"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._not_asked(error) from error
        return self._judged(status, location, body, asked_at)

    def _not_asked(self, error: Exception) -> ConnectionFailed:
        words = self._quoted(str(error) or type(error).__name__)
        return ConnectionFailed(f"{self.source} cannot be asked for a token: {words}")

    def _ask(self) -> tuple[int, str, bytes]:
        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout(self._read_timeout)
            headers = dict(self._credentials.headers())
            connection.request("POST", self._address.target, body=self._credentials.body(), headers=headers)
            with connection.getresponse() as response:  # it outlives the connection unless it is closed, too
                return response.status, response.headers.get("Location", ""), self._body(response)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        address, timeout = self._address, self._connect_timeout
        if not address.secure:
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=context)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        deadline = time.monotonic() + self._read_timeout
        body = bytearray()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > MAX_ANSWER:
                raise AuthenticationFailed(f"{self.source} answers with more than {MAX_ANSWER} bytes; is it one?")
            if time.monotonic() > deadline:
                raise TimeoutError("its answer took too long")
        return bytes(body)

    def _judged(self, status: int, location: str, body: bytes, asked_at: float) -> Token:
        if 300 <= status < 400:
            raise AuthenticationFailed(
                f"{self.source} redirects us to {self._quoted(location)} ({status}), and secrets are not sent after "
                "it; write the right address into sasl.oauthbearer.token.endpoint.url"
            )
        answer = _parsed(body)
        if status != 200:
            words = f"{self.source} answered {status}: {self._explained(answer, body)}"
            if status >= 500 or status in _WORTH_RETRYING:
                raise ConnectionFailed(words)
            raise AuthenticationFailed(f"{words}; check the client's id, secret and scope (sasl.oauthbearer.*)")
        return self._token(answer, asked_at)

    def _token(self, answer: Mapping[str, Any], asked_at: float) -> Token:
        given = answer.get("access_token") or answer.get("id_token")
        if not isinstance(given, str):
            raise AuthenticationFailed(f"{self.source} answered without an access_token; is it a token endpoint?")
        token = token_of(given, names=self._names, source=self.source)
        lifetime = _seconds(answer.get("expires_in"))
        if lifetime is None:
            return token
        ends = (asked_at + lifetime) * 1000
        known = ends if token.expires_at_ms is None else min(ends, token.expires_at_ms)
        return attrs.evolve(token, expires_at_ms=known)

    def _explained(self, answer: Mapping[str, Any], body: bytes) -> str:
        said = [answer[key] for key in ("error", "error_description") if isinstance(answer.get(key), str)]
        return ": ".join(self._quoted(word) for word in said) or self._quoted(body)

    def _quoted(self, words: str | bytes) -> str:
        secret = self._credentials.secret
        encoded = self._credentials.headers()["Authorization"].partition(" ")[2]
        return quoted(words, secrets=(secret, urllib.parse.quote_plus(secret), encoded))


def _parsed(body: bytes) -> Mapping[str, Any]:
    """The answer as an object; an empty one if it is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _seconds(value: object) -> float | None:
    """A lifetime; some servers write it as a string."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None
