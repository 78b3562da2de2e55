"""Java's names of cipher suites, and OpenSSL's own, become OpenSSL's; others are refused by name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import pytest

from ottla_transport_ssl.cipher_suites import Suites, read_suites
from tls_peers import transport

NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}


def offered(settings: Mapping[str, str]) -> set[str]:
    """The suites of a connection with these settings."""
    return {suite["name"] for suite in transport(settings)._setups.current().context.get_ciphers()}


def test_the_broker_chooses_no_numbers_unless_a_suite_with_dhe_is_named() -> None:
    ordinary = offered({})
    everything = {suite["name"] for suite in ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).get_ciphers()}

    assert ordinary == {name for name in everything if not name.startswith("DHE-")}
    assert ordinary < everything
    assert "DHE-RSA-AES256-GCM-SHA384" in offered({"ssl.cipher.suites": "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"})


@pytest.mark.parametrize(("java", "openssl"), NAMES.items())
def test_java_suite_names_become_openssl_names(java: str, openssl: str) -> None:
    read = read_suites([java])

    assert read == read_suites([openssl])
    assert read.tls12 == (openssl,)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(openssl)
    assert openssl in [suite["name"] for suite in context.get_ciphers()]


def test_each_suite_belongs_to_one_tls_version() -> None:
    both = read_suites(["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256"])

    assert both == Suites(tls12=("ECDHE-RSA-AES128-GCM-SHA256",), tls13=frozenset({"TLS_AES_256_GCM_SHA384"}))
    assert both.serve(ssl.TLSVersion.TLSv1_2)
    assert both.serve(ssl.TLSVersion.TLSv1_3)
    assert not read_suites(["TLS_AES_256_GCM_SHA384"]).serve(ssl.TLSVersion.TLSv1_2)
    assert not read_suites(["AES128-SHA"]).serve(ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(
    "name",
    [
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_NULL_SHA256",
        "TLS_DH_anon_WITH_AES_128_GCM_SHA256",
        "ADH-AES128-GCM-SHA256",
        "NULL-SHA256",
        "PSK-AES128-GCM-SHA256",
        "ALL",
        "!aNULL",
        "ECDHE-RSA-AES128-GCM-SHA256:ADH-AES128-SHA",
    ],
)
def test_insecure_and_unknown_suites_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no cipher suite"):
        read_suites([name])


def test_a_suite_of_tls_1_3_that_openssl_does_not_offer_is_refused() -> None:
    with pytest.raises(ValueError, match="OpenSSL does not offer TLS_AES_128_CCM_SHA256 in"):
        read_suites(["TLS_AES_128_CCM_SHA256"])
