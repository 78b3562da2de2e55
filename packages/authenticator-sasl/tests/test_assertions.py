"""Assertions are signed as RFC 7523 and Java's keys say, and exchanged for tokens. Needs PyJWT."""

from __future__ import annotations

import json
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ottla.errors import AuthenticationError, PluginNotFoundError
from sasl_plugins import mechanism, problem
from token_endpoints import Answer, Asked, TokenServer, jwt

pyjwt = pytest.importorskip("jwt", reason="signing needs pip install 'ottla-authenticator-sasl[jwt]'")

ASSERTION = "sasl.oauthbearer.assertion."
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = {"sasl.oauthbearer.client.credentials.client.id": "kafka"}
BEARER = {"sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"}
CLAIMS = {f"{ASSERTION}claim.iss": "kafka", f"{ASSERTION}claim.sub": "alice", f"{ASSERTION}claim.aud": "https://idp"}
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any, password: str | None = None) -> str:
    encryption: Any = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    written: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return written.decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whose files may be read; with the key of RSA."""
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", f"{tmp_path}/")
    (tmp_path / "key.pem").write_text(pem(RSA))
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    with TokenServer(lambda _asked: Answer.of(access_token="abc", expires_in=3600)).serving() as serving:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", serving.url())
        yield serving


def form(asked: Asked) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(asked.body, strict_parsing=True))


def log_in(server: TokenServer, settings: dict[str, Any]) -> dict[str, str]:
    """The form that the server gets, once for each login."""
    made: Any = mechanism("OAUTHBEARER", {URL: server.url()} | settings)
    try:
        assert made.authenticator("kafka", 9092).start() == b"n,,\x01auth=Bearer abc\x01\x01"
    finally:
        made.close()
    assert "Authorization" not in server.asked[-1].headers
    return form(server.asked[-1])


def verified(assertion: str, key: Any = RSA, algorithm: str = "RS256") -> dict[str, Any]:
    """Its claims, as a server reads them: signature, times and audience are good."""
    claims: dict[str, Any] = pyjwt.decode(assertion, key.public_key(), algorithms=[algorithm], audience="https://idp")
    return claims


def test_an_assertion_is_exchanged_for_a_token(server: TokenServer, folder: Path) -> None:
    key = {f"{ASSERTION}private.key.file": str(folder / "key.pem")}
    sent = log_in(server, BEARER | CLAIMS | key | {"sasl.oauthbearer.scope": "a b"})

    assert sent.pop("grant_type") == JWT_BEARER
    assert sent.pop("scope") == "a b"
    claims = verified(sent.pop("assertion"))
    assert sent == {}
    assert {name: claims[name] for name in ("iss", "sub", "aud")} == {
        "iss": "kafka",
        "sub": "alice",
        "aud": "https://idp",
    }
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    assert "jti" not in claims


def test_a_client_authenticates_with_an_assertion(server: TokenServer, folder: Path) -> None:
    key = {f"{ASSERTION}private.key.file": str(folder / "key.pem")}
    sent = log_in(server, CLIENT_ID | CLAIMS | key)

    verified(sent.pop("client_assertion"))
    assert sent == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_id": "kafka",
    }


def test_the_client_id_may_be_only_in_the_assertion(server: TokenServer) -> None:
    assert "client_id" not in log_in(server, CLAIMS | {f"{ASSERTION}private.key.pem": pem(RSA)})


def test_each_request_has_a_new_assertion(server: TokenServer) -> None:
    settings = CLAIMS | {f"{ASSERTION}private.key.pem": pem(RSA), f"{ASSERTION}claim.jti.include": "true"}
    ids = {verified(log_in(server, settings)["client_assertion"])["jti"] for _ in range(3)}

    assert len(ids) == 3


def test_es256_and_the_lifetimes_follow_the_keys(server: TokenServer) -> None:
    settings = CLAIMS | {
        f"{ASSERTION}private.key.pem": pem(EC),
        f"{ASSERTION}algorithm": "es256",
        f"{ASSERTION}claim.exp.seconds": "90",
        f"{ASSERTION}claim.nbf.seconds": "10",
    }
    claims = verified(log_in(server, settings)["client_assertion"], EC, "ES256")

    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (90, 10)


def test_an_encrypted_key_is_opened_with_its_passphrase(server: TokenServer, folder: Path) -> None:
    (folder / "key.pem").write_text(pem(RSA, "s3cret"))
    settings = CLAIMS | {f"{ASSERTION}private.key.file": str(folder / "key.pem")}

    verified(log_in(server, settings | {f"{ASSERTION}private.key.passphrase": "s3cret"})["client_assertion"])
    for passphrase in ({}, {f"{ASSERTION}private.key.passphrase": "wr0ng"}):
        said = problem("OAUTHBEARER", settings | passphrase | {URL: server.url()})
        assert "cannot be read" in said
        assert "wr0ng" not in said


def test_keys_take_precedence_over_headers_and_claims_of_a_template(server: TokenServer, folder: Path) -> None:
    template = {
        "header": {"kid": "key-1", "alg": "none", "typ": "evil"},
        "payload": {"iss": "template", "tenant": 7, "exp": 1, "sub": "alice", "aud": "https://idp"},
    }
    (folder / "template.json").write_text(json.dumps(template))
    settings = {
        f"{ASSERTION}private.key.pem": pem(RSA),
        f"{ASSERTION}template.file": str(folder / "template.json"),
        f"{ASSERTION}claim.iss": "kafka",
    }
    sent = log_in(server, settings)["client_assertion"]

    assert pyjwt.get_unverified_header(sent) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    claims = verified(sent)
    assert (claims["iss"], claims["tenant"], claims["sub"]) == ("kafka", 7, "alice")


@pytest.mark.parametrize("bearer", [True, False])
def test_a_ready_made_assertion_is_read_again_for_each_request(server: TokenServer, folder: Path, bearer: bool) -> None:
    file = folder / "assertion"
    settings = (BEARER if bearer else {}) | {f"{ASSERTION}file": str(file)}
    for number in (1, 2):
        file.write_text(jwt(number=number) + "\n")
        assert log_in(server, settings)["assertion" if bearer else "client_assertion"] == jwt(number=number)


def test_a_renewed_key_signs_the_next_assertion(server: TokenServer, folder: Path) -> None:
    made: Any = mechanism(
        "OAUTHBEARER", {URL: server.url(), **CLAIMS, f"{ASSERTION}private.key.file": str(folder / "key.pem")}
    )
    other = rsa.generate_private_key(65537, 2048)
    (folder / "key.pem").write_text(pem(other))
    made.authenticator("kafka", 9092).start()
    made.close()

    verified(form(server.asked[0])["client_assertion"], other)


def test_a_vanished_file_fails_the_login_with_its_name(server: TokenServer, folder: Path) -> None:
    (folder / "assertion").write_text(jwt())
    made: Any = mechanism("OAUTHBEARER", {URL: server.url(), f"{ASSERTION}file": str(folder / "assertion")})
    (folder / "assertion").unlink()

    with pytest.raises(AuthenticationError, match="cannot be read: No such file or directory"):
        made.authenticator("kafka", 9092).start()
    made.close()
    assert server.asked == []


@pytest.mark.rule("security.allowed.files")
@pytest.mark.parametrize("key", ["file", "private.key.file", "template.file"])
def test_a_file_must_be_allowed(key: str, tmp_path: Path) -> None:
    """Each leaves the process, or signs for the server that an option names."""
    settings = {URL: "https://idp/", f"{ASSERTION}private.key.pem": pem(RSA)} | {f"{ASSERTION}{key}": "/etc/passwd"}

    assert f"{ASSERTION}{key}: '/etc/passwd' may not be read" in problem("OAUTHBEARER", settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (BEARER, "JwtBearerJwtRetriever needs an assertion; set sasl.oauthbearer.assertion.file"),
        (CLAIMS, "need a private key; set sasl.oauthbearer.assertion.private.key.file"),
        ({f"{ASSERTION}private.key.pem": "s3cret"}, "cannot be read"),
        ({f"{ASSERTION}private.key.pem": pem(EC)}, "cannot be signed by RS256: "),
        ({f"{ASSERTION}private.key.pem": pem(RSA), f"{ASSERTION}algorithm": "none"}, "it must be RS256 or ES256"),
        ({f"{ASSERTION}private.key.pem": pem(RSA), f"{ASSERTION}algorithm": "HS256"}, "it must be RS256 or ES256"),
        (
            {
                f"{ASSERTION}private.key.pem": pem(RSA),
                "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
            },
            "and an assertion (sasl.oauthbearer.assertion.*) are both given",
        ),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(settings: dict[str, str], said: str) -> None:
    message = problem("OAUTHBEARER", {URL: "https://idp/"} | settings)

    assert said in message
    assert "s3cret" not in message
    assert "PRIVATE KEY" not in message


@pytest.mark.parametrize("content", ["", "[]", '{"header": []}', '{"payload": 7}', "[" * 100_000, "\x00"])
def test_an_invalid_template_is_refused(folder: Path, content: str) -> None:
    (folder / "template.json").write_text(content)
    template = {f"{ASSERTION}template.file": str(folder / "template.json")}

    assert "must be JSON of the form" in problem(
        "OAUTHBEARER", {URL: "https://idp/", f"{ASSERTION}private.key.pem": pem(RSA)} | template
    )


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(PluginNotFoundError, match=r"pip install 'ottla-authenticator-sasl\[jwt\]'"):
        mechanism("OAUTHBEARER", {URL: "https://idp/", f"{ASSERTION}private.key.pem": pem(RSA)})


def test_no_repr_shows_the_key_or_an_assertion(folder: Path) -> None:
    made: Any = mechanism(
        "OAUTHBEARER",
        {
            URL: "https://idp/",
            f"{ASSERTION}private.key.pem": pem(RSA, "s3cret"),
            f"{ASSERTION}private.key.passphrase": "s3cret",
        },
    )

    shown = repr(vars(made)) + repr(vars(vars(made)["_choice"].tokens))
    assert "s3cret" not in shown
    assert "PRIVATE" not in shown
