"""A wrong setting is reported at once, by an error of its own type that names what to change.

`delivery.timeout.ms` is minutes, so whatever comes first is what the user sees.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla import Producer
from ottla.errors import (
    AuthenticationError,
    CertificateExpiredError,
    CertificateNotTrustedError,
    CertificateRevokedError,
    ClientCertificateRequiredError,
    HostnameMismatchError,
    OttlaError,
    ProtocolMismatchError,
    RevocationUnknownError,
    TlsHandshakeError,
    TopicUnavailableError,
    UnsupportedSaslMechanismError,
)
from ottla_testkit.kafka_cluster.certificates import Certificates
from secure_broker import PASSWORD, SecureBroker

pytestmark = pytest.mark.kafka

MINUTES = {"delivery.timeout.ms": 600_000, "max.block.ms": 600_000}
HANG_GUARD_S = 60.0


def refusal(settings: dict[str, Any]) -> tuple[BaseException, float]:
    """The errors of `send` or its delivery, the innermost cause first, and the seconds that it took."""
    began = time.monotonic()
    producer = Producer(settings | MINUTES)
    try:
        error = _raised(lambda: producer.send("any", b"value").result(HANG_GUARD_S))
    finally:
        seconds = time.monotonic() - began
        producer.close(0)
    return error, seconds


def _raised(call: Callable[[], object]) -> BaseException:
    with pytest.raises(OttlaError) as caught:
        call()
    error: BaseException = caught.value
    while not _reported(error) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _reported(error: BaseException) -> bool:
    return isinstance(error, ProtocolMismatchError | AuthenticationError) or type(error).__module__ == "" or _tls(error)


def _tls(error: BaseException) -> bool:
    return isinstance(error, TlsHandshakeError)


def expect(settings: dict[str, Any], kind: type[BaseException], *words: str) -> None:
    error, seconds = refusal(settings)
    print(f"{kind.__name__} after {seconds:.2f} s: {error}")
    assert isinstance(error, kind)
    for word in words:
        assert word in str(error)


def test_an_untrusted_authority_of_a_broker_is_reported(secure: SecureBroker) -> None:
    unknown_authority = str(secure.security.certificates.another_authority)

    expect(
        secure.tls() | {"ssl.truststore.location": unknown_authority},
        CertificateNotTrustedError,
        "ssl.truststore.location",
        unknown_authority,
    )


def test_an_authority_unknown_to_the_system_is_reported(secure: SecureBroker) -> None:
    settings = {key: value for key, value in secure.tls().items() if "truststore" not in key}

    expect(settings, CertificateNotTrustedError, "ssl.truststore")


def test_a_certificate_for_another_host_is_reported(secure: SecureBroker) -> None:
    expect(secure.tls("ELSEWHERE"), HostnameMismatchError, "127.0.0.1", "kafka.example.com", "advertised.listeners")


def test_an_expired_broker_certificate_is_reported(secure: SecureBroker) -> None:
    expect(secure.tls("EXPIRED"), CertificateExpiredError)


def test_a_revoked_broker_certificate_is_reported(secure: SecureBroker) -> None:
    certificates = secure.security.certificates
    revoked = certificates.revocation_list("revoked", certificates.alice, certificates.broker)

    expect(
        secure.tls() | {"ssl.crl.location": str(revoked)},
        CertificateRevokedError,
        "was revoked by its issuer",
        f"ssl.crl.location={revoked}",
    )


def test_an_expired_revocation_list_is_reported(secure: SecureBroker) -> None:
    old = secure.security.certificates.revocation_list("old", days_left=-1)

    expect(
        secure.tls() | {"ssl.crl.location": str(old)},
        RevocationUnknownError,
        "expired on",
        "download the issuer's newest list",
    )


def test_a_missing_revocation_list_is_reported(secure: SecureBroker) -> None:
    other = Certificates(secure.security.folder / "others").revocation_list("theirs")

    expect(secure.tls() | {"ssl.crl.location": str(other)}, RevocationUnknownError, "ssl.crl.location")


def test_a_broker_certificate_that_was_not_revoked_is_accepted(secure: SecureBroker) -> None:
    certificates = secure.security.certificates
    lists = certificates.revocation_list("others", certificates.alice)
    secure.kafka.create_topic("not-revoked")

    with Producer(secure.tls() | {"ssl.crl.location": str(lists)}) as producer:
        assert producer.send("not-revoked", b"value").result(HANG_GUARD_S).offset == 0


def test_a_required_client_certificate_is_reported(secure: SecureBroker) -> None:
    expect(secure.tls("MUTUAL"), ClientCertificateRequiredError, "ssl.keystore")


def test_an_untrusted_client_certificate_is_reported(secure: SecureBroker) -> None:
    unknown_authority = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(secure.security.certificates.untrusted),
    }

    expect(secure.tls("MUTUAL") | unknown_authority, ClientCertificateRequiredError, "ssl.keystore")


def test_plaintext_to_a_tls_listener_is_reported(secure: SecureBroker) -> None:
    expect({"bootstrap.servers": secure.kafka.listener("SSL")}, ProtocolMismatchError, "security.protocol")


def test_tls_to_a_plaintext_listener_is_reported(secure: SecureBroker) -> None:
    expect(
        secure.tls() | {"bootstrap.servers": secure.kafka.bootstrap_servers},
        ProtocolMismatchError,
        "security.protocol",
    )


def test_a_mechanism_that_the_broker_does_not_support_is_reported(secure: SecureBroker) -> None:
    settings = secure.sasl("SCRAM-SHA-256", encrypted=False)

    expect(
        settings | {"bootstrap.servers": secure.kafka.listener("PLAIN_ONLY")},
        UnsupportedSaslMechanismError,
        "SCRAM-SHA-256",
        "PLAIN",
        "sasl.mechanism",
    )


@pytest.mark.parametrize("encrypted", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_reported(secure: SecureBroker, mechanism: str, encrypted: bool) -> None:
    settings = secure.sasl(mechanism, encrypted=encrypted) | {"sasl.password": "secret-that-is-wrong"}

    error, seconds = refusal(settings)
    print(f"after {seconds:.2f} s: {error}")

    assert isinstance(error, AuthenticationError)
    assert "alice" in str(error)
    assert "secret-that-is-wrong" not in str(error)


def test_a_token_that_the_broker_refuses_is_reported(secure: SecureBroker) -> None:
    settings = secure.sasl("OAUTHBEARER", encrypted=True)
    for key in list(settings):
        if key.startswith("sasl.oauthbearer"):
            del settings[key]
    header, claims, _signature = secure.identity.token().split(".")

    expect(
        settings | {"sasl.oauthbearer.token.provider": lambda: f"{header}.{claims}.c2VjcmV0"},
        AuthenticationError,
        "invalid_token",
    )


def test_an_expired_token_is_reported(secure: SecureBroker) -> None:
    login = secure.login("OAUTHBEARER")
    settings = {key: value for key, value in secure.sasl("OAUTHBEARER", encrypted=True).items() if key not in login}
    header, _claims, signature = secure.identity.token().split(".")
    claims = base64.urlsafe_b64encode(b'{"sub": "alice", "exp": 1600000000}').decode().rstrip("=")

    expect(
        settings | {"sasl.oauthbearer.token.provider": lambda: f"{header}.{claims}.{signature}"},
        AuthenticationError,
        "expired at 2020-09-13",
    )


def test_a_missing_login_is_reported(secure: SecureBroker) -> None:
    """The broker closes the connection without a response to what is not a login, so only the wait's end shows it."""
    settings = {"bootstrap.servers": secure.kafka.listener("SASL_PLAINTEXT"), "max.block.ms": 2_000}

    with Producer(settings) as producer, pytest.raises(TopicUnavailableError) as caught:
        producer.send("any", b"value")

    print(caught.value)
    assert "security.protocol" in str(caught.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_right_password_works_after_a_wrong_one(secure: SecureBroker, encrypted: bool, tmp_path: Path) -> None:
    settings = secure.sasl("SCRAM-SHA-256", encrypted=encrypted)
    wrong = settings | {"sasl.password": "secret-that-is-wrong"} | MINUTES
    with Producer(wrong) as producer, pytest.raises(OttlaError, match="alice"):
        producer.send("any", b"x").result(HANG_GUARD_S)

    secure.kafka.create_topic(f"after-{encrypted}")
    with Producer(settings | {"sasl.password": PASSWORD}) as producer:
        assert producer.send(f"after-{encrypted}", b"x").result(HANG_GUARD_S).offset == 0
