"""PLAIN: one message, in UTF-8 as it is."""

from __future__ import annotations

import pytest

from ottla.interfaces import Authenticator, Mechanism, Step
from sasl_plugins import ALICE, mechanism, refusal


def plain(name: str = "alice", password: str = "secret") -> Authenticator:
    return mechanism("PLAIN", {"sasl.username": name, "sasl.password": password}).authenticator("kafka", 9092)


def test_the_plugin_has_all_attributes_of_the_contract() -> None:
    made = mechanism("PLAIN", ALICE)

    assert isinstance(made, Mechanism)
    assert isinstance(made.authenticator("kafka", 9092), Authenticator)
    assert not made.blocking


@pytest.mark.parametrize(
    ("name", "password", "sent"),
    [
        ("alice", "secret", b"\0alice\0secret"),
        ("ünal", " pä\u00adss€ ", "\0ünal\0 pä\u00adss€ ".encode()),
        ("a,b=c", "x" * 5000, b"\0a,b=c\0" + b"x" * 5000),
    ],
)
def test_user_and_password_are_sent_unchanged(name: str, password: str, sent: bytes) -> None:
    assert plain(name, password).start() == sent


def test_an_empty_response_is_the_consent_of_the_broker() -> None:
    exchange = plain()
    exchange.start()

    assert exchange.challenge(b"") == Step(reply=None, done=True)


def test_a_broker_that_continues_the_exchange_is_refused() -> None:
    assert "response to PLAIN has 3 bytes, but must be empty" in refusal(plain(), b"who")
