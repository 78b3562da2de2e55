"""One token for all connections of a producer, renewed in the background before it expires.

It is independent of the source and of the users of tokens. While a token is valid, no login waits for the next one. No
login waits longer than its own limit, nor for a fetch beyond its limit (see `single_flight`). `fetch_pace` limits how
soon the source is asked again, independent of the lifetimes in its tokens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from random import SystemRandom
from typing import Final

import attrs

from ottla.errors import AuthenticationError, ConnectionFailedError, counted, printable
from ottla_authenticator_sasl.bearer_token import Token, expired
from ottla_authenticator_sasl.single_flight import SingleFlight
from ottla_authenticator_sasl.token_fetch_limit import FetchPace, Pauses, doubled
from ottla_authenticator_sasl.token_refresh_time import RefreshWindow

_log = logging.getLogger(__name__)

_chance = SystemRandom()

PATIENCE: Final = 7.0
"""Seconds that a login waits: it should fail with its cause before the connection times out (10 s)."""

LIMIT: Final = 10.0
"""Seconds that a fetch has; a login that needs a token later starts another one."""

_LONGEST_WAIT: Final = 30.0
"""Seconds between checks of the wall clock: it may be set, and machines sleep."""


@attrs.frozen(kw_only=True)
class Retry:
    """Waits that double from `first` to `longest` seconds."""

    first: float = 0.1
    longest: float = 10.0

    def wait(self, failures: int) -> float:
        """Return the wait after this number of consecutive failures."""
        return doubled(self.first, self.longest, failures)


class TokenKeeper:
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
        timeout: float = PATIENCE,
        limit: float = LIMIT,
        pace: FetchPace | None = None,
    ) -> None:
        self._fetch = fetch
        self._source = source
        self._window = window
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self._timeout = timeout
        self._limit = limit
        self._pace = pace or FetchPace(Pauses())
        self._flights = SingleFlight(self._fetched, name="ottla-token-fetch", source=source, limit=limit)
        self._state = threading.Lock()
        self._begun = 0
        self._kept = 0
        self._token: Token | None = None
        self._refused = False  # the newest token, by a broker
        self._warned_of_refused = False
        self._due: float | None = None
        self._useless = ""  # why the newest token was never usable
        self._lifetime = 0.0  # of the newest token, in seconds
        self._thread: threading.Thread | None = None

    def token(self) -> Token:
        """Return a valid token. Waits for the source if there is none, and raises its errors.

        ConnectionFailedError: the source does not respond in time, or is not allowed again yet.
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
        """Report a refused token: the next login gets another, as soon as the source may be asked.

        Not *certain*: the broker only closed the connection, which casts doubt on an old token, but not on a new one.
        """
        if token.expires_at_ms is None:
            return  # each login fetches its own token, so the next login asks the source in any case
        with self._state:
            if self._token is not token or self._refused or not (certain or self._pace.suspect()):
                return
            self._refused = True
            self._pace.refused()

    def close(self) -> None:
        """End the background thread and release the logins that wait, without waiting for either."""
        self._closing.set()
        self._flights.close()

    def _valid(self) -> Token:
        """Return a token that no broker refused, or a refused one while the source is not allowed yet.

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
        # What one broker refused another one may take, and until the source may be asked there is nothing better.
        return None if self._refused and self._pace.wait() <= 0 else self._unexpired()

    def _unexpired(self) -> Token | None:
        """The newest token, refused or not, unless it has expired or does not say when it does."""
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
        if (wait := self._pace.wait()) <= 0:
            return None
        if self._useless:
            return AuthenticationError(f"{self._useless}; it is asked for the next one in {wait:.1f} s")
        if self._refused:
            why = "brokers refused its last tokens, and the newest one has expired"
        else:
            why = f"its last token was good for {self._lifetime:.3f} s only"
        return ConnectionFailedError(
            f"there is no token to log in with: {self._source} is asked for the next one in {wait:.1f} s, for {why}; "
            "have it issue tokens of a minute or more that the brokers take, and check this machine's clock"
        )

    def _fetched(self) -> Token:
        """Fetch and store a token, on a thread of its own; the caller may have timed out."""
        with self._state:
            self._begun += 1
            number = self._begun
        token = self._fetch()
        now = self._clock()
        error = expired(token, now=now, source=self._source)
        if error is not None:
            with self._state:
                self._useless = str(error)
                self._pace.fetched(due_in=0.0)
            raise error
        _log.debug("a token of %s: %s", self._source, printable(repr(token)))
        with self._state:
            if number < self._kept:  # an abandoned fetch does not replace a later one's token
                return token
            self._kept = number
            self._token, self._refused, self._useless = token, False, ""
            self._warned_of_refused = False
            due_in = self._due_in(token, now)
            pause = self._pace.fetched(due_in=due_in)
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
        if self._pace.warns():
            _log.warning(
                "%s gave a token that is good for %.3f s only; the next one is asked for after %.1f s, then less and "
                "less often, and logins in between fail; have it issue tokens of a minute or more, and check this "
                "machine's clock",
                self._source,
                self._lifetime,
                pause,
            )

    def _start(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._renew, name="ottla-token-refresh", daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        """Wait and renew, on the thread of its own, until `close` or a token without an expiry."""
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
                self._due = self._clock() + max(self._retry.wait(failures + 1), self._pace.wait())
            log = _log.debug if failures else _log.warning
            log("the token of %s could not be renewed, which is tried again: %s", self._source, error)
            return False
        if failures:
            _log.info("the token of %s is renewed, after %s", self._source, counted(failures, "failed attempt"))
        return True
