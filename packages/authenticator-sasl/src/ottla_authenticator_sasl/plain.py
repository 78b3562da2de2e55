"""PLAIN (RFC 4616): name and password in clear text, so it should be used only inside TLS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.errors import AuthenticationError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step
from ottla_authenticator_sasl.cleartext_warning import CLEARTEXT_KEYS, warn_of_cleartext
from ottla_authenticator_sasl.credentials import Credentials, UserPassword
from ottla_authenticator_sasl.login import LOGIN_KEYS, login

ottla_conformance = "ottla_authenticator_sasl.conformance:PlainConformance"

NAME: Final = "PLAIN"


class PlainMechanism:
    """Send the current credentials on every connection."""

    name = NAME

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.blocking = self.concurrent_logins = credentials.blocking
        self.identity = credentials.identity
        self.remedy = f"check {credentials.keys}"

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, which has one message."""
        return PlainExchange(self, self._credentials.request())

    def note(self, login: UserPassword) -> None:
        """Note who logs in."""
        self.identity = login.name

    def close(self) -> None:
        """Stop waiting for functions."""
        self._credentials.close()


class PlainExchange:
    """Send one message; the broker's response is empty."""

    def __init__(self, mechanism: PlainMechanism, credentials: Callable[[], UserPassword]) -> None:
        self._mechanism = mechanism
        self._credentials = credentials

    def start(self) -> bytes:
        """Return the message: an empty authorization id, the name, the password. Waits for a program's function."""
        login = self._credentials()
        self._mechanism.note(login)
        return b"\0".join((b"", login.name.encode(), login.password.reveal().encode()))

    def challenge(self, data: bytes) -> Step:
        """Return the final step. A broker that refuses the client sends an error instead of this response."""
        if data:
            raise AuthenticationError(f"the broker's response to PLAIN has {len(data)} bytes, but must be empty")
        return Step(reply=None, done=True)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for name and password, and for sending them without encryption."""
    return (*LOGIN_KEYS, *CLEARTEXT_KEYS)


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `PLAIN`."""
    found = login(config, mechanism=NAME, module="PlainLoginModule")
    warn_of_cleartext(config, mechanism=NAME, sent="user name and password")
    return PlainMechanism(found)
