"""One token for all connections of a producer, renewed in the background before it expires.

Knows neither where tokens come from nor who uses them. One fetch runs at a time, which may never come back; while a
token is good nobody waits for the next one, and nobody waits for longer than a login has time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import SystemRandom
from typing import Final

import attrs

from ottla.errors import ConnectionFailed
from ottla_authenticator_sasl.bearer_token import Token, expired
from ottla_authenticator_sasl.refresh import RefreshWindow

_log = logging.getLogger(__name__)

_chance = SystemRandom()

PATIENCE: Final = 5.0
"""Seconds for another one's fetch: a login should tell why it fails before the time for a connection (10 s) is over."""

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
    """Fetches when asked and nothing good is there, then ahead of each expiry until it is closed.

    Two locks: `_fetching` is held while the source is asked, and taken with patience; `_state` for a moment, inside it.
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
        patience: float = PATIENCE,
    ) -> None:
        self._fetch = fetch
        self._source = source
        self._window = window
        self._retry = retry
        self._closing = closing
        self._clock = clock
        self._patience = patience
        self._fetching = threading.Lock()
        self._state = threading.Lock()
        self._token: Token | None = None
        self._due: float | None = None
        self._thread: threading.Thread | None = None

    def token(self) -> Token:
        """A token that is good now. Waits for the source if there is none; its errors are the caller's.

        ConnectionFailed: the source owes somebody else an answer, which did not come in time.
        """
        good = self._good()
        if good is not None:
            return good
        with self._turn() as mine:
            if not mine:
                raise self._owed()
            return self._good() or self._renewed()

    def forget(self, token: Token) -> None:
        """The broker refused it: the next one who asks gets another."""
        with self._state:
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

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Whether it is the caller's turn to fetch, until the end of the `with`."""
        mine = self._fetching.acquire(timeout=self._patience)
        try:
            yield mine
        finally:
            if mine:
                self._fetching.release()

    def _owed(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self._source} has not answered an earlier request for a token yet, and is asked for one at a time; see "
            "that it answers or gives up before socket.connection.setup.timeout.ms is over"
        )

    def _renewed(self) -> Token:
        """In the caller's turn."""
        token = self._fetch()
        now = self._clock()
        error = expired(token, now=now, source=self._source)
        if error is not None:
            raise error
        _log.debug("a token of %s: %r", self._source, token)
        with self._state:
            self._token = token
            self._due = self._due_for(token, now)
            if self._due is not None:
                self._start()
        return token

    def _due_for(self, token: Token, now: float) -> float | None:
        """When it is to be renewed; None: it does not say when it expires."""
        if token.expires_at_ms is None:
            return None
        return self._window.due(
            now=now,
            issued_at=None if token.issued_at_ms is None else token.issued_at_ms / 1000,
            expires_at=token.expires_at_ms / 1000,
            chance=_chance.random(),
        )

    def _start(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._keep, name="ottla-token-refresh", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        """The thread's own: wait, renew, again; until closed, or a token comes that does not expire."""
        failures = 0
        while self._wait_until_due():
            with self._turn() as mine:
                if self._closing.is_set():
                    return
                if not mine or not self._is_due():
                    continue  # somebody who found the token expired is at it, or was faster
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
            self._renewed()
        except Exception as error:
            with self._state:
                self._due = self._clock() + self._retry.wait(failures + 1)
            tell = _log.debug if failures else _log.warning
            tell("the token of %s could not be renewed, which is tried again: %s", self._source, error)
            return False
        if failures:
            _log.info("the token of %s is renewed, after %d failed attempts", self._source, failures)
        return True
