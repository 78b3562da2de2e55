"""The keys of assertions: Java's eleven (KIP-1139, KIP-1258), and librdkafka's for a private key as text."""

from __future__ import annotations

from typing import Any, Final

from ottla.interfaces import ConfigKey, boolean
from ottla_authenticator_sasl.login import a_secret, a_string
from ottla_authenticator_sasl.value_types import number

_PREFIX: Final = "sasl.oauthbearer.assertion."

ALGORITHM: Final = f"{_PREFIX}algorithm"
AUDIENCE: Final = f"{_PREFIX}claim.aud"
EXPIRY: Final = f"{_PREFIX}claim.exp.seconds"
ISSUER: Final = f"{_PREFIX}claim.iss"
JTI: Final = f"{_PREFIX}claim.jti.include"
NOT_BEFORE: Final = f"{_PREFIX}claim.nbf.seconds"
SUBJECT: Final = f"{_PREFIX}claim.sub"
FILE: Final = f"{_PREFIX}file"
KEY_FILE: Final = f"{_PREFIX}private.key.file"
KEY_PEM: Final = f"{_PREFIX}private.key.pem"
PASSPHRASE: Final = f"{_PREFIX}private.key.passphrase"
TEMPLATE: Final = f"{_PREFIX}template.file"

FILES: Final = (FILE, KEY_FILE, TEMPLATE)
ALGORITHMS: Final = ("RS256", "ES256")


def _algorithm(raw: Any) -> str:
    name = str(raw).strip().upper()
    if name not in ALGORITHMS:
        raise ValueError(f"it must be {' or '.join(ALGORITHMS)}")
    return name


def _text(name: str, meaning: str, *, secret: bool = False) -> ConfigKey:
    return ConfigKey(name=name, type=a_secret if secret else a_string, default=None, meaning=meaning, secret=secret)


ASSERTION_KEYS: Final = (
    _text(FILE, "a file with a signed assertion, read for each request; it must be allowed"),
    _text(KEY_FILE, "the private key that signs assertions, as a PEM file; it must be allowed"),
    _text(KEY_PEM, "the private key as PEM text, instead of a file", secret=True),
    _text(PASSPHRASE, "the private key's passphrase", secret=True),
    ConfigKey(name=ALGORITHM, type=_algorithm, default="RS256", meaning="how assertions are signed: RS256 or ES256"),
    _text(TEMPLATE, "a JSON file with the default header and payload of an assertion; it must be allowed"),
    _text(ISSUER, "the claim iss of an assertion, usually the client's id"),
    _text(SUBJECT, "the claim sub of an assertion"),
    _text(AUDIENCE, "the claim aud of an assertion, usually the token endpoint"),
    ConfigKey(
        name=EXPIRY, type=number(minimum=0, maximum=86400), default=300.0, meaning="seconds until an assertion expires"
    ),
    ConfigKey(
        name=NOT_BEFORE,
        type=number(minimum=0, maximum=3600),
        default=60.0,
        meaning="how many seconds before its creation an assertion becomes valid",
    ),
    ConfigKey(name=JTI, type=boolean, default=False, meaning="whether each assertion gets a unique id (the claim jti)"),
)
