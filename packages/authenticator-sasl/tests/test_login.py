"""The credentials of a login: plain keys or Java's string, never both; no message contains a secret."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.plugins.registry import Registry
from sasl_plugins import ALICE, mechanism, problem

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(MECHANISMS[1:], "scram.ScramLoginModule")
SECRET = ALICE["sasl.password"]


def jaas(name: str, options: str) -> dict[str, Any]:
    return {"sasl.jaas.config": f"org.apache.kafka.common.security.{MODULES[name]} required {options};"}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_found_by_its_name_in_any_case(name: str) -> None:
    made = mechanism(name.lower(), ALICE)

    assert made.name == name
    assert b"alice" in made.authenticator("kafka", 9092).start()


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_jaas_config_means_the_same_as_the_plain_keys(name: str) -> None:
    made = mechanism(name, jaas(name, f'username="alice" password="{SECRET}" serviceName="kafka"'))

    assert b"alice" in made.authenticator("kafka", 9092).start()
    assert getattr(made, "remedy") == "check sasl.jaas.config"  # noqa: B009 - not in the contract


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "needs sasl.username and sasl.password, and neither may be empty"),
        ({"sasl.username": "alice"}, "needs sasl.username and sasl.password"),
        ({"sasl.username": "", "sasl.password": SECRET}, "needs sasl.username and sasl.password"),
        ({"sasl.username": "a\0b", "sasl.password": SECRET}, "a NUL character cannot be part of a name or a password"),
        ({"sasl.username": "a", "sasl.password": f"{SECRET}\0"}, "a NUL character"),
        ({"sasl.username": "a", "sasl.password": f"{SECRET}\udc80"}, "a lone surrogate cannot be encoded as UTF-8"),
        ({"sasl.username": 7, "sasl.password": SECRET}, "sasl.username=7: it must be a string"),
        ({"sasl.username": "a", "sasl.password": [SECRET]}, "sasl.password=[hidden]: not accepted"),
        (ALICE | {"sasl.login.class": "com.example.Login"}, "Java's classes cannot be loaded here; leave it out"),
        (ALICE | {"sasl.login.callback.handler.class": "x.Y"}, "set sasl.username and sasl.password"),
        (ALICE | {"sasl.client.callback.handler.class": "x.Y"}, "a plugin of the group ottla.authenticators"),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(name: str, settings: dict[str, Any], said: str) -> None:
    message = problem(name, settings)

    assert said in message
    assert SECRET not in message


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('username="alice"', "needs the options username and password of sasl.jaas.config"),
        (f'username="alice" password="{SECRET}', "the quote that begins at"),
        (f'username="alice" password "{SECRET}"', "expected '='"),
    ],
)
def test_the_jaas_config_is_never_quoted(name: str, options: str, said: str) -> None:
    message = problem(name, jaas(name, options))

    assert said in message
    assert SECRET not in message
    assert "alice" not in message


def test_keys_and_a_jaas_config_together_are_refused() -> None:
    message = problem("PLAIN", ALICE | jaas("PLAIN", f'username="alice" password="{SECRET}"'))

    assert "sasl.jaas.config and sasl.username, sasl.password are both given; leave one out" in message


def test_the_login_module_of_another_mechanism_is_refused() -> None:
    message = problem("SCRAM-SHA-256", jaas("PLAIN", f'username="alice" password="{SECRET}"'))

    assert "sasl.mechanism=SCRAM-SHA-256 needs a ScramLoginModule" in message


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_password_and_the_jaas_config_are_secrets(name: str) -> None:
    keys = Registry().plugin("authenticator", name).config_keys()

    assert {key.name for key in keys if key.secret} == {"sasl.password", "sasl.jaas.config"}


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_repr_and_no_log_shows_the_password(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = mechanism(name, ALICE)
    exchange = made.authenticator("kafka", 9092)
    exchange.start()

    assert SECRET not in caplog.text
    assert all(SECRET not in repr(shown) for shown in (made, exchange, vars(made), vars(exchange)))
