"""Name and password of a login: fixed ones, or those that functions give at each login.

Functions run on threads of their own, one call at a time, so that one that hangs stops no connection but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import attrs

from ottla.errors import ConnectionFailedError, Secrets
from ottla.interfaces import Secret
from ottla_authenticator_sasl.functions import ask
from ottla_authenticator_sasl.single_flight import SingleFlight

PATIENCE: Final = 5.0
"""Seconds for a function: a login should report why it fails before the time for a connection (10 s) is over."""

Function: TypeAlias = Callable[[], Any]


def _hidden(password: str | Secret[str]) -> Secret[str]:
    return password if isinstance(password, Secret) else Secret(password)


@attrs.frozen(kw_only=True)
class UserPassword:
    """A name and a password, as the UTF-8 bytes that they are: like Java, no SASLprep.

    `options` are the other ones of a `sasl.jaas.config`. While it is kept, text of brokers has stars for the password.
    """

    name: str
    password: Secret[str] = attrs.field(converter=_hidden)
    options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    _echoes: Secrets = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_echoes", Secrets(self.password.reveal()))


class Credentials(Protocol):
    """Where each login gets its name and password from. `keys` are those that the user wrote, for errors.

    `blocking`: `current` may wait. `identity` is the name that is known before, if one is.
    """

    keys: str
    blocking: bool
    identity: str | None

    def current(self) -> UserPassword:
        """For one login. AuthenticationError and ConnectionFailedError say why there is none."""

    def close(self) -> None:
        """Wait for no function any more; returns at once."""


class FixedCredentials:
    """The same for every login."""

    blocking = False

    def __init__(self, login: UserPassword, *, keys: str) -> None:
        self.keys = keys
        self.identity: str | None = login.name
        self._login = login

    def current(self) -> UserPassword:
        """The login."""
        return self._login

    def close(self) -> None:
        """Nothing is open."""


class AskedCredentials:
    """What *make* makes of the functions' answers, asked for each login; logins at the same time share an answer."""

    blocking = True

    def __init__(
        self, make: Callable[[], UserPassword], *, keys: str, identity: str | None, timeout: float = PATIENCE
    ) -> None:
        self.keys = keys
        self.identity = identity
        self._timeout = timeout
        self._latest: UserPassword | None = None  # a broker may echo its password until the next login
        self._flight = SingleFlight[UserPassword](
            make, name="ottla-credentials", source=keys, limit=timeout, wanted="a login"
        )

    def current(self) -> UserPassword:
        """The answer to a question that is asked now, or was a moment ago and is still open."""
        joined = self._flight.join(needless=lambda: False)
        assert joined is not None, "it is never needless"
        flight, _new = joined
        if not flight.wait(self._timeout):
            raise ConnectionFailedError(
                f"{self.keys}: no answer within {self._timeout:g} s; see that the function returns, or raises, in time"
            )
        self._latest = flight.result()
        return self._latest

    def close(self) -> None:
        """Ask no more, and release logins that wait."""
        self._flight.close()


def answer(value: Secret[Any] | Function, *, key: str, wanted: str) -> Secret[Any]:
    """A value of the configuration, or what its function says now."""
    return value if isinstance(value, Secret) else ask(value, key=key, wanted=wanted)


def made(name: Secret[Any], password: Secret[Any], *, keys: str, options: Mapping[str, str]) -> UserPassword | str:
    """A login of what was written or answered, or what is wrong with it."""
    for part in (name, password):
        if not isinstance(part.reveal(), str):
            return f"{keys}: a name or password is of the type {type(part.reveal()).__name__}; it must be a string"
        if not part.reveal():
            return f"{keys}: neither name nor password may be empty"
        if "\0" in part.reveal():
            return f"{keys}: a NUL character cannot be part of a name or a password"
        if not _is_utf8(part):
            return f"{keys}: a lone surrogate has no UTF-8; was the value read with another encoding?"
    return UserPassword(name=name.reveal(), password=password, options=options)


def _is_utf8(part: Secret[str]) -> bool:
    try:
        part.reveal().encode()
    except UnicodeEncodeError:
        return False
    return True
