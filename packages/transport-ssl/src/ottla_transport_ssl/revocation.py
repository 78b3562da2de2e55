"""Certificate revocation lists (CRLs, RFC 5280), read from `ssl.crl.location`.

OpenSSL decides whether a certificate is revoked. As in librdkafka, only the broker's own certificate is checked, not
those of the authorities above it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Self

import attrs

from ottla.config.secret_file import secret_file
from ottla.errors import ConfigError
from ottla_transport_ssl.certificate import TIMES, distinguished_name, moment
from ottla_transport_ssl.der import SEQUENCE, elements, inside, only
from ottla_transport_ssl.pem import Block, blocks
from ottla_transport_ssl.stores import StoreSource, read_content

_LABEL: Final = "X509 CRL"
_DER: Final = b"\x30"
_INTEGER: Final = 0x02


@attrs.frozen(kw_only=True)
class RevocationList:
    """A list's issuer, and the time of its next update, if it has one."""

    issuer: str
    next_update: datetime | None

    @classmethod
    def read(cls, der: bytes) -> Self:
        """Parse a CRL. Raises ValueError for other bytes."""
        try:
            fields = list(elements(inside(next(elements(only(der, SEQUENCE))), SEQUENCE)))
            if fields[0].tag == _INTEGER:  # its version
                del fields[0]
            _algorithm, issuer, _last_update, *rest = fields
            dated = bool(rest) and rest[0].tag in TIMES
            return cls(issuer=distinguished_name(issuer), next_update=moment(rest[0]) if dated else None)
        except (ValueError, IndexError, OverflowError, StopIteration) as cause:
            raise ValueError(f"not a CRL: {cause}") from cause


@attrs.frozen(kw_only=True)
class Revocation:
    """The source of the lists, and the lists."""

    source: StoreSource
    lists: Sequence[RevocationList]

    def of(self, issuer: str) -> Sequence[RevocationList]:
        """Return the lists of one issuer."""
        return [each for each in self.lists if each.issuer == issuer]


def check_revocation(context: ssl.SSLContext, source: StoreSource | None) -> Revocation | None:
    """Make the context refuse revoked certificates. Raises ConfigError."""
    if source is None:
        return None
    found = list(_lists(source))
    # OpenSSL gets only the lists, because it would also trust a certificate in the same file.
    written = b"".join(Block(label=_LABEL, body=der).written() for der in found)
    with secret_file(written) as path:
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            raise ConfigError([f"{source}: a revocation list in it is damaged; download it again"]) from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return Revocation(source=source, lists=_readable(found))


def _lists(source: StoreSource) -> Iterator[bytes]:
    """Yield the lists in DER, from a PEM file or a file with one list in DER."""
    content = read_content(source).reveal()
    try:
        found = [block.body for block in blocks(content) if block.label == _LABEL]
    except ValueError as cause:
        raise ConfigError([f"{source}: {cause}"]) from None
    if not found and content.startswith(_DER):
        found = [content]
    if not found:
        remedy = f"it must have a list of each issuer, as PEM (-----BEGIN {_LABEL}-----)"
        raise ConfigError([f"{source}: there is no revocation list in it; {remedy}"])
    yield from found


def _readable(found: Sequence[bytes]) -> Sequence[RevocationList]:
    lists = []
    for der in found:
        with contextlib.suppress(ValueError):  # OpenSSL accepts this list; only messages cannot show it
            lists.append(RevocationList.read(der))
    return lists
