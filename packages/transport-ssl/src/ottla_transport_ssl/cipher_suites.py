"""Translation of cipher suites from Java's names, which are IANA's, to OpenSSL's.

Only suites that Kafka's brokers may offer and that OpenSSL still supports: none that is anonymous, NULL, RC4, DES or
export.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

TLS13: Final = frozenset(
    {
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""TLS 1.3 suites, which have the same name in both."""

ALWAYS_OFFERED: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"})
"""OpenSSL's TLS 1.3 suites; Python's ssl cannot change them before 3.15."""

_EXCHANGES: Final[Mapping[str, str]] = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}

_CIPHERS: Final[Mapping[str, str]] = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CCM": "AES256-CCM",
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}


@attrs.frozen(kw_only=True)
class Suites:
    """The allowed suites: OpenSSL's names for TLS 1.2, and those of TLS 1.3."""

    tls12: Sequence[str]
    tls13: frozenset[str]

    def serve(self, version: ssl.TLSVersion) -> bool:
        """Return whether a suite of this TLS version is allowed."""
        return bool(self.tls13 if version is ssl.TLSVersion.TLSv1_3 else self.tls12)


def read_suites(names: Sequence[str]) -> Suites:
    """Parse names. Raises ValueError for an unknown one."""
    tls13 = [name for name in names if name in TLS13]
    available = _available()
    tls12 = [_openssl_name(name, available) for name in names if name not in TLS13]
    lacking = [name for name in tls13 if name not in ALWAYS_OFFERED]
    if lacking:
        raise ValueError(f"OpenSSL does not offer {', '.join(lacking)} in TLS 1.3; it offers {_listed()}")
    return Suites(tls12=tuple(tls12), tls13=frozenset(tls13))


def usual_suites(context: ssl.SSLContext) -> Sequence[str]:
    """Return the TLS 1.2 suites of a context, without those whose numbers the broker chooses (DHE).

    A number of 10,000 bits would keep the I/O thread busy for seconds in each handshake. Brokers have ECDHE.
    """
    names = [suite["name"] for suite in context.get_ciphers()]
    return [name for name in names if name not in TLS13 and not name.startswith("DHE-")]


def _openssl_name(name: str, available: frozenset[str]) -> str:
    exchange, _with, cipher = name.removeprefix("TLS_").partition("_WITH_")
    translated = name
    if exchange in _EXCHANGES and cipher in _CIPHERS:
        translated = _EXCHANGES[exchange] + _CIPHERS[cipher]
    if translated not in available:
        raise ValueError(
            f"there is no cipher suite {name} here; for TLS 1.3 there are {_listed()}, for 1.2 for "
            "instance TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
    return translated


def _available() -> frozenset[str]:
    """Return the TLS 1.2 suites of this OpenSSL, by its own names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:!aNULL:!eNULL:!PSK:!SRP")
    return frozenset(suite["name"] for suite in context.get_ciphers()) - TLS13


def _listed() -> str:
    return ", ".join(sorted(ALWAYS_OFFERED))
