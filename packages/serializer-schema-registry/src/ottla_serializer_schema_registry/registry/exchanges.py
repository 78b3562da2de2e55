"""Requests to the registry: repeated, at several addresses, within one time limit. It does not read the answers."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from random import SystemRandom
from typing import Final

import h11

from ottla.errors import counted, quoted
from ottla_serializer_schema_registry.errors import RegistryUnavailableError
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.exchange import Answer, Deadline, Request, exchange
from ottla_serializer_schema_registry.registry.host_names import HostNames
from ottla_serializer_schema_registry.registry.logins import FixedLogin, Login
from ottla_serializer_schema_registry.registry.trust import FixedTrust, Trust

_chance: Final = SystemRandom()
"""Not that of the program, which may have seeded it, or have forked workers that would all retry in step."""

MOST_ATTEMPTS: Final = 10
FIRST_BACKOFF: Final = 0.1
LONGEST_BACKOFF: Final = 2.0

RETRIED: Final = frozenset((408, 429, 500, 502, 503, 504))
"""Statuses after which the same request can succeed. A registry answers 500 while its leader changes."""

_REFUSED: Final = 401
"""The status of a login that the registry does not know, or that has expired."""


class Exchanges:
    """Sends requests to the addresses of a registry. For any thread."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        authorization: Authorization | Login | None = None,
        context: ssl.SSLContext | Trust | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._addresses = tuple(addresses)
        self._login = FixedLogin(authorization) if isinstance(authorization, Authorization) else authorization
        self._trust = FixedTrust(context) if isinstance(context, ssl.SSLContext) else context
        self._host_names = HostNames()
        self._clock = clock
        self._sleep = sleep
        self._first = 0

    def send(self, request: Request, *, timeout: float, retried: Collection[int] = RETRIED) -> Answer:
        """Try the addresses until one gives a status that is not *retried*; takes at most *timeout* seconds.

        The last answer is returned as well if its status is retried for this request alone: it says why.

        Raises RegistryUnavailableError, and RegistryAnswerError for an answer that is too large.
        """
        started = self._clock()
        until = started + timeout
        last, first, attempts = "there was no time for a request", self._first, 0
        unproven: set[str] = set()
        final: Answer | None = None
        ready = dict.fromkeys(range(len(self._addresses)), started)
        """When each address takes the next request: one that asks for time does not keep us from the others."""
        at = first % len(self._addresses)
        for attempt in range(MOST_ATTEMPTS):
            remaining = until - self._clock()
            if remaining <= 0:
                break
            attempts += 1
            retry_after = 0.0
            try:
                answer = self._exchange(self._addresses[at], request, self._share(remaining, attempt))
            except (OSError, h11.RemoteProtocolError) as error:
                reason = f"{type(error).__name__}: {quoted(str(error))}"
                last = f"{self._addresses[at]}: {reason}"
                if isinstance(error, ssl.SSLCertVerificationError):
                    unproven.add(self._addresses[at])
                if unproven.issuperset(self._addresses):  # a repetition would not help
                    raise RegistryUnavailableError(
                        f"the certificate of the schema registry {self._addresses[at]} cannot be verified: "
                        f"{reason}; check schema.registry.ssl.ca.location and the host name"
                    ) from error
            else:
                if answer.status not in retried:
                    self._first = at
                    return answer
                last = f"{self._addresses[at]} answered with status {answer.status}"
                final = None if answer.status in RETRIED else answer
                retry_after = answer.retry_after
            now = self._clock()
            ready[at] = now + retry_after
            at = self._next(ready, first + attempt + 1, now)
            pause = max(self._backoff(attempt), ready[at] - now)
            if pause >= until - now:
                break
            self._sleep(pause)
        if final is not None:
            return final
        raise RegistryUnavailableError(
            f"the schema registry did not answer {request} in {counted(attempts, 'attempt')} and "
            f"{self._clock() - started:.3g} s; last: {last}"
        )

    def _next(self, ready: Mapping[int, float], place: int, now: float) -> int:
        """The address that is asked next: of those that wait least, the first from a *place* on."""
        places = (each % len(ready) for each in range(place, place + len(ready)))
        return min(places, key=lambda each: max(ready[each] - now, 0.0))

    def _share(self, remaining: float, attempt: int) -> float:
        """The seconds of an attempt: a silent address leaves time for those not tried yet."""
        return remaining / max(len(self._addresses) - attempt, 1)

    def _backoff(self, attempt: int) -> float:
        """The seconds before the next attempt: none until each address was tried."""
        rounds = attempt + 1 - len(self._addresses)
        if rounds < 0:
            return 0.0
        return float(min(FIRST_BACKOFF * 2**rounds, LONGEST_BACKOFF)) * _chance.uniform(0.8, 1.2)

    def _exchange(self, address: str, request: Request, seconds: float) -> Answer:
        """Send a request once, or with another login again if the registry refuses the first one (401)."""
        deadline = Deadline(seconds, self._clock)
        if self._login is None:
            return self._once(address, request, None, deadline)
        login = self._login.current(deadline)
        answer = self._once(address, request, login, deadline)
        if answer.status != _REFUSED or (another := self._login.renewed(login, deadline)) is None:
            return answer
        return self._once(address, request, another, deadline)

    def _once(self, address: str, request: Request, login: Authorization | None, deadline: Deadline) -> Answer:
        secure = address.startswith("https:")
        return exchange(
            address,
            request,
            authorization=login,
            context=self._trust.context(deadline) if secure and self._trust is not None else None,
            host_names=self._host_names,
            deadline=deadline,
        )
