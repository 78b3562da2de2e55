"""SASL mechanisms, and their exchanges."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs

from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Step(ValueMethods):
    """One answer of an authenticator: bytes to send, if any, and whether the exchange is done.

    No repr contains a secret.
    """

    reply: bytes | None = attrs.field(repr=False)
    done: bool


@runtime_checkable
class Authenticator(Protocol):
    """One SASL exchange. Owns no socket and no clock. The `reply` of a step that is `done` is sent, too.

    Optional ability: `SupportsRefused`.
    """

    def start(self) -> bytes:
        """The first message to the broker."""

    def challenge(self, data: bytes) -> Step:
        """Answer the broker's message."""


class SupportsRefused(Protocol):
    """An optional ability of authenticators: a mechanism that keeps credentials for later logins drops refused ones."""

    def refused(self, *, certain: bool) -> None:
        """Note that the broker refused what `start` returned. Called on the I/O thread; returns immediately.

        The broker answered an error code alone, or (*certain* is false) closed the connection before it accepted it,
        or at the first request after that. *certain* is true if it does the latter again.
        """


@runtime_checkable
class Mechanism(Protocol):
    """A SASL mechanism of one producer; `blocking` ones run on a helper thread, one call at a time by default.

    A NetworkError of an exchange is reported unchanged. Another error of Ottla becomes AuthenticationError with its
    message, so neither may hold a secret; any other exception becomes one without its message.

    Optional abilities: `SupportsIdentity`, `SupportsRemedy`, `SupportsConcurrentLogins`, `SupportsClose`.
    """

    name: str
    blocking: bool

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, for each connection and each re-authentication."""


class SupportsIdentity(Protocol):
    """An optional ability of mechanisms: errors and `ottla doctor` show who logs in."""

    identity: str | None
    """The name that the client logs in with, such as the user name, or None while it is not known. Never a secret."""


class SupportsRemedy(Protocol):
    """An optional ability of mechanisms: errors say what to do when the login is refused."""

    remedy: str
    """What to do, such as "check sasl.username and sasl.password"."""


class SupportsConcurrentLogins(Protocol):
    """An optional ability of `blocking` mechanisms: no login waits for the computations of another one."""

    concurrent_logins: bool
    """True: calls for different logins may run at the same time, on several threads. One login's calls never do.

    Then `authenticator` is called on the I/O thread, when the login begins, and returns immediately. So logins that
    wait for the same password or token can share it, although only four calls of `start` run at a time.
    """
