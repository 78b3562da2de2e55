"""The doctor's findings about a real broker with TLS and authentication."""

from __future__ import annotations

import pytest

from ottla.doctor import examine
from ottla.doctor.findings import Status, Step
from secure_broker import SecureBroker

pytestmark = pytest.mark.kafka


def test_a_working_connection_is_reported_with_certificate_and_login(secure: SecureBroker) -> None:
    secure.kafka.create_topic("examined")

    examination = examine(secure.sasl("SCRAM-SHA-512", encrypted=True), topic="examined", send=True, timeout=60)

    said = {finding.step: finding for finding in examination.findings}
    assert examination.cause is None
    assert {said[step].status for step in (Step.TLS, Step.SASL, Step.RECORD)} == {Status.OK}
    assert "TLSv1.3" in said[Step.TLS].message
    assert "SCRAM-SHA-512" in said[Step.SASL].message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.password": "secret-that-is-wrong"}, "sasl.password"),
        ({"ssl.truststore.location": None}, "ssl.truststore"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol"),
    ],
)
def test_the_problem_is_one_sentence(secure: SecureBroker, change: dict[str, str | None], words: str) -> None:
    settings = secure.sasl("SCRAM-SHA-512", encrypted=True) | change
    if settings["ssl.truststore.location"] is None:
        settings["ssl.truststore.location"] = str(secure.security.certificates.another_authority)

    examination = examine(settings, timeout=60)

    assert examination.cause is not None
    assert words in examination.cause.sentence


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_doctor_finds_a_wrong_password_at_the_login(secure: SecureBroker, mechanism: str) -> None:
    settings = secure.sasl(mechanism, encrypted=True) | {"sasl.password": "secret-that-is-wrong"}
    examination = examine(settings, timeout=60)

    assert examination.cause is not None
    assert examination.cause.step is Step.SASL
    assert "alice" in examination.cause.message


def test_the_doctor_finds_an_unknown_authority_in_the_handshake(secure: SecureBroker) -> None:
    untrusted = str(secure.security.certificates.another_authority)
    examination = examine(secure.tls() | {"ssl.truststore.location": untrusted}, timeout=60)

    assert examination.cause is not None
    assert examination.cause.step is Step.HANDSHAKE
    assert "O=Ottla tests" in examination.cause.message
    assert "ssl.truststore.location" in examination.cause.remedy
    [versions] = [found for found in examination.findings if found.step is Step.API_VERSIONS]
    assert (versions.status, versions.message) == (Status.SKIPPED, "no handshake was completed")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_doctor_finds_that_a_client_certificate_is_required(secure: SecureBroker, version: str) -> None:
    """In the newer version the broker says so only after the handshake."""
    examination = examine(secure.tls("MUTUAL") | {"ssl.enabled.protocols": version}, timeout=60)

    assert examination.cause is not None
    assert "requires a client certificate" in examination.cause.message
    assert "ssl.keystore.location" in examination.cause.remedy
