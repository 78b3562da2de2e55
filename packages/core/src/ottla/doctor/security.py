"""What is told of encryption and login: the places for the transports and mechanisms that have something to tell.

A connection that came through its handshake is encrypted as its transport says; certificates are told here once a
transport offers them.
"""

from __future__ import annotations

from ottla.config import SecurityProtocol
from ottla.doctor.findings import Finding, Step


def tls(protocol: SecurityProtocol) -> Finding:
    """Chain, host name and expiry of the server's certificate."""
    if protocol.transport == "plaintext":
        return Finding.skipped(Step.TLS, f"not used with security.protocol={protocol}")
    return Finding.skipped(Step.TLS, "the transport made the handshake and tells no details of it")


def sasl(protocol: SecurityProtocol) -> Finding:
    """The login: after API versions, before anything else is asked."""
    if not protocol.sasl:
        return Finding.skipped(Step.SASL, f"not used with security.protocol={protocol}")
    return Finding.skipped(Step.SASL, "this version of the doctor does not log in")
