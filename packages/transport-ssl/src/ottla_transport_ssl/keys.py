"""Java's ssl.* keys, and librdkafka's for CRLs: their types, and the resulting settings.

Each key's type checks its value, and `read` checks combinations; no file is opened here.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.errors import ConfigError
from ottla.interfaces import ConfigKey, PluginConfig, Secret
from ottla_transport_ssl.cipher_suites import Suites, read_suites
from ottla_transport_ssl.passwords import Password
from ottla_transport_ssl.stores import StoreSource, StoreType

PROTOCOLS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

_RETIRED: Final = frozenset({"SSL", "SSLV2", "SSLV2HELLO", "SSLV3", "TLSV1", "TLSV1.1"})


@attrs.frozen(kw_only=True)
class TlsSettings:
    """The settings of one producer."""

    trust: StoreSource | None
    revocation: StoreSource | None
    identity: StoreSource | None
    check_host_names: bool
    lowest: ssl.TLSVersion
    highest: ssl.TLSVersion
    suites: Suites | None


def read(config: PluginConfig) -> TlsSettings:
    """Read the settings. Raises ConfigError with all contradictions."""
    problems = [*_trust_problems(config), *_identity_problems(config)]
    lowest, highest = _versions(config, problems)
    if problems:
        raise ConfigError(problems)
    return TlsSettings(
        trust=_trust(config),
        revocation=_revocation(config),
        identity=_identity(config),
        check_host_names=config["ssl.endpoint.identification.algorithm"] == "https",
        lowest=lowest,
        highest=highest,
        suites=config["ssl.cipher.suites"],
    )


# Types of single keys


def _text(written: Any) -> str | None:
    if isinstance(written, bytes):
        written = written.decode()
    if not isinstance(written, str):
        raise TypeError("write a string")
    return written.strip() or None


def _hidden_text(written: Any) -> Secret[str] | None:
    text = _text(written)
    return None if text is None else Secret(text)


def _password(written: Any) -> Password | None:
    if callable(written):
        function: Callable[[], Any] = written
        return function
    if not isinstance(written, str):
        raise TypeError("write a string, or a function without arguments")
    return Secret(written) if written else None


def _path(written: Any) -> str | None:
    return _text(os.fspath(written)) if isinstance(written, os.PathLike) else _text(written)


def _store_type(written: Any) -> StoreType | None:
    text = _text(written)
    if text is None:
        return None
    try:
        return StoreType(text.upper())
    except ValueError:
        raise ValueError(
            f"write one of {', '.join(StoreType)}, or nothing: by default the file's content decides"
        ) from None


def _algorithm(written: Any) -> str:
    text = (_text(written) or "").lower()
    if text not in ("", "https"):
        raise ValueError("write https, or nothing to leave host names unchecked")
    return text


def _protocol(written: Any) -> str:
    """Parse the newest version to use."""
    text = _text(written) or "TLS"
    return "TLSv1.3" if text.upper() == "TLS" else _one_version(text)


def _protocols(written: Any) -> Sequence[str]:
    names = _items(written)
    return [_one_version(name) for name in names] if names else list(PROTOCOLS)


def _one_version(name: str) -> str:
    for known in PROTOCOLS:
        if name.upper() == known.upper():
            return known
    if name.upper() in _RETIRED:
        raise ValueError(f"{name} is broken and retired (RFC 8996); write TLSv1.2 or TLSv1.3")
    raise ValueError(f"there is no {name}; write TLSv1.2 or TLSv1.3")


def _suites(written: Any) -> Suites | None:
    names = _items(written)
    return read_suites(names) if names else None


def _items(written: Any) -> Sequence[str]:
    parts = written.split(",") if isinstance(written, str) else written
    if isinstance(parts, bytes) or not isinstance(parts, Sequence) or not all(isinstance(each, str) for each in parts):
        raise TypeError("write a list, or a string with commas")
    return [part.strip() for part in parts if part.strip()]


def _one_of_javas(*accepted: str) -> Callable[[Any], None]:
    """Return a type for keys that choose parts of Java: it accepts the values with which Java behaves like OpenSSL."""

    def check(written: Any) -> None:
        text = _text(written)
        if text is not None and text.upper() not in map(str.upper, accepted):
            known = f"; {' and '.join(accepted)} are accepted, and change nothing" if accepted else ""
            raise ValueError(f"it chooses a part of Java, but Ottla uses OpenSSL{known}; leave the key out")

    return check


def _factory(written: Any) -> None:
    if _text(written) is not None:
        raise ValueError("Java classes cannot be loaded; leave the key out, or write a transport plugin of your own")


def _secret(name: str, meaning: str) -> ConfigKey:
    return ConfigKey(name=name, type=_hidden_text, default=None, meaning=meaning, secret=True)


def _opener(name: str, meaning: str) -> ConfigKey:
    """Return a key for a password: a string, or a function that is called whenever the store is read."""
    response = f"{meaning}; or a function that returns it"
    return ConfigKey(name=name, type=_password, default=None, meaning=response, secret=True, rotates=True)


def _open(name: str, type: Callable[[Any], Any], meaning: str, *, default: Any = None) -> ConfigKey:
    return ConfigKey(name=name, type=type, default=default, meaning=meaning)


_NO_CHOICE: Final = "Java's usual values are accepted, and change nothing"

KEYS: Final[Sequence[ConfigKey]] = (
    _open("ssl.truststore.location", _path, "the file with the authorities to trust; without it, those of the system"),
    _open("ssl.truststore.type", _store_type, "PEM, PKCS12 or JKS; by default the file's content decides"),
    _opener("ssl.truststore.password", "the password of a PKCS12 file with authorities"),
    _secret("ssl.truststore.certificates", "the authorities to trust as PEM text, instead of a file"),
    _open(
        "ssl.crl.location",
        _path,
        "a file with the revocation lists (CRLs) of those who issue the brokers' certificates; none: it is not checked",
    ),
    _open("ssl.keystore.location", _path, "the file with the client's certificate, its chain and its key"),
    _open("ssl.keystore.type", _store_type, "PEM, PKCS12 or JKS; by default the file's content decides"),
    _opener("ssl.keystore.password", "the password of a PKCS12 file with the client's certificate"),
    _secret("ssl.keystore.key", "the client's private key as PEM text (PKCS#8), instead of a file"),
    _secret("ssl.keystore.certificate.chain", "the client's certificate and its chain as PEM text, instead of a file"),
    _opener("ssl.key.password", "the password of the client's private key, if it is encrypted"),
    _open(
        "ssl.endpoint.identification.algorithm",
        _algorithm,
        "https: the broker's certificate must have the broker's host name; empty: any name is accepted",
        default="https",
    ),
    _open("ssl.protocol", _protocol, "the newest TLS version to use: TLSv1.3 (or TLS), or TLSv1.2", default="TLSv1.3"),
    _open(
        "ssl.enabled.protocols",
        _protocols,
        "the TLS versions that may be used: TLSv1.2, TLSv1.3",
        default=list(PROTOCOLS),
    ),
    _open("ssl.cipher.suites", _suites, "the cipher suites that may be used, by Java's or by OpenSSL's names"),
    _open("ssl.engine.factory.class", _factory, "not available: a Java class"),
    _open("ssl.provider", _one_of_javas(), "not available: OpenSSL is used"),
    _open("ssl.keymanager.algorithm", _one_of_javas("SunX509", "NewSunX509", "PKIX"), _NO_CHOICE),
    _open("ssl.trustmanager.algorithm", _one_of_javas("PKIX", "SunX509"), _NO_CHOICE),
    _open(
        "ssl.secure.random.implementation",
        _one_of_javas("SHA1PRNG", "NativePRNG", "NativePRNGNonBlocking", "DRBG"),
        _NO_CHOICE,
    ),
)


# Combinations of keys


def _trust_problems(config: PluginConfig) -> Sequence[str]:
    location, inline = config["ssl.truststore.location"], config["ssl.truststore.certificates"]
    problems = []
    if location and inline:
        problems.append("ssl.truststore.location and ssl.truststore.certificates are both set; leave one out")
    if inline and config["ssl.truststore.type"] not in (None, StoreType.PEM):
        problems.append("ssl.truststore.certificates are PEM text; set ssl.truststore.type=PEM or leave it out")
    if config["ssl.truststore.password"] and not location:
        problems.append("ssl.truststore.password is set without a file; set ssl.truststore.location")
    return problems


def _identity_problems(config: PluginConfig) -> Sequence[str]:
    location = config["ssl.keystore.location"]
    key, chain = config["ssl.keystore.key"], config["ssl.keystore.certificate.chain"]
    problems = []
    if location and (key or chain):
        problems.append(
            "ssl.keystore.location is set together with ssl.keystore.key or ssl.keystore.certificate.chain; leave the "
            "file or the texts out"
        )
    elif (key is None) != (chain is None):
        problems.append("ssl.keystore.key and ssl.keystore.certificate.chain go together; set both or neither")
    if (key or chain) and config["ssl.keystore.type"] not in (None, StoreType.PEM):
        problems.append("ssl.keystore.key is PEM text; set ssl.keystore.type=PEM or leave it out")
    if config["ssl.keystore.password"] and not location:
        problems.append(
            "ssl.keystore.password is set without a file; set ssl.keystore.location, or ssl.key.password if it is "
            "the private key's"
        )
    return problems


def _versions(config: PluginConfig, problems: list[str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    newest = PROTOCOLS[config["ssl.protocol"]]
    enabled = [PROTOCOLS[name] for name in config["ssl.enabled.protocols"] if PROTOCOLS[name] <= newest]
    suites: Suites | None = config["ssl.cipher.suites"]
    if not enabled:
        problems.append("ssl.protocol=TLSv1.2 and ssl.enabled.protocols=TLSv1.3 leave no TLS version to use")
    elif suites is not None:
        enabled = [version for version in enabled if suites.serve(version)]
        if not enabled:
            problems.append(
                "none of ssl.cipher.suites belongs to a version that ssl.protocol and ssl.enabled.protocols allow"
            )
    return (min(enabled), max(enabled)) if enabled else (newest, newest)


def _trust(config: PluginConfig) -> StoreSource | None:
    inline, location = config["ssl.truststore.certificates"], config["ssl.truststore.location"]
    if inline:
        return StoreSource(key="ssl.truststore.certificates", inline=inline, type=StoreType.PEM)
    if location:
        return StoreSource(
            key="ssl.truststore.location",
            location=location,
            type=config["ssl.truststore.type"],
            password=config["ssl.truststore.password"],
            password_key="ssl.truststore.password",
        )
    return None


def _revocation(config: PluginConfig) -> StoreSource | None:
    location = config["ssl.crl.location"]
    return StoreSource(key="ssl.crl.location", location=location, type=None) if location else None


def _identity(config: PluginConfig) -> StoreSource | None:
    key, location = config["ssl.keystore.key"], config["ssl.keystore.location"]
    if key:
        return StoreSource(
            key="ssl.keystore.key",
            inline=Secret(f"{key.reveal()}\n{config['ssl.keystore.certificate.chain'].reveal()}"),
            type=StoreType.PEM,
            key_password=config["ssl.key.password"],
        )
    if location:
        return StoreSource(
            key="ssl.keystore.location",
            location=location,
            type=config["ssl.keystore.type"],
            password=config["ssl.keystore.password"],
            password_key="ssl.keystore.password",
            key_password=config["ssl.key.password"],
        )
    return None
