"""A registry behind TLS: its certificate is verified, the client's is sent, and a wrong one ends the attempts."""

from __future__ import annotations

import os
import re
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hostile_registry import Hostile, hostile_registry
from locked_keys import locked_pem

from ottla import ConfigError, Producer
from ottla.errors import SerializationError
from ottla_serializer_schema_registry import RegistryAccessError, RegistryUnavailableError
from ottla_serializer_schema_registry.registry import trust
from ottla_testkit.kafka_cluster.certificates import Certificates
from ottla_testkit.mock_producer import MockProducer
from token_endpoints import Answer, TokenServer

SCHEMA = '"long"'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def registry(certificates: Certificates) -> Iterator[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    with hostile_registry(tls=context) as running:
        yield running


def settings(registry: Hostile, **more: Any) -> dict[str, Any]:
    return {
        "value.serializer": "avro",
        "value.schema": SCHEMA,
        "schema.registry.url": registry.address,
        "max.block.ms": 30_000,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def send(given: dict[str, Any]) -> bytes | None:
    with MockProducer(given) as producer:
        producer.send("numbers", 5)
        producer.flush()
        value: bytes | None = producer.history[0].value
        return value


def test_the_password_goes_to_a_registry_whose_certificate_is_verified(
    registry: Hostile, certificates: Certificates
) -> None:
    given = settings(registry, schema_registry_ssl_ca_location=str(certificates.authority))
    assert send({**given, "basic.auth.user.info": "alice:secret"}) == b"\0\0\0\0\7\n"
    assert registry.requests[0][1]["Authorization"].startswith("Basic ")
    assert registry.client_certificates == [None]


def test_the_certificate_of_the_client_is_sent(registry: Hostile, certificates: Certificates) -> None:
    send(
        settings(
            registry,
            schema_registry_ssl_ca_location=str(certificates.authority),
            schema_registry_ssl_certificate_location=str(certificates.alice),
            schema_registry_ssl_key_location=str(certificates.alice),
        )
    )
    [certificate] = registry.client_certificates
    assert certificate is not None
    assert "alice" in str(certificate["subject"])


@pytest.mark.parametrize("authority", ["another_authority", "none"])
def test_a_registry_of_another_authority_gets_no_password(
    registry: Hostile, certificates: Certificates, authority: str
) -> None:
    given = settings(registry)
    if authority != "none":
        given["schema.registry.ssl.ca.location"] = str(getattr(certificates, authority))
    began = time.monotonic()
    with MockProducer({**given, "basic.auth.user.info": "alice:secret"}) as producer:
        with pytest.raises(SerializationError) as caught:
            producer.send("numbers", 5)
        cause = caught.value.__cause__
        assert isinstance(cause, RegistryUnavailableError)
        assert "cannot be verified" in str(cause)
        assert "schema.registry.ssl.ca.location" in str(cause)
        assert "secret" not in str(cause)
    assert time.monotonic() - began < 25, "no attempt is repeated"
    assert registry.requests == []


def test_a_certificate_for_another_host_is_refused(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.elsewhere)
    with hostile_registry(tls=context) as registry:
        given = settings(registry, schema_registry_ssl_ca_location=str(certificates.authority))
        with MockProducer(given) as producer, pytest.raises(SerializationError) as caught:
            producer.send("numbers", 5)
    assert "cannot be verified" in str(caught.value.__cause__)


def test_the_file_of_an_authority_that_is_missing_is_refused(tmp_path: Path) -> None:
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        **settings(Hostile(address="https://127.0.0.1:1")),
        "schema.registry.ssl.ca.location": str(tmp_path / "missing.pem"),
    }
    with pytest.raises(ValueError, match=r"schema\.registry\.ssl\.ca\.location"):
        Producer(given)


@pytest.mark.parametrize("key", ["ca.location", "certificate.location", "key.location"])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_a_special_file_is_refused_without_waiting(
    certificates: Certificates, tmp_path: Path, key: str, kind: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    given = {
        **settings(Hostile(address="https://127.0.0.1:1")),
        "schema.registry.ssl.certificate.location": str(certificates.alice),
        f"schema.registry.ssl.{key}": str(tmp_path / kind),
    }
    with pytest.raises(
        ConfigError, match=rf"registry\.ssl\.{re.escape(key)} cannot be used.*: it is not a regular file"
    ):
        MockProducer(given)


def test_a_key_with_too_many_iterations_is_refused_at_once(certificates: Certificates, tmp_path: Path) -> None:
    (tmp_path / "slow.pem").write_bytes(locked_pem(2**31 - 1))
    given = {
        **settings(Hostile(address="https://127.0.0.1:1")),
        "schema.registry.ssl.certificate.location": str(certificates.alice),
        "schema.registry.ssl.key.location": str(tmp_path / "slow.pem"),
        "schema.registry.ssl.key.password": "secret",
    }
    with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.key\.location cannot .* 5,000,000 iterations"):
        MockProducer(given)


def test_a_wrong_password_of_the_private_key_names_its_setting(certificates: Certificates, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(certificates.alice.read_bytes(), None)
    (tmp_path / "locked.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"right"),
        )
    )
    given = {
        **settings(Hostile(address="https://127.0.0.1:1")),
        "schema.registry.ssl.certificate.location": str(certificates.alice),
        "schema.registry.ssl.key.location": str(tmp_path / "locked.pem"),
    }
    with MockProducer({**given, "schema.registry.ssl.key.password": "right"}):
        pass
    for wrong in ({}, {"schema.registry.ssl.key.password": "wr0ng"}):
        with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.key\.password cannot be used") as caught:
            MockProducer({**given, **wrong})
        assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("key", ["schema.registry.ssl.ca.location", "schema.registry.ssl.certificate.location"])
def test_files_of_certificates_need_an_https_address(certificates: Certificates, key: str) -> None:
    given = settings(Hostile(address="http://127.0.0.1:1")) | {key: str(certificates.authority)}
    with pytest.raises(ConfigError, match=f"{re.escape(key)} belongs to an https address"):
        MockProducer(given)


@pytest.mark.parametrize(
    ("address", "warned"),
    [("http://registry:8081", True), ("https://registry:8081", False), ("http://127.0.0.1:8081", False)],
)
def test_a_password_without_encryption_is_a_warning(
    caplog: pytest.LogCaptureFixture, address: str, warned: bool
) -> None:
    given = settings(Hostile(address=address)) | {"basic.auth.user.info": "alice:secret"}
    with MockProducer(given):
        pass
    lines = [each.getMessage() for each in caplog.records if "no encryption" in each.getMessage()]
    assert len(lines) == warned
    assert all("can read basic.auth.user.info" in line and "secret" not in line for line in lines)


def in_place_of(file: Path, content: Path) -> None:
    """Replace a file as cert-manager and Kubernetes do."""
    new = file.with_suffix(".new")
    new.write_bytes(content.read_bytes())
    os.utime(new, ns=(time.time_ns(), time.time_ns()))
    new.replace(file)


def test_a_renewed_certificate_is_sent_with_the_next_request(
    registry: Hostile, certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "client.pem"
    in_place_of(file, certificates.alice)
    given = settings(
        registry,
        schema_registry_ssl_ca_location=str(certificates.authority),
        schema_registry_ssl_certificate_location=str(file),
    )
    with MockProducer(given) as producer:
        producer.send("one", 5)
        in_place_of(file, certificates.broker)
        producer.send("two", 5)
    first, second = map(str, registry.client_certificates)
    assert "alice" in first
    assert "alice" not in second
    assert second != "None"


def test_a_renewed_authority_is_trusted_at_the_next_request(
    registry: Hostile, certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    in_place_of(file, certificates.another_authority)
    with MockProducer(settings(registry, schema_registry_ssl_ca_location=str(file))) as producer:
        with pytest.raises(SerializationError):
            producer.send("one", 5)
        in_place_of(file, certificates.authority)
        producer.send("one", 5)
    assert len(registry.requests) == 1


def test_files_that_cannot_be_used_leave_the_old_ones_in_use(
    registry: Hostile, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ca.pem"
    in_place_of(file, certificates.authority)
    with MockProducer(settings(registry, schema_registry_ssl_ca_location=str(file))) as producer:
        file.write_text("half a fi")
        for topic in ("one", "two"):
            producer.send(topic, 5)
        in_place_of(file, certificates.another_authority)
        with pytest.raises(SerializationError):
            producer.send("three", 5)
    lines = [each.getMessage() for each in caplog.records if "have changed and cannot be used" in each.getMessage()]
    assert len(lines) == 1
    assert "schema.registry.ssl.ca.location cannot be used" in lines[0]


def test_files_that_do_not_respond_do_not_block_a_request(
    registry: Hostile, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(registry, schema_registry_ssl_ca_location=str(certificates.authority))
    ended = threading.Event()
    with MockProducer(given) as producer:
        monkeypatch.setattr(trust, "_state", lambda _path: ended.wait(60) or None)
        try:
            producer.send("one", 5)
        finally:
            ended.set()
    assert len(registry.requests) == 1


def test_files_that_do_not_respond_leave_most_of_its_time_to_a_request(
    registry: Hostile, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(registry, schema_registry_ssl_ca_location=str(certificates.authority), max_block_ms=8_000)
    ended = threading.Event()
    states: list[str] = []

    def state(path: str) -> None:
        states.append(path)
        ended.wait(60)

    with MockProducer(given) as producer:
        monkeypatch.setattr(trust, "_state", state)
        monkeypatch.setattr(trust, "FILES_TIMEOUT", 60.0)
        try:
            for topic in ("one", "two", "three"):  # the first one waits for a part of its time, the others for none
                producer.send(topic, 5)
        finally:
            ended.set()
    assert len(registry.requests) == 3
    assert len(states) == 1


def test_the_password_of_the_private_key_may_come_from_a_function(
    registry: Hostile, certificates: Certificates, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(certificates.alice.read_bytes(), None)
    (tmp_path / "locked.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"right"),
        )
    )
    given = settings(
        registry,
        schema_registry_ssl_ca_location=str(certificates.authority),
        schema_registry_ssl_certificate_location=str(certificates.alice),
        schema_registry_ssl_key_location=str(tmp_path / "locked.pem"),
    )
    send({**given, "schema.registry.ssl.key.password": lambda: "right"})
    assert "alice" in str(registry.client_certificates)

    def failing() -> str:
        raise LookupError("s3cret")

    for wrong in (failing, lambda: 7):
        with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.key\.password") as caught:
            MockProducer({**given, "schema.registry.ssl.key.password": wrong})
        assert "s3cret" not in str(caught.value)


def test_the_identity_server_is_verified_with_the_same_authorities(
    registry: Hostile, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    issuer = TokenServer(lambda _asked: Answer.of(access_token="token", expires_in=3600), tls=context)
    given = settings(registry, schema_registry_ssl_ca_location=str(certificates.authority)) | {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": issuer.url(),
        "bearer.auth.client.id": "alice",
        "bearer.auth.client.secret": "s3cret",
    }
    with issuer.serving():
        send(given)
        assert registry.requests[0][1]["Authorization"] == "Bearer token"
        given["schema.registry.ssl.ca.location"] = str(certificates.another_authority)
        with MockProducer(given) as producer, pytest.raises(SerializationError) as caught:
            producer.send("numbers", 5)
    assert isinstance(caught.value.__cause__, RegistryAccessError)
    assert "must be in schema.registry.ssl.ca.location" in str(caught.value.__cause__)
