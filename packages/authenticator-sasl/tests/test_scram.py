"""SCRAM: the exchanges of the RFCs and of Java to the byte, and every answer of a broker that does not fit."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import AuthenticationError
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla_authenticator_sasl.credentials import FixedCredentials, UserPassword
from ottla_authenticator_sasl.scram import MAX_ITERATIONS, MAX_MESSAGE, ScramMechanism
from sasl_plugins import ALICE, mechanism, problem, refusal

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parent / "vectors" / "sasl.json").read_text())
    if vector["mechanism"].startswith("SCRAM")
]
RFC_7677 = VECTORS[0]


def scram(vector: Mapping[str, Any], *, token_auth: bool = False) -> ScramMechanism:
    return ScramMechanism(
        vector["mechanism"],
        digest=vector["mechanism"].removeprefix("SCRAM-").replace("-", "").lower(),
        credentials=FixedCredentials(
            UserPassword(name=vector["username"], password=vector["password"]), keys="sasl.password"
        ),
        token_auth=token_auth,
        nonce=lambda: str(vector["clientNonce"]),
    )


def started(vector: Mapping[str, Any] = RFC_7677) -> Authenticator:
    """An exchange whose first message is out."""
    exchange = scram(vector).authenticator("kafka", 9092)
    exchange.start()
    return exchange


def proven(vector: Mapping[str, Any] = RFC_7677) -> Authenticator:
    """An exchange whose proof is out."""
    exchange = started(vector)
    exchange.challenge(vector["serverFirst"].encode())
    return exchange


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['mechanism']} {vector['note']}")
def test_an_exchange_is_that_of_java_byte_for_byte(vector: dict[str, str]) -> None:
    exchange = scram(vector).authenticator("kafka", 9092)

    assert exchange.start().decode() == vector["clientFirst"]
    final = exchange.challenge(vector["serverFirst"].encode())
    assert final == Step(reply=vector["clientFinal"].encode(), done=False)
    assert exchange.challenge(vector["serverFinal"].encode()) == Step(reply=None, done=True)


def test_the_example_of_rfc_5802_is_reproduced() -> None:
    rfc_5802 = {
        "mechanism": "SCRAM-SHA-1",
        "username": "user",
        "password": "pencil",
        "clientNonce": "fyko+d2lbbFgONRv9qkxdawL",
    }
    exchange = started(rfc_5802)

    final = exchange.challenge(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
    assert final.reply == b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert exchange.challenge(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=").done


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['mechanism']} {vector['note']}")
def test_a_delegation_token_is_marked_as_such(vector: dict[str, str]) -> None:
    exchange = scram(vector, token_auth=True).authenticator("kafka", 9092)

    assert exchange.start().decode() == vector["clientFirstTokenAuth"]


@pytest.mark.parametrize("settings", [{"sasl.scram.tokenauth": "true"}, {"sasl.scram.tokenauth": True}])
def test_a_delegation_token_is_requested_by_a_key(settings: dict[str, Any]) -> None:
    assert mechanism("SCRAM-SHA-256", ALICE | settings).authenticator("k", 1).start().endswith(b",tokenauth=true")


@pytest.mark.parametrize(("option", "ending"), [("true", b",tokenauth=true"), ("false", b"")])
def test_a_delegation_token_is_requested_in_the_jaas_config(option: str, ending: bytes) -> None:
    written = f'org.apache.kafka.ScramLoginModule required username="a" password="b" tokenauth="{option}";'
    first = mechanism("SCRAM-SHA-512", {"sasl.jaas.config": written}).authenticator("k", 1).start()

    assert first.partition(b",r=")[2].partition(b",")[1:] == (b"," if ending else b"", ending[1:])
    assert "are both given" in problem("SCRAM-SHA-512", {"sasl.jaas.config": written, "sasl.scram.tokenauth": True})
    assert "those of a delegation token" in problem("SCRAM-SHA-512", ALICE | {"sasl.scram.tokenauth": "yes"})


def test_extensions_of_the_broker_are_ignored() -> None:
    assert started().challenge(RFC_7677["serverFirst"].encode() + b",x=whatever").reply is not None


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    made = mechanism("SCRAM-SHA-256", ALICE)

    assert len({made.authenticator("kafka", 9092).start() for _ in range(100)}) == 100
    assert isinstance(made, Mechanism)
    assert made.blocking


def test_the_keys_are_derived_once_for_a_salt_and_again_for_another() -> None:
    made = scram(RFC_7677)
    alice = UserPassword(name="alice", password="pencil")
    first = made.keys(alice, salt=b"salt", iterations=4096)

    assert made.keys(alice, salt=b"salt", iterations=4096) is first
    assert made.keys(alice, salt=b"salt", iterations=4097) != first
    assert made.keys(alice, salt=b"tlas", iterations=4096) != first
    assert "client=" not in repr(first)


def test_the_keys_are_derived_again_for_another_password() -> None:
    made = scram(RFC_7677)
    before = made.keys(UserPassword(name="alice", password="pencil"), salt=b"salt", iterations=4096)
    after = made.keys(UserPassword(name="alice", password="eraser"), salt=b"salt", iterations=4096)

    assert (before.client, before.server) != (after.client, after.server)
    assert "pencil" not in repr(before)


NONCE = RFC_7677["serverNonce"]
SALT = RFC_7677["salt"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param("", "nonce, salt or iterations are missing", id="empty"),
        pytest.param(f"r={NONCE},s={SALT}", "are missing", id="no iterations"),
        pytest.param(f"m=ext,r={NONCE},s={SALT},i=4096", "requires an extension", id="mandatory extension"),
        pytest.param(f"x={NONCE},s={SALT},i=4096", "the attribute r= is missing or not in its place", id="no nonce"),
        pytest.param(f"r={NONCE},i=4096,s={SALT}", "the attribute s= is missing or not in its place", id="order"),
        pytest.param(f"r=other{NONCE},s={SALT},i=4096", "its nonce does not extend the client's", id="another nonce"),
        pytest.param(f"r={RFC_7677['clientNonce']},s={SALT},i=4096", "does not extend", id="our own nonce"),
        pytest.param(f"r={NONCE},s=,i=4096", "an attribute is empty", id="no salt"),
        pytest.param(f"r={NONCE},s=W22Z*,i=4096", "an attribute is not valid base64", id="salt that is no base64"),
        pytest.param(f"r={NONCE},s=W22Zä===,i=4096", "an attribute is not valid base64", id="salt that is not ASCII"),
        pytest.param(f"r={NONCE},s={SALT},i=4095", "'4095' iterations are not between 4096 and", id="too few"),
        pytest.param(f"r={NONCE},s={SALT},i={MAX_ITERATIONS + 1}", "iterations are not between", id="too many"),
        pytest.param(f"r={NONCE},s={SALT},i={'9' * 3000}", "iterations are not between", id="far too many"),
        pytest.param(f"r={NONCE},s={SALT},i=-1", "iterations are not between", id="negative"),
        pytest.param(f"r={NONCE},s={SALT},i=٤٠٩٦", "iterations are not between", id="other digits"),
        pytest.param(f"r={NONCE},s={'A' * MAX_MESSAGE},i=4096", f"bytes, more than {MAX_MESSAGE}", id="too long"),
    ],
)
def test_a_first_response_that_does_not_match_is_refused(answer: str, said: str) -> None:
    message = refusal(started(), answer.encode())

    assert said in message
    assert "the broker's message violates SCRAM-SHA-256" in message
    assert RFC_7677["password"] not in message


def test_a_response_that_is_not_text_is_refused() -> None:
    assert "it is not UTF-8" in refusal(started(), b"r=\xff")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("v=" + base64.b64encode(bytes(32)).decode(), "could not prove with SCRAM-SHA-256 that it knows the password"),
        (RFC_7677["serverFinal"][:-5] + "85G4=", "could not prove"),
        ("v=AA==", "could not prove"),
        ("v=", "an attribute is empty"),
        ("", "the attribute v= is missing or not in its place"),
        (RFC_7677["serverFirst"], "the attribute v= is missing or not in its place"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_refused(answer: str, said: str) -> None:
    message = refusal(proven(), answer.encode())

    assert said in message
    assert RFC_7677["password"] not in message


@pytest.mark.parametrize("exchange", [started, proven])
def test_the_error_message_of_the_broker_is_quoted(exchange: Any) -> None:
    message = refusal(exchange(), b"e=unknown-user\n")

    assert message == ("the broker refused SCRAM-SHA-256 for user 'user': 'unknown-user\\n'; check sasl.password")


def test_a_refusal_names_the_user_of_its_own_exchange() -> None:
    """While another login of the same mechanism, with rotated credentials, has begun."""
    mechanism = scram(RFC_7677)
    exchange = mechanism.authenticator("kafka", 9092)
    exchange.start()
    mechanism.note(UserPassword(name="successor", password="other"))

    assert "for user 'user':" in refusal(exchange, b"e=unknown-user")


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_lead_to_a_response_or_a_refusal(data: bytes) -> None:
    for exchange in (started(), proven()):
        for answer in (data, b"v=" + data, b"r=" + NONCE.encode() + b",s=" + data):
            with contextlib.suppress(AuthenticationError):
                assert not exchange.challenge(answer).done


@pytest.mark.parametrize("iterations", [4096, 16_384, 500_000])
def test_iterations_up_to_far_above_those_of_brokers_are_accepted(iterations: int) -> None:
    final = started().challenge(f"r={RFC_7677['clientNonce']}x,s=QSXCR+Q6sek8bf92,i={iterations}".encode())

    assert final.reply is not None


def test_a_broker_that_asks_for_more_than_a_second_of_work_is_refused() -> None:
    reported = refusal(started(), f"r={RFC_7677['clientNonce']}x,s=QSXCR+Q6sek8bf92,i=500001".encode())

    assert "'500001' iterations are not between 4096 and 500000" in reported
    assert "more would take too much processor time" in reported


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_hashing_does_not_run_on_the_io_thread(name: str) -> None:
    assert mechanism(name, ALICE).blocking
