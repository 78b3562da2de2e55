"""Details of a handshake for messages: protocol, cipher, certificates, and the host name check."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ottla_transport_ssl.certificate import Certificate, day
from ottla_transport_ssl.context_reload import SOON
from ottla_transport_ssl.handshake_errors import HandshakeInfo

WARNING: Final = "warning"

_MAX_SHOWN: Final = 10


def details(tls: ssl.SSLObject, info: HandshakeInfo, *, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the details of the handshake as labels and texts; warnings come last."""
    suite, _version, bits = tls.cipher() or ("none", "", 0)
    yield "protocol", tls.version() or "unknown"
    yield "cipher", f"{suite}, {bits} bits"
    certificates = info.certificates[:_MAX_SHOWN]
    for certificate in certificates:
        yield "certificate", f"{certificate}, valid from {day(certificate.not_before)} to {day(certificate.not_after)}"
    if certificates:
        yield "its names", ", ".join(certificates[0].names) or "none"
    checked = info.setup.context.check_hostname
    yield "host name", f"{tls.server_hostname} is one of them" if checked else "not checked"
    yield "trusted by", info.setup.trusted
    revocation = info.setup.revocation
    yield "revocation", f"not revoked by {revocation.source}" if revocation is not None else "not checked"
    if info.setup.ours is not None:
        yield "our own certificate", f"{info.setup.ours}, valid to {day(info.setup.ours.not_after)}"
    yield from _warnings(info, [*certificates, *filter(None, [info.setup.ours])], now=now)


def _warnings(info: HandshakeInfo, certificates: list[Certificate], *, now: datetime) -> Iterator[tuple[str, str]]:
    if not info.setup.context.check_hostname:
        yield (
            WARNING,
            "ssl.endpoint.identification.algorithm is empty, so any server with a trusted certificate is accepted",
        )
    for certificate in certificates:
        if certificate.not_after - now < SOON:
            yield WARNING, f"the certificate {certificate.subject!r} expires on {day(certificate.not_after)}"
