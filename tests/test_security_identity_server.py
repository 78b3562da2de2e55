"""A real identity server behind TLS with an authority of its own, and a real broker that takes its tokens."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ottla import Producer
from readback import read_back
from secure_broker import PASSWORD, SecureBroker, allowed
from token_endpoints import Answer, Asked, TokenServer

pytestmark = pytest.mark.kafka

CLIENT_ID = {"sasl.oauthbearer.client.credentials.client.id": "alice"}
ASSERTION = {
    "sasl.oauthbearer.assertion.claim.iss": "alice",
    "sasl.oauthbearer.assertion.claim.sub": "alice",
    "sasl.oauthbearer.assertion.claim.jti.include": "true",
}
BEARER = {"sasl.oauthbearer.jwt.retriever.class": "JwtBearerJwtRetriever"}


@pytest.fixture
def front(secure: SecureBroker, tmp_path: Path) -> Iterator[tuple[TokenServer, dict[str, str]]]:
    """The identity server behind TLS, which wants a certificate of ours; and the settings that TLS needs."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("alice").private_key_and_cert_chain_pem.write_to_path(tmp_path / "alice.pem")

    def forward(asked: Asked) -> Answer:
        headers = {name: value for name, value in asked.headers.items() if name in ("Authorization", "Content-Type")}
        # This server wants to know the client of every grant; RFC 7523 section 3.1 leaves it to the assertion.
        who = "" if "client_id" in asked.body or "Authorization" in headers else "&client_id=alice&client_secret=any"
        request = urllib.request.Request(secure.identity.token_url, (asked.body + who).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # type: ignore[no-any-return,unused-ignore]
                return Answer(body=answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(status=error.code, body=error.read())

    with TokenServer(forward, tls=context).serving() as serving, allowed(serving.url()):
        files = {"https.ca.location": "ca.pem", "https.certificate.location": "alice.pem"}
        yield serving, {key: str(tmp_path / name) for key, name in files.items()}


def key() -> str:
    private = rsa.generate_private_key(65537, 2048)
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        pytest.param(
            CLIENT_ID | {"sasl.oauthbearer.client.credentials.client.secret": PASSWORD}, {"grant_type"}, id="a secret"
        ),
        pytest.param(
            CLIENT_ID | ASSERTION,
            {"grant_type", "client_assertion", "client_assertion_type", "client_id"},
            id="an assertion that proves the client",
        ),
        pytest.param(BEARER | ASSERTION, {"grant_type", "assertion"}, id="an assertion that is exchanged"),
    ],
)
def test_records_are_sent_after_a_login_with_a_token_of_the_server(
    secure: SecureBroker, front: tuple[TokenServer, dict[str, str]], login: dict[str, str], sent: set[str]
) -> None:
    server, tls = front
    if login.keys() & ASSERTION.keys():
        pytest.importorskip("jwt")
        login = login | {
            "sasl.oauthbearer.assertion.private.key.pem": key(),
            "sasl.oauthbearer.assertion.claim.aud": secure.identity.token_url,
        }
    topic = f"identity-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)
    settings: dict[str, Any] = secure.sasl("OAUTHBEARER", encrypted=True)
    ours = {name: value for name, value in settings.items() if not name.startswith("sasl.oauthbearer.")}
    endpoint = {"sasl.oauthbearer.token.endpoint.url": server.url(), "sasl.oauthbearer.scope": "produce"}
    with Producer(ours | endpoint | tls | login) as producer:
        producer.send(topic, b"through").result(60)

    assert [record.value for record in read_back(secure.kafka.bootstrap_servers, topic)] == [b"through"]
    [asked] = server.asked
    assert set(dict(urllib.parse.parse_qsl(asked.body))) == sent | {"scope"}
