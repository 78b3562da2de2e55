"""Name and password of a login: fixed ones, or those that functions return for each login.

Functions run on separate threads, one call at a time, so that one that hangs blocks no other connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import attrs

from ottla.concurrency.single_flight import Need, SingleFlight
from ottla.config.function_calls import ask
from ottla.errors import ConnectionFailedError, Secrets
from ottla.interfaces import Secret
from ottla_authenticator_sasl.user_functions import Function

FUNCTION_TIMEOUT: Final = 5.0
"""Seconds for a function: a login should fail with its cause before the connection times out (10 s)."""


def _hidden(password: str | Secret[str]) -> Secret[str]:
    return password if isinstance(password, Secret) else Secret(password)


@attrs.frozen(kw_only=True)
class UserPassword:
    """A name and a password as UTF-8 bytes: like Java, without SASLprep.

    `options` are the other options of a `sasl.jaas.config`. While the object exists, asterisks replace the password in
    messages from brokers.
    """

    name: str
    password: Secret[str] = attrs.field(converter=_hidden)
    options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    _echoes: Secrets = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_echoes", Secrets(self.password.reveal()))


class Credentials(Protocol):
    """The source of each login's name and password. `keys` names the configuration keys, for error messages.

    `blocking`: `current` may block. `identity` is the name, if it is known before the login.
    """

    keys: str
    blocking: bool
    identity: str | None

    def request(self) -> Callable[[], UserPassword]:
        """Note that a login begins, without waiting; the result is a function that returns its credentials.

        The function may wait, and raises AuthenticationError or ConnectionFailedError with the cause.
        """

    def close(self) -> None:
        """Stop waiting for functions; returns immediately."""


class FixedCredentials:
    """Credentials that are the same for every login."""

    blocking = False

    def __init__(self, login: UserPassword, *, keys: str) -> None:
        self.keys = keys
        self.identity: str | None = login.name
        self._login = login

    def request(self) -> Callable[[], UserPassword]:
        """Return a function that returns the login."""
        return self.current

    def current(self) -> UserPassword:
        """Return the login."""
        return self._login

    def close(self) -> None:
        """Nothing to close."""


class CallbackCredentials:
    """Credentials that *make* creates from the functions' results for each login.

    All logins that have begun when a call ends, and have no result yet, share its result.
    """

    blocking = True

    def __init__(
        self, make: Callable[[], UserPassword], *, keys: str, identity: str | None, timeout: float = FUNCTION_TIMEOUT
    ) -> None:
        self.keys = keys
        self.identity = identity
        self._timeout = timeout
        self._latest: UserPassword | None = None  # kept, because a broker may echo the password until the next login
        self._flight = SingleFlight[UserPassword](
            make, name="ottla-credentials", source=keys, limit=timeout, wanted="a login"
        )

    def request(self) -> Callable[[], UserPassword]:
        """Note that a login begins: the time-out begins, and a call that ends from now on serves this login."""
        return partial(self._result, self._flight.need(), time.monotonic() + self._timeout)

    def current(self) -> UserPassword:
        """Return the result of a call that starts now, or of one that is already running."""
        return self.request()()

    def _result(self, need: Need[UserPassword], until: float) -> UserPassword:
        joined = self._flight.join(needless=lambda: False, need=need)
        assert joined is not None, "a call is never needless"
        flight, _new = joined
        if not flight.wait(until - time.monotonic()):
            raise ConnectionFailedError(
                f"{self.keys}: the function returned no result within {self._timeout:g} s; give it a shorter time-out"
            )
        self._latest = flight.result()
        return self._latest

    def close(self) -> None:
        """Make no more calls, and release logins that wait."""
        self._flight.close()


def answer(value: Secret[Any] | Function, *, key: str, wanted: str) -> Secret[Any]:
    """Return the configured value; if it is a function, call it and return its result."""
    return value if isinstance(value, Secret) else ask(value, key=key, wanted=wanted)


def made(name: Secret[Any], password: Secret[Any], *, keys: str, options: Mapping[str, str]) -> UserPassword | str:
    """Return a login of the configured or returned values, or an error message."""
    for part in (name, password):
        if not isinstance(part.reveal(), str):
            return f"{keys}: a name or password is of the type {type(part.reveal()).__name__}; it must be a string"
        if not part.reveal():
            return f"{keys}: neither name nor password may be empty"
        if "\0" in part.reveal():
            return f"{keys}: a NUL character cannot be part of a name or a password"
        if not _is_utf8(part):
            return f"{keys}: a lone surrogate cannot be encoded as UTF-8; was the value read with another encoding?"
    return UserPassword(name=name.reveal(), password=password, options=options)


def _is_utf8(part: Secret[str]) -> bool:
    try:
        part.reveal().encode()
    except UnicodeEncodeError:
        return False
    return True
