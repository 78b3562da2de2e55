"""What a mechanism and its exchanges have to be: a part of `AuthenticatorConformance`.

As a base class its tests run first, because what a later test sees of such a fault is harder to understand.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from ottla.errors import with_article
from ottla.interfaces import Authenticator, Mechanism
from ottla_testkit.conformance.harness.abilities import check_spelling
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.login import CheckedMechanism, kind

_NAME: Final = re.compile(r"[A-Z0-9_-]{1,20}")


class MechanismContract(CheckedMechanism):
    """A part of `AuthenticatorConformance`."""

    entry_point: ClassVar[str] = ""
    """The name that users set as `sasl.mechanism`, which brokers know; empty: the suite does not compare it."""

    def test_it_has_all_attributes_of_the_contract(self, mechanism: Mechanism) -> None:
        check_contract(mechanism, Mechanism)
        name: object = mechanism.name
        check(
            isinstance(name, str) and _NAME.fullmatch(name) is not None,
            f"name is {name!r}; the name of a SASL mechanism has 1 to 20 of A-Z 0-9 - _, such as SCRAM-SHA-512",
        )
        check(
            self.entry_point in ("", name),
            f"name is {name!r}, and the entry point's is {self.entry_point!r}: brokers are asked for another mechanism "
            "than sasl.mechanism says; a suite of the plugin's own with entry_point = '' allows it",
        )
        blocking: object = mechanism.blocking
        check(isinstance(blocking, bool), f"blocking is {blocking!r}, which is neither True nor False")
        concurrent: object = getattr(mechanism, "concurrent_logins", None)
        check(
            concurrent is None or isinstance(concurrent, bool),
            f"concurrent_logins is {concurrent!r}, which is neither True nor False",
        )
        identity: object = getattr(mechanism, "identity", None)
        check(
            identity is None or isinstance(identity, str),
            f"identity is {with_article(kind(identity))}; it is a name, or None",
        )
        remedy: object = getattr(mechanism, "remedy", "")
        check(isinstance(remedy, str), f"remedy is {with_article(kind(remedy))}; it is what helps, in words")

    def test_every_connection_has_its_own_exchange(self, mechanism: Mechanism) -> None:
        one, other = self._begun(mechanism), self._begun(mechanism)
        check(one is not other, "authenticator() returned the same exchange twice; each connection needs a new one")

    def test_no_optional_ability_of_an_exchange_is_misspelt(self, mechanism: Mechanism) -> None:
        exchange = self._begun(mechanism)
        check_spelling(exchange, Authenticator)
        check(
            hasattr(exchange, "refused") or not hasattr(mechanism, "refused"),
            f"{kind(mechanism)} has `refused`, which the core does not use: it is called on the exchange, of type "
            f"{kind(exchange)}, that authenticator() returns",
        )
