"""A broker that accepts PLAIN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from ottla_authenticator_sasl.conformance.accounts import ALICE, Account, account, with_a_login
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker


class PlainBroker:
    """Accept one name and password; the response is empty."""

    satisfied = False

    def __init__(self, known: Account) -> None:
        self._known = known

    def answer(self, data: bytes) -> bytes:
        """Return an empty message, which means success."""
        if data != f"\0{self._known.name}\0{self._known.password}".encode():
            raise ValueError("the name or the password is wrong")
        self.satisfied = True
        return b""


class PlainConformance(AuthenticatorConformance):
    """All requirements for a mechanism with name and password."""

    secrets = (ALICE.password,)
    checks_answers = True
    settings: ClassVar[Mapping[str, Any]] = with_a_login({})
    settings_for = staticmethod(with_a_login)

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return lambda: PlainBroker(account(self.settings))
