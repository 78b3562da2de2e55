"""One token for all connections of a producer, renewed in the background before it expires.

While a token is valid, no login waits for the next one. A login waits for a limited time. A fetch that takes too long
is abandoned, and the logins that still wait begin another one (see `single_flight`). `token_fetch_limit` limits how
soon the source is called again, whatever the lifetimes of its tokens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import Context
from random import SystemRandom
from typing import Final

import attrs

from ottla.concurrency.single_flight import SingleFlight
from ottla.errors import AuthenticationError, ConnectionFailedError, counted, printable
from ottla_authenticator_sasl.bearer_token import Token, expired
from ottla_authenticator_sasl.token_fetch_limit import FetchLimit, Pauses, doubled
from ottla_authenticator_sasl.token_refresh_time import RefreshWindow

_log = logging.getLogger(__name__)

_chance = SystemRandom()

LOGIN_WAIT: Final = 7.0
"""Seconds that a login waits: it should fail with its cause before the connection times out (10 s)."""

LIMIT: Final = 10.0
"""Maximum seconds of a fetch. A login that needs a token later starts another fetch."""

_LONGEST_WAIT: Final = 30.0
"""Maximum seconds between checks of the wall clock, because it may be set, and machines sleep."""


@attrs.frozen(kw_only=True)
class Retry:
    """Waits that double from `first` to `longest` seconds."""

    first: float = 0.1
    longest: float = 10.0

    def wait(self, failures: int) -> float:
        """Return the wait after this number of consecutive failures."""
        return doubled(self.first, self.longest, failures)


class TokenCache:
    """Fetch a token when one is needed and none is valid, and before each expiry until `close`.

    `_state` guards the token and its renewal; no thread holds it during a fetch.
    """

    def __init__(
        self,
        fetch: Callable[[], Token],
        *,
        source: str,
        window: RefreshWindow,
        retry: Retry,
        closing: threading.Event,
        clock: Callable[[], float] = time.time,
        timeout: float = LOGIN_WAIT,
        limit: float = LIMIT,
        fetch_limit: FetchLimit | None = None,
    ) -> None:
        self._fetch = fetch
        self._source = source
        self._window = window
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self._timeout = timeout
        self._limit = limit
        self._fetch_limit = fetch_limit or FetchLimit(Pauses())
        self._flights = SingleFlight(
            self._fetched, name="ottla-token-fetch", source=source, limit=limit, time_out=f"{timeout:g} s"
        )
        self._state = threading.Lock()
        self._begun = 0
        self._kept = 0
        self._token: Token | None = None
        self._refused = False  # whether a broker refused the newest token
        self._warned_of_refused = False
        self._warned_of_thread = False  # that it could not be started
        self._due: float | None = None
        self._useless = ""  # the error of the newest fetch, if its token had expired already
        self._lifetime = 0.0  # of the newest token, in seconds
        self._thread: threading.Thread | None = None

    def token(self) -> Token:
        """Return a valid token. Waits for the source if there is none, and raises its errors.

        ConnectionFailedError: the source does not return in time, or must not be called again yet.
        """
        try:
            return self._valid()
        except Exception as error:
            refused = self._unexpired()
            if refused is None or self._closing.is_set():
                raise
            self._warn_of_refused(error)
            return refused

    def forget(self, token: Token, *, certain: bool = True) -> None:
        """Report a refused token: a login gets another one as soon as the source may be called again.

        Not *certain*: the broker only closed the connection. Then an old token counts as refused, but not a new one.
        """
        if token.expires_at_ms is None:
            return  # it was for one login only, so the next login fetches another one anyway
        with self._state:
            if self._token is not token or self._refused or not (certain or self._fetch_limit.may_be_refused()):
                return
            self._refused = True
            self._fetch_limit.refused()

    def close(self) -> None:
        """End the background thread and release the logins that wait, without waiting for either."""
        self._closing.set()
        self._flights.close()

    def _valid(self) -> Token:
        """Return a token that no broker refused, or a refused one while the source must not be called yet.

        Blocks while a token is fetched, at most for the time-out.
        """
        until = time.monotonic() + self._timeout
        while (good := self._good()) is None:
            joined = self._flights.join(needless=lambda: self._good() is not None, too_soon=self._too_soon)
            if joined is None:
                continue
            flight, mine = joined
            if not flight.wait(until - time.monotonic()):
                if time.monotonic() >= until:
                    raise self._flights.unanswered()
                continue  # the fetch exceeded its limit: start another one
            token = flight.result()
            if mine or token.expires_at_ms is not None:
                return token
            # A token without an expiry is only for the login that fetched it.
        return good

    def _good(self) -> Token | None:
        # Another broker may accept a refused token, and until the source may be called there is no better one.
        return None if self._refused and self._fetch_limit.wait() <= 0 else self._unexpired()

    def _unexpired(self) -> Token | None:
        """Return the newest token, refused or not, or None if it has expired or has no expiry."""
        with self._state:
            token = self._token
        if token is None or token.expires_at_ms is None or token.expires_at_ms <= self._clock() * 1000:
            return None
        return token

    def _warn_of_refused(self, error: Exception) -> None:
        with self._state:
            warned, self._warned_of_refused = self._warned_of_refused, True
        if not warned:
            _log.warning(
                "a broker refused the token of %s, and fetching the next one failed; until that succeeds logins use "
                "the refused one, which other brokers may accept: %s",
                self._source,
                error,
            )

    def _too_soon(self) -> ConnectionFailedError | None:
        """Return the error to raise while the backoff forbids another call of the token source, or None."""
        if (wait := self._fetch_limit.wait()) <= 0:
            return None
        if self._useless:
            return AuthenticationError(f"{self._useless}; the next token is fetched in {wait:.1f} s")
        if self._refused:
            why = "brokers refused its last tokens, and the newest one has expired"
        else:
            why = f"the lifetime of its last token was only {self._lifetime:.3f} s"
        return ConnectionFailedError(
            f"there is no valid token: the next one is fetched from {self._source} in {wait:.1f} s, because {why}; "
            "use tokens that brokers accept and that last a minute or longer, and check this machine's clock"
        )

    def _fetched(self) -> Token:
        """Fetch and store a token, on a separate thread; the caller may have timed out."""
        with self._state:
            self._begun += 1
            number = self._begun
        token = self._fetch()
        now = self._clock()
        error = expired(token, now=now, source=self._source)
        if error is not None:
            with self._state:
                self._useless = str(error)
                self._fetch_limit.fetched(due_in=0.0)
            raise error
        _log.debug("a token of %s: %s", self._source, printable(repr(token)))
        with self._state:
            if number < self._kept:  # an abandoned fetch does not replace a later one's token
                return token
            self._kept = number
            self._token, self._refused, self._useless = token, False, ""
            self._warned_of_refused = False
            due_in = self._due_in(token, now)
            pause = self._fetch_limit.fetched(due_in=due_in)
            if due_in is None:
                self._due = None
            else:
                self._due = now + (due_in if pause is None else pause)
                self._start()
        if pause is not None:
            self._warn_of_short(pause)
        return token

    def _due_in(self, token: Token, now: float) -> float | None:
        """Return the seconds until the token's renewal, or None if it has no expiry."""
        if token.expires_at_ms is None:
            return None
        self._lifetime = token.expires_at_ms / 1000 - now
        due = self._window.due(
            now=now,
            issued_at=None if token.issued_at_ms is None else token.issued_at_ms / 1000,
            expires_at=token.expires_at_ms / 1000,
            chance=_chance.random(),
        )
        return due - now

    def _warn_of_short(self, pause: float) -> None:
        if self._fetch_limit.warns():
            _log.warning(
                "%s returned a token with a lifetime of only %.3f s; the next one is fetched after %.1f s, later ones "
                "after longer waits, and logins in between fail; use tokens that last a minute or longer, and check "
                "this machine's clock",
                self._source,
                self._lifetime,
                pause,
            )

    def _start(self) -> None:
        """Start the background thread if there is none; otherwise the next fetch tries to. Under the lock."""
        if self._thread is not None or self._closing.is_set():
            return
        thread = threading.Thread(target=Context().run, args=(self._renew,), name="ottla-token-refresh", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads, or the interpreter exits
            if not self._warned_of_thread:
                self._warned_of_thread = True
                _log.warning(
                    "no thread could be started to renew the token of %s; a login that finds it expired fetches the "
                    "next one, and tries to start the thread: %s",
                    self._source,
                    error,
                )
        else:
            self._thread, self._warned_of_thread = thread, False

    def _renew(self) -> None:
        """Renew the token when it is due, on the background thread, until `close` or a token without an expiry."""
        failures = 0
        while self._wait_until_due():
            failures = 0 if self._renewed_in_time(failures) else failures + 1

    def _is_due(self) -> bool:
        with self._state:
            return self._due is not None and self._clock() >= self._due

    def _wait_until_due(self) -> bool:
        while not self._closing.is_set():
            with self._state:
                due = self._due
                if due is None:
                    self._thread = None
                    return False
            remaining = due - self._clock()
            if remaining <= 0:
                return True
            self._closing.wait(min(remaining, _LONGEST_WAIT))
        return False

    def _renewed_in_time(self, failures: int) -> bool:
        try:
            if (joined := self._flights.join(needless=lambda: not self._is_due())) is None:
                return True
            flight, _ = joined
            if not flight.wait(self._limit):
                raise self._flights.unanswered()
            flight.result()
        except Exception as error:
            if self._closing.is_set():
                return False
            with self._state:
                self._due = self._clock() + max(self._retry.wait(failures + 1), self._fetch_limit.wait())
            log = _log.debug if failures else _log.warning
            log("the token of %s could not be renewed, the producer will try again: %s", self._source, error)
            return False
        if failures:
            _log.info("the token of %s was renewed after %s", self._source, counted(failures, "failed attempt"))
        return True
