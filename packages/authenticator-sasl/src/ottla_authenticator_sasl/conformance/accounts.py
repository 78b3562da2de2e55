"""The user whose login the suites' brokers accept: the one in the settings under test, or a default one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla_authenticator_sasl.jaas import login_module
from ottla_authenticator_sasl.login import JAAS, PASSWORD, USERNAME

_WAYS_TO_WRITE_A_LOGIN: Final = frozenset({USERNAME, PASSWORD, JAAS})


class Account(NamedTuple):
    """A user's name and password, as a broker knows them."""

    name: str
    password: str


ALICE: Final = Account("alice", "s3cret-of-alice")


def with_a_login(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return these settings, with alice's login if they have none."""
    if _WAYS_TO_WRITE_A_LOGIN & given.keys():
        return given
    return {**given, USERNAME: ALICE.name, PASSWORD: ALICE.password}


def account(settings: Mapping[str, Any]) -> Account:
    """Return the user of these settings. The settings must be valid."""
    if JAAS in settings:
        options = login_module(settings[JAAS]).options
        return Account(options["username"], options["password"])
    return Account(settings[USERNAME], settings[PASSWORD])
