"""The claims of a token are read if they are readable, and no token makes the reader fail."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_authenticator_sasl.jwt import MAX_PAYLOAD, Claims, claims
from token_endpoints import jwt

NOTHING = Claims()


def token(payload: bytes) -> str:
    return f"x.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.x"


def test_expiry_issue_subject_and_scope_are_read() -> None:
    written = jwt(sub="alice", scope="produce", exp=1_800_000_000, iat=1_799_999_000.5)

    assert claims(written) == Claims(
        subject="alice", scope="produce", expires_at=1_800_000_000, issued_at=1_799_999_000.5
    )


def test_other_claims_may_name_subject_and_scope() -> None:
    written = jwt(sub="4711", client="alice", scp=["produce", 7, "read"])

    assert claims(written, subject="client", scope="scp") == Claims(subject="alice", scope="produce read")


def test_the_example_of_rfc_7519_is_read() -> None:
    written = (
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
        "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )

    assert claims(written) == Claims(expires_at=1300819380)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "opaque",
        "a.b",
        "a.b.c.d",
        "..",
        "x.*.x",
        "x.e.x",
        token(b"[]"),
        token(b"7"),
        token(b"{"),
        token(b"\xff"),
        token(b"[" * 30_000),
        token(b'{"exp": ' + b"9" * 5000 + b"}"),
        token(b'{"exp": 1800000000, "x": "' + b"x" * MAX_PAYLOAD + b'"}'),
    ],
    ids=lambda written: written[:20],
)
def test_an_invalid_jwt_has_no_claims(written: str) -> None:
    assert claims(written) == NOTHING


@pytest.mark.parametrize("time", [None, True, "1800000000", -1, 0, 1e12, 1e300, float("nan"), float("inf"), [], {}])
def test_an_invalid_time_is_unknown(time: Any) -> None:
    assert claims(jwt(exp=time, iat=time)) == NOTHING


@pytest.mark.parametrize("name", [None, "", 7, True, {}, [], [7]])
def test_an_invalid_name_is_unknown(name: Any) -> None:
    assert claims(jwt(sub=name, scope=name)) == NOTHING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["exp", "iat", "sub", "scope"]) | st.text(), inner),
)


@given(st.text() | st.binary().map(token) | JSON.map(lambda value: token(json.dumps(value).encode())))
def test_any_token_can_be_parsed(written: str) -> None:
    found = claims(written)

    assert found.expires_at is None or found.expires_at > 0
    assert found.subject != ""
