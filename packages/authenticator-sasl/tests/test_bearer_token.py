"""The tokens that a source may return, and errors for everything else, which do not quote it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import AuthenticationError
from ottla_authenticator_sasl import Token
from ottla_authenticator_sasl.bearer_token import MAX_TOKEN, ClaimNames, expired, token_of
from token_endpoints import jwt


def taken(given: Any) -> Token:
    return token_of(given, names=ClaimNames(), source="the test")


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ("abc.def-_~+/==", Token("abc.def-_~+/==")),
        (Token("abc", 1e12, "alice"), Token("abc", 1e12, "alice")),
        (("abc", 10**12), Token("abc", 1e12)),
        (
            ("abc", 1e12, "alice", "produce", {"pool": "p-1"}),
            Token("abc", 1e12, "alice", "produce", {"pool": "p-1"}),
        ),
    ],
)
def test_strings_tokens_and_tuples_are_accepted(given: Any, token: Token) -> None:
    assert taken(given) == token


def test_missing_fields_are_taken_from_the_claims() -> None:
    written = jwt(exp=1_800_000_000, iat=1_799_999_000, sub="alice", scope="produce")

    assert taken(written) == Token(written, 1.8e12, "alice", "produce", issued_at_ms=1.799999e12)
    assert taken((written, 1.7e12, "bob")) == Token(written, 1.7e12, "bob", "produce", issued_at_ms=1.799999e12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "the test returned a NoneType; it must return a string"),
        (b"secret", "returned a bytes"),
        ((), "returned a tuple"),
        (("secret", 1, "a", "b", {}, 6), "returned a tuple"),
        ("", "returned an invalid token"),
        ("secret\x01auth=", "returned an invalid token"),
        ("secret\n", "returned an invalid token"),
        ("secret ü", "returned an invalid token"),
        ("s" * (MAX_TOKEN + 1), "and at most 262144 characters"),
        ((b"secret",), "returned an invalid token"),
        (("secret", "soon"), "not a number of milliseconds since the epoch"),
        (("secret", True), "not a number of milliseconds"),
        (("secret", float("nan")), "not a number of milliseconds"),
        (("secret", -1), "not a number of milliseconds"),
        (("secret", None, None, None, ["a"]), "extensions that are not a mapping"),
        (("secret", None, None, None, {"a1": "b"}), "a SASL extension with an invalid name: only letters are allowed"),
        (("secret", None, None, None, {"auth": "b"}), "only letters are allowed, and 'auth' is reserved"),
        (("secret", None, None, None, {"a": "b\x01c"}), "whose value is not printable ASCII"),
        (("secret", None, None, None, {"a": 7}), "whose value is not printable ASCII"),
    ],
)
def test_other_types_are_refused_without_being_quoted(given: Any, said: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        taken(given)

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_repr_shows_no_token() -> None:
    assert "secret" not in repr(Token("secret", 1e12))


def test_an_expired_token_is_reported_with_its_time_and_likely_cause() -> None:
    error = expired(taken(("secret", 1_795_259_658)), now=1_795_259_000, source="the test")

    assert str(error) == (
        "the token from the test expired at 1970-01-21 18:40:59 UTC; check this machine's clock, and that the "
        "expiry is in milliseconds since the epoch"
    )
    assert expired(taken(("secret", 1_795_259_658_000)), now=1_795_259_000, source="the test") is None
    assert expired(taken("secret"), now=1e10, source="the test") is None
