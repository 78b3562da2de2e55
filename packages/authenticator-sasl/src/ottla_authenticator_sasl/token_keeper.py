"""One token for all connections of a producer, renewed in the background before it expires.

Knows neither where tokens come from nor who uses them. One fetch runs at a time; while a token is good nobody waits
for the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from random import SystemRandom
from typing import Final

import attrs

from ottla_authenticator_sasl.bearer_token import Token, expired
from ottla_authenticator_sasl.refresh import RefreshWindow

_log = logging.getLogger(__name__)

_chance = SystemRandom()

_LONGEST_WAIT: Final = 30.0
"""Seconds until the wall clock is looked at again: it may be set, and machines sleep."""


@attrs.frozen(kw_only=True)
class Retry:
    """Waits that double from `first` to `longest` seconds."""

    first: float = 0.1
    longest: float = 10.0

    def wait(self, failures: int) -> float:
        """How long after so many failures in a row."""
        return float(min(self.first * 2 ** min(failures - 1, 30), self.longest))


class TokenKeeper:
    """Fetches when asked and nothing good is there, then ahead of each expiry until it is closed."""

    def __init__(
        self,
        fetch: Callable[[], Token],
        *,
        source: str,
        window: RefreshWindow,
        retry: Retry,
        closing: threading.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._source = source
        self._window = window
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self._fetching = threading.Lock()
        self._token: Token | None = None
        self._due: float | None = None
        self._thread: threading.Thread | None = None

    def token(self) -> Token:
        """A token that is good now. Waits for the source if there is none; its errors are the caller's."""
        good = self._good()
        if good is not None:
            return good
        with self._fetching:
            return self._good() or self._renewed()

    def forget(self, token: Token) -> None:
        """The broker refused it: the next one who asks gets another."""
        with self._fetching:
            if self._token is token:
                self._token = None

    def close(self) -> None:
        """End the background thread, at once or when its fetch ends; nobody waits for it."""
        self._closing.set()

    def _good(self) -> Token | None:
        token = self._token
        if token is None or token.expires_at_ms is None or token.expires_at_ms <= self._clock() * 1000:
            return None
        return token

    def _renewed(self) -> Token:
        token = self._fetch()
        now = self._clock()
        error = expired(token, now=now, source=self._source)
        if error is not None:
            raise error
        self._token = token
        _log.debug("a token of %s: %r", self._source, token)
        if token.expires_at_ms is None:
            self._due = None
            return token
        self._due = self._window.due(
            now=now,
            issued_at=None if token.issued_at_ms is None else token.issued_at_ms / 1000,
            expires_at=token.expires_at_ms / 1000,
            chance=_chance.random(),
        )
        self._start()
        return token

    def _start(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._keep, name="ottla-token-refresh", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        """The thread's own: wait, renew, again; until closed, or a token comes that does not expire."""
        failures = 0
        while self._wait_until_due():
            with self._fetching:
                if self._closing.is_set():
                    return
                if self._due is None or self._clock() < self._due:
                    continue  # somebody who found the token expired was faster
                failures = 0 if self._renewed_in_time(failures) else failures + 1

    def _wait_until_due(self) -> bool:
        while not self._closing.is_set():
            with self._fetching:
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
            self._renewed()
        except Exception as error:
            self._due = self._clock() + self._retry.wait(failures + 1)
            tell = _log.debug if failures else _log.warning
            tell("the token of %s could not be renewed, which is tried again: %s", self._source, error)
            return False
        if failures:
            _log.info("the token of %s is renewed, after %d failures", self._source, failures)
        return True
