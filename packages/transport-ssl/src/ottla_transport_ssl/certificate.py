"""The fields of a certificate that messages show: subject, issuer, dates and host names.

This module verifies nothing: OpenSSL decides on trust. Certificates come from the network, so all results are bounded
and printable.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import attrs

from ottla.errors import printable
from ottla_transport_ssl.der import BOOLEAN, OBJECT, OCTET_STRING, SEQUENCE, SET, Element, elements, inside, only

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_DNS_NAME: Final = 0x82
_IP_ADDRESS: Final = 0x87
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")

_MAX_NAMES: Final = 20
_LONGEST_NAME: Final = 200

_ATTRIBUTES: Final[Mapping[bytes, str]] = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
    bytes.fromhex("2a864886f70d010901"): "emailAddress",
}

_ENCODINGS: Final[Mapping[int, str]] = {0x0C: "utf-8", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""Encodings of string types; the others are read as Latin-1, a superset of them all."""

TIMES: Final[Mapping[int, int]] = {0x17: 2, 0x18: 4}
"""UTCTime and GeneralizedTime, and the number of digits of their years."""


@attrs.frozen(kw_only=True)
class Certificate:
    """The readable part of an X.509 certificate. `names` are host names from its subjectAltName."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    names: Sequence[str]
    fingerprint: str

    @classmethod
    def read(cls, der: bytes) -> Self:
        """Parse a certificate. Raises ValueError for other bytes."""
        try:
            return cls._read(der)
        except (ValueError, IndexError, OverflowError) as cause:
            raise ValueError(f"not a certificate: {cause}") from cause

    def __str__(self) -> str:
        return f"{self.subject!r} (issued by {self.issuer!r})"

    @classmethod
    def _read(cls, der: bytes) -> Self:
        signed = list(elements(only(der, SEQUENCE)))
        fields = list(elements(inside(signed[0], SEQUENCE)))
        if fields[0].tag == _VERSION:
            del fields[0]
        _serial, _algorithm, issuer, validity, subject, *rest = fields
        not_before, not_after = map(moment, elements(inside(validity, SEQUENCE)))
        names = (name for field in rest if field.tag == _EXTENSIONS for name in _names(field.content))
        return cls(
            subject=distinguished_name(subject),
            issuer=distinguished_name(issuer),
            not_before=not_before,
            not_after=not_after,
            names=tuple(itertools.islice(names, _MAX_NAMES)),
            fingerprint=hashlib.sha256(der).hexdigest(),
        )


def day(moment: datetime) -> str:
    """Return a time as errors and log lines show it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _attributes(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the parts of a distinguished name as pairs of a kind, such as CN, and a value."""
    for group in elements(content):
        for pair in elements(inside(group, SET)):
            kind, value = elements(inside(pair, SEQUENCE))
            yield _ATTRIBUTES.get(inside(kind, OBJECT), "?"), _text(value)


def distinguished_name(element: Element) -> str:
    """Return a name as in RFC 4514 and Java: the most specific part first."""
    attributes = list(_attributes(inside(element, SEQUENCE)))
    return ", ".join(f"{kind}={value}" for kind, value in reversed(attributes[-_MAX_NAMES:]))


def _names(content: bytes) -> Iterator[str]:
    for extension in elements(only(content, SEQUENCE)):
        kind, *critical, value = elements(inside(extension, SEQUENCE))
        if inside(kind, OBJECT) == _ALTERNATIVE_NAMES and all(flag.tag == BOOLEAN for flag in critical):
            for name in elements(only(inside(value, OCTET_STRING), SEQUENCE)):
                if name.tag == _DNS_NAME:
                    yield _text(name)
                elif name.tag == _IP_ADDRESS:
                    yield str(ipaddress.ip_address(name.content))


def _text(element: Element) -> str:
    text = element.content.decode(_ENCODINGS.get(element.tag, "latin-1"), errors="replace")
    return printable(text, limit=_LONGEST_NAME)


def moment(element: Element) -> datetime:
    """Parse a UTCTime or a GeneralizedTime."""
    digits = element.content.decode("ascii")
    year = TIMES.get(element.tag)
    if year is None or len(digits) != year + 11 or not digits[:-1].isdigit() or digits[-1] != "Z":
        raise ValueError("a time that cannot be read")
    number = int(digits[:year])
    if year == 2:
        number += 1900 if number >= 50 else 2000
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(year, year + 10, 2))
    return datetime(number, month, day, hour, minute, second, tzinfo=UTC)
