"""The logins of requests: a fixed one, or one that a function or an identity server renews.

A function is called for each request, unless it says when its value expires. A token is kept until then; a request
shortly before begins to renew it, and does not wait for that. One call runs at a time, on a separate thread, for all
threads that wait for it: no lock is held meanwhile, and one that hangs costs a request its time, not more.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from ottla.concurrency.single_flight import SingleFlight
from ottla.errors import AuthenticationError, OttlaError, SecurityError
from ottla.errors.robust_logger import robust_logger
from ottla_serializer_schema_registry.errors import RegistryAccessError
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.exchange import Deadline

_log = robust_logger(__name__)

FETCH_LIMIT: Final = 10.0
"""Maximum seconds for which requests wait for a call. One that needs a login later starts another one."""

BUFFER: Final = 300.0
"""Seconds before the expiry of a token in which the next one is fetched, as in Java."""

_LARGEST_PART: Final = 0.2
"""The largest part of a token's lifetime that `BUFFER` is, so that a token of a minute is used, too."""

NEW: Final = 10.0
"""Seconds in which a new token that the registry refuses is not replaced: its refusal has another reason."""

PAUSE: Final = 10.0
"""Seconds after a failed renewal in which a token that has not expired is used without another attempt."""


class NoLoginError(ConnectionError):
    """A function or an identity server cannot be reached now, or gives no login in time. A request tries again."""


class Login(Protocol):
    """The source of the login of each request. For any thread."""

    def current(self, deadline: Deadline) -> Authorization:
        """Return the login of a request. Raises RegistryAccessError, and OSError until the deadline."""

    def renewed(self, refused: Authorization, deadline: Deadline) -> Authorization | None:
        """Return another login after one that was refused; None if there is no other. Raises as `current`."""


class FixedLogin:
    """The same for all requests."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def current(self, deadline: Deadline) -> Authorization:
        """Return it."""
        return self._authorization

    def renewed(self, refused: Authorization, deadline: Deadline) -> Authorization | None:
        """Return None."""
        return None


@attrs.frozen(kw_only=True)
class Issued:
    """A login, and when it expires, in seconds since the epoch; None if that is not known."""

    authorization: Authorization = attrs.field(repr=False)
    expires_at: float | None = None


@attrs.frozen(kw_only=True)
class _Kept:
    issued: Issued
    got_at: float
    """By the clock of the machine, as the expiry."""

    def is_valid(self, now: float, *, buffer: float = 0.0) -> bool:
        """Return whether it may be used for another request."""
        expires_at = self.issued.expires_at
        if expires_at is None:
            return False
        return now < expires_at - min(buffer, _LARGEST_PART * (expires_at - self.got_at))


class _Renewals:
    """The logins of one process."""

    def __init__(self, issue: Callable[[], Issued], source: str) -> None:
        self.kept: _Kept | None = None  # also one without an expiry: errors show it as stars until the next one
        self.flights = SingleFlight[_Kept](
            self._issued,
            name="ottla-registry-login",
            source=source,
            limit=FETCH_LIMIT,
            wanted="a login",
            time_out=f"max.block.ms, and within {FETCH_LIMIT:g} s",
        )
        self._issue = issue
        self._source = source
        self._lock = threading.Lock()
        self._begun = 0
        self._number_of_kept = 0
        self._paused_until = 0.0  # by the monotonic clock
        self._failure = ""  # of the last call; empty if it has succeeded
        self._warned = False

    def unanswered(self) -> NoLoginError:
        """Return the error of a request that has waited for as long as it may."""
        cause = f"; the last call before failed: {self._failure}" if self._failure else ""
        return NoLoginError(f"{self.flights.unanswered()}{cause}")

    def renew_early(self, kept: _Kept) -> None:
        """Begin to renew a login that is still valid, unless that has failed a moment ago. Returns immediately."""
        if time.monotonic() < self._paused_until:
            return
        try:
            self.flights.join(needless=lambda: self.kept is not kept)
        except OttlaError as error:  # the system has no thread, or too many calls hang
            self._pause(error)

    def _issued(self) -> _Kept:
        with self._lock:
            self._begun += 1
            number = self._begun
        try:
            kept = _Kept(issued=self._issue(), got_at=time.time())
            if kept.issued.expires_at is not None and not kept.is_valid(kept.got_at):
                raise AuthenticationError("the token had expired when it came; check the clock of this machine")
        except Exception as error:
            self._pause(error)
            raise
        with self._lock:
            if number > self._number_of_kept:  # else it took so long that the result of a later call is kept
                self.kept, self._number_of_kept = kept, number
                self._failure, self._warned = "", False
        return kept

    def _pause(self, error: Exception) -> None:
        failure = str(error) if isinstance(error, OttlaError) else type(error).__name__
        with self._lock:
            self._failure = failure
            self._paused_until = time.monotonic() + PAUSE
            is_news = self.kept is not None and self.kept.is_valid(time.time()) and not self._warned
            self._warned = self._warned or is_news
        if is_news:
            _log.warning(
                "the login at the schema registry from %s could not be renewed; requests use the last one until it "
                "expires: %s",
                self._source,
                failure,
            )


class RenewedLogin:
    """A login that is renewed.

    *make* returns the function that gets one. It is called now, and again in each process after a fork, which so shares
    no lock with its parent. *source* names the function in errors.
    """

    def __init__(self, make: Callable[[], Callable[[], Issued]], *, source: str, buffer: float = BUFFER) -> None:
        self._make = make
        self._source = source
        self._buffer = buffer
        self._by_process = {os.getpid(): _Renewals(make(), source)}

    def current(self, deadline: Deadline) -> Authorization:
        """Return the kept login if it has not expired, otherwise another one."""
        renewals = self._renewals()
        kept, now = renewals.kept, time.time()
        if kept is None or not kept.is_valid(now):
            return self._next(renewals, deadline)[0]
        if not kept.is_valid(now, buffer=self._buffer):
            renewals.renew_early(kept)
        return kept.issued.authorization

    def renewed(self, refused: Authorization, deadline: Deadline) -> Authorization | None:
        """Return another login than the refused one."""
        renewals = self._renewals()
        kept = renewals.kept
        if kept is not None and kept.is_valid(time.time()):
            if kept.issued.authorization != refused:  # another thread has renewed it
                return kept.issued.authorization
            if 0 <= time.time() - kept.got_at < NEW:
                return None
        while True:
            another, mine = self._next(renewals, deadline)
            if another != refused:
                return another
            if mine:
                return None  # a call of another thread may have begun before the refusal

    def _renewals(self) -> _Renewals:
        found = self._by_process.get(os.getpid())
        if found is None:
            found = self._by_process.setdefault(os.getpid(), _Renewals(self._make(), self._source))
        return found

    def _next(self, renewals: _Renewals, deadline: Deadline) -> tuple[Authorization, bool]:
        """Return a login that is got now, and whether this thread has begun to get it."""
        error: OSError | RegistryAccessError
        try:
            joined = renewals.flights.join(needless=lambda: False)
            assert joined is not None, "it is never needless"
            flight, mine = joined
            if flight.wait(deadline.remaining()):
                return flight.result().issued.authorization, mine
            error = renewals.unanswered()
        except SecurityError as failed:  # which a repetition would not mend
            error = RegistryAccessError(f"there is no login for the schema registry from {self._source}: {failed}")
        except OttlaError as failed:
            error = NoLoginError(str(failed))
        raise error  # outside the except block: the frames of its context may hold the secret
