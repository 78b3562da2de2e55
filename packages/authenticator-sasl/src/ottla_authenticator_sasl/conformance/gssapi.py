"""A broker that accepts GSSAPI, and a replacement for the real library, which needs a KDC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from ottla.interfaces import Mechanism
from ottla_authenticator_sasl.conformance.kerberos_library import library_of_kerberos
from ottla_authenticator_sasl.gssapi import SERVICE, ottla_authenticator, ottla_config_keys
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker


class KerberosBroker:
    """A broker that uses that library: it accepts a ticket, and offers only "no security layer"."""

    def __init__(self) -> None:
        self.satisfied = False
        self._answers = {
            b"AP-REQ": b"AP-REP",
            b"": b"wrapped:\1\0\0\0",
            b"wrapped:\1\0\0\0": b"",
        }

    def answer(self, data: bytes) -> bytes:
        """Return the response to a client's message; each message is accepted once, in order."""
        self.satisfied = data.startswith(b"wrapped:")
        if data not in self._answers:
            raise ValueError("this message is not the next one of the exchange")
        return self._answers.pop(data)


class GssapiConformance(AuthenticatorConformance):
    """All requirements for a mechanism, except those that the Kerberos library meets, such as mutual authentication."""

    settings: ClassVar[Mapping[str, Any]] = {SERVICE: "kafka"}

    @pytest.fixture
    def mechanism(self, monkeypatch: pytest.MonkeyPatch) -> Mechanism:
        """The mechanism; the library may be missing."""
        monkeypatch.setitem(sys.modules, "gssapi", library_of_kerberos())
        return ottla_authenticator({**{key.name: key.default for key in ottla_config_keys()}, **self.settings})

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return KerberosBroker
