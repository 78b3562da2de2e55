"""Passwords and tokens that are sent without encryption: one warning, and a key that silences it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla import check_config
from ottla_authenticator_sasl import cleartext_warning
from sasl_plugins import ALICE, problem

TOKENS: dict[str, Any] = {"sasl.oauthbearer.token.provider": lambda: "e.30.e"}


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was warned of yet."""
    monkeypatch.setattr(cleartext_warning, "_warned", set())


def checked(mechanism: str, settings: dict[str, Any], protocol: str = "SASL_PLAINTEXT") -> None:
    check_config(
        {"bootstrap.servers": "kafka:9092", "security.protocol": protocol, "sasl.mechanism": mechanism} | settings
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("mechanism", "settings", "sent"),
    [("PLAIN", ALICE, "user name and password can be read"), ("OAUTHBEARER", TOKENS, "the token can be read")],
)
def test_unencrypted_credentials_are_warned_about_once(
    mechanism: str, settings: dict[str, Any], sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        checked(mechanism, settings, protocol="sasl_plaintext")

    (line,) = warnings(caplog)
    assert sent in line
    assert "sasl.allow.cleartext.credentials=true" in line


def test_each_mechanism_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    checked("PLAIN", ALICE)
    checked("OAUTHBEARER", TOKENS)

    assert len(warnings(caplog)) == 2


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_sends_no_password_and_causes_no_warning(
    mechanism: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    checked(mechanism, ALICE, protocol)

    assert warnings(caplog) == []


@pytest.mark.parametrize(("mechanism", "settings"), [("PLAIN", ALICE), ("OAUTHBEARER", TOKENS)])
def test_credentials_inside_tls_cause_no_warning(
    mechanism: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    checked(mechanism, settings, "SASL_SSL")

    assert warnings(caplog) == []


@pytest.mark.parametrize("written", [True, "true", " TRUE "])
@pytest.mark.parametrize(("mechanism", "settings"), [("PLAIN", ALICE), ("OAUTHBEARER", TOKENS)])
def test_a_key_confirms_that_unencrypted_credentials_are_intended(
    mechanism: str, settings: dict[str, Any], written: object, caplog: pytest.LogCaptureFixture
) -> None:
    checked(mechanism, {**settings, "sasl.allow.cleartext.credentials": written})

    assert warnings(caplog) == []


def test_a_value_that_is_neither_true_nor_false_is_shown() -> None:
    said = problem("PLAIN", {**ALICE, "sasl.allow.cleartext.credentials": "ture"})

    assert "sasl.allow.cleartext.credentials='ture': it must be true or false" in said
