"""PLAIN (RFC 4616): name and password as they are, so only inside TLS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import AuthenticationFailed
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step
from ottla_authenticator_sasl.cleartext import CLEARTEXT_KEYS, warn_of_cleartext
from ottla_authenticator_sasl.login import LOGIN_KEYS, Login, login

ottla_conformance = "ottla_authenticator_sasl.conformance:PlainConformance"

NAME: Final = "PLAIN"


class PlainMechanism:
    """Says the same on every connection."""

    name = NAME
    blocking = False

    def __init__(self, login: Login) -> None:
        self._login = login
        self.identity = login.name
        self.remedy = f"check {login.keys}"

    def authenticator(self, host: str, port: int) -> Authenticator:
        """A new exchange, of one message."""
        return PlainExchange(self._login)


class PlainExchange:
    """One message; the broker's answer has nothing in it."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def start(self) -> bytes:
        """Nobody to act for, the name, the password."""
        return b"\0".join((b"", self._login.name.encode(), self._login.password.encode()))

    def challenge(self, data: bytes) -> Step:
        """Done: whoever was refused has got an error instead."""
        if data:
            raise AuthenticationFailed(f"the broker answered PLAIN with {len(data)} bytes, where it has nothing to say")
        return Step(reply=None, done=True)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Name and password, and whether they may be sent without encryption."""
    return (*LOGIN_KEYS, *CLEARTEXT_KEYS)


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `PLAIN`."""
    found = login(config, mechanism=NAME, module="PlainLoginModule")
    warn_of_cleartext(config, mechanism=NAME, sent="user name and password")
    return PlainMechanism(found)
