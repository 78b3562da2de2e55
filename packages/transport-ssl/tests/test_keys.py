"""Java's ssl.* keys as they stand: what each takes, what goes together, and a refusal for the rest."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, TlsHandshakeError
from ottla.plugins.registry import Registry
from ottla_transport_ssl.keys import KEYS, TlsSettings, read
from ottla_transport_ssl.stores import StoreType
from tls_peers import transport


def settings(written: dict[str, Any]) -> TlsSettings:
    draft = ConfigDraft.read({"bootstrap.servers": "localhost:9093", "security.protocol": "SSL", **written})
    values = draft.claim(KEYS, plugin="ssl")
    draft.finish()
    return read(values)


def test_the_plugin_is_found_by_its_security_protocol_name() -> None:
    plugin = Registry().plugin("transport", "ssl")

    assert plugin.distribution == "ottla-transport-ssl"
    assert plugin.config_keys() == tuple(KEYS)


def test_every_tls_key_of_java_is_declared_and_the_crl_keys_of_librdkafka() -> None:
    assert sorted(key.name for key in KEYS) == [
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]


def test_keys_that_are_passwords_in_java_are_secret() -> None:
    assert {key.name for key in KEYS if key.secret} == {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }


def test_the_defaults_are_strict_and_trust_the_system() -> None:
    assert settings({}) == TlsSettings(
        trust=None,
        revocation=None,
        identity=None,
        check_host_names=True,
        lowest=ssl.TLSVersion.TLSv1_2,
        highest=ssl.TLSVersion.TLSv1_3,
        suites=None,
    )


@pytest.mark.parametrize(
    ("written", "lowest", "highest"),
    [
        ({"ssl.protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl.protocol": "TLS"}, "TLSv1_2", "TLSv1_3"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        ({"ssl.enabled.protocols": ["TLSv1.2"]}, "TLSv1_2", "TLSv1_2"),
        ({"ssl.enabled.protocols": " tlsv1.3 , TLSv1.2,"}, "TLSv1_2", "TLSv1_3"),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1_3", "TLSv1_3"),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,ECDHE-RSA-AES128-GCM-SHA256"}, "TLSv1_2", "TLSv1_3"),
    ],
)
def test_versions_are_those_allowed_by_every_key(written: dict[str, Any], lowest: str, highest: str) -> None:
    read = settings(written)

    assert (read.lowest.name, read.highest.name) == (lowest, highest)


def test_java_settings_that_openssl_always_follows_are_accepted() -> None:
    settings(
        {
            "ssl.keymanager.algorithm": "SunX509",
            "ssl.trustmanager.algorithm": "PKIX",
            "ssl.secure.random.implementation": "SHA1PRNG",
            "ssl.provider": "",
            "ssl.engine.factory.class": "",
            "ssl.keystore.type": "",
            "ssl.cipher.suites": "",
        }
    )


def test_store_types_are_case_insensitive() -> None:
    read = settings({"ssl.truststore.location": "/x", "ssl.truststore.type": "pkcs12"})

    assert read.trust is not None
    assert read.trust.type is StoreType.PKCS12


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type='BKS': write one of PEM, PKCS12, JKS"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "write https, or nothing"),
        ({"ssl.protocol": "TLSv1.1"}, "TLSv1.1 is broken and retired (RFC 8996); write TLSv1.2 or TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "SSLv3 is broken and retired"),
        ({"ssl.enabled.protocols": "TLSv1.4"}, "there is no TLSv1.4"),
        ({"ssl.enabled.protocols": 3}, "write a list, or a string with commas"),
        ({"ssl.cipher.suites": "TLS_FOO"}, "there is no cipher suite TLS_FOO here"),
        ({"ssl.provider": "BCFIPS"}, "it chooses a part of Java, but Ottla uses OpenSSL; leave the key out"),
        ({"ssl.trustmanager.algorithm": "Mine"}, "PKIX and SunX509 are accepted, and change nothing"),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "Java classes cannot be loaded"),
        ({"ssl.truststore.location": 3}, "write a string"),
        (
            {"ssl.truststore.location": "/x", "ssl.truststore.certificates": "y"},
            "ssl.truststore.location and ssl.truststore.certificates are both set",
        ),
        ({"ssl.truststore.certificates": "y", "ssl.truststore.type": "JKS"}, "set ssl.truststore.type=PEM"),
        ({"ssl.truststore.password": "hunter2"}, "ssl.truststore.password is set without a file"),
        ({"ssl.keystore.location": "/x", "ssl.keystore.key": "y"}, "leave the file or the texts out"),
        ({"ssl.keystore.key": "hunter2"}, "ssl.keystore.key and ssl.keystore.certificate.chain go together"),
        ({"ssl.keystore.certificate.chain": "y"}, "set both or neither"),
        (
            {"ssl.keystore.key": "y", "ssl.keystore.certificate.chain": "y", "ssl.keystore.type": "PKCS12"},
            "set ssl.keystore.type=PEM",
        ),
        ({"ssl.keystore.password": "hunter2"}, "ssl.keystore.password is set without a file"),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "leave no TLS version to use"),
        (
            {"ssl.protocol": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "none of ssl.cipher.suites belongs to a version",
        ),
        ({"ssl.key.password": 3}, "ssl.key.password=[hidden]: not accepted"),
    ],
)
def test_an_impossible_value_is_refused_by_name(written: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(written)

    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        settings({"ssl.truststore.password": "x", "ssl.keystore.password": "x", "ssl.keystore.key": "x"})

    assert len(caught.value.problems) == 3


def test_secrets_are_in_no_repr() -> None:
    shown = repr(
        settings(
            {
                "ssl.truststore.certificates": "hunter2",
                "ssl.keystore.location": "/keys",
                "ssl.keystore.password": "hunter2",
                "ssl.key.password": "hunter2",
            }
        )
    )

    assert "/keys" in shown
    assert "hunter2" not in shown


def test_an_impossible_host_is_an_ottla_error() -> None:
    ours, theirs = socket.socketpair()
    with pytest.raises(TlsHandshakeError, match="cannot be the name of a TLS server"):
        transport({}).open(ours, ".x" * 100, 9093)
    ours.close()
    theirs.close()
