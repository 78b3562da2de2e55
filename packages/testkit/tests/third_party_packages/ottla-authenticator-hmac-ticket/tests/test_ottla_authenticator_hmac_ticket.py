"""Tests that the mechanism meets all requirements, computes what it documents, and refuses invalid settings."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from ottla.errors import AuthenticationError, ConfigError
from ottla.interfaces import Mechanism, MetricName
from ottla_testkit.conformance import metric_values, plugin_context
from ottla_testkit.mock_producer import MockProducer

from ottla_authenticator_hmac_ticket import HmacTicketMechanism
from ottla_authenticator_hmac_ticket.conformance import ANN, HER_SECRET, HmacTicketBroker, HmacTicketConformance
from ottla_authenticator_hmac_ticket.plugin import LOGINS, NAME, SECRET, USER, ottla_authenticator, ottla_config_keys
from ottla_authenticator_hmac_ticket.proofs import CLIENT, NONCE_BYTES, proof

SETTINGS = {USER: ANN, SECRET: HER_SECRET}


class TestHmacTicket(HmacTicketConformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return HmacTicketMechanism(user=ANN, secret=HER_SECRET, context=plugin_context())


def made() -> Mechanism:
    return ottla_authenticator(config=SETTINGS, context=plugin_context())


def test_a_proof_is_what_the_protocol_says() -> None:
    # Written out, because the client and the suite's broker share the function.
    message = b"\0\0\0\x12HMAC-TICKET client" + b"\0\0\0\x03ann" + b"\0\0\0\x02nn" + b"\0\0\0\x03ccc"

    assert proof("geheim", CLIENT, "ann", b"nn", b"ccc") == hmac.new(b"geheim", message, hashlib.sha256).digest()


def test_no_two_logins_have_the_same_nonce() -> None:
    mechanism = made()
    first = {mechanism.authenticator("kafka", 9092).start() for _ in range(3)}

    assert len(first) == 3
    assert {len(message) for message in first} == {len(ANN) + 1 + NONCE_BYTES}


def test_the_client_s_proof_does_not_prove_the_broker() -> None:
    exchange = made().authenticator("kafka", 9092)
    exchange.start()
    step = exchange.challenge(bytes(32))
    assert step.reply is not None

    with pytest.raises(AuthenticationError, match="proof is wrong"):
        exchange.challenge(step.reply)


@pytest.mark.parametrize("size", [0, 15, 1025])
def test_a_challenge_of_a_wrong_size_is_refused(size: int) -> None:
    exchange = made().authenticator("kafka", 9092)
    exchange.start()

    with pytest.raises(AuthenticationError, match="16 to 1024"):
        exchange.challenge(bytes(size))


def test_nothing_comes_after_the_end() -> None:
    exchange, broker = made().authenticator("kafka", 9092), HmacTicketBroker(ANN, HER_SECRET)
    step = exchange.challenge(broker.answer(exchange.start()))
    assert step.reply is not None
    assert exchange.challenge(broker.answer(step.reply)).done

    with pytest.raises(AuthenticationError, match="after the end"):
        exchange.challenge(b"")


@pytest.mark.parametrize(("user", "secret"), [(None, HER_SECRET), (ANN, None)])
def test_half_a_login_says_what_to_set(user: str | None, secret: str | None) -> None:
    with pytest.raises(ConfigError, match="set both"):
        ottla_authenticator(config={USER: user, SECRET: secret}, context=plugin_context())


def test_logins_are_counted() -> None:
    context = plugin_context()
    ottla_authenticator(config=SETTINGS, context=context).authenticator("kafka", 9092)

    assert metric_values(context) == {MetricName("plugins", LOGINS): 1}


def test_the_secret_is_a_secret_and_the_name_is_none() -> None:
    assert {key.name: key.secret for key in ottla_config_keys()} == {USER: False, SECRET: True}


@pytest.mark.parametrize(
    ("key", "wrong"), [(USER, ""), (USER, "a\0b"), (USER, 1), (SECRET, "short"), (SECRET, b"x" * 99)]
)
def test_what_cannot_be_used_is_refused(key: str, wrong: object) -> None:
    [found] = [each for each in ottla_config_keys() if each.name == key]

    with pytest.raises((ValueError, TypeError), match="it must"):
        found.type(wrong)


def test_a_producer_takes_the_mechanism() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": NAME, **SETTINGS}
    with MockProducer(settings) as producer:
        assert producer.send("orders", b"three apples").result(timeout=10).topic == "orders"
