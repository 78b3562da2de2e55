"""Translation of `ssl` errors into Ottla's errors, with cause and remedy.

OpenSSL's message is kept where it says more than Ottla's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from ottla.errors import (
    CertificateExpiredError,
    CertificateNotTrustedError,
    CertificateRevokedError,
    ClientCertificateRequiredError,
    ConnectionFailedError,
    HostnameMismatchError,
    OttlaError,
    ProtocolMismatchError,
    RevocationUnknownError,
    TlsHandshakeError,
)
from ottla_transport_ssl.certificate import Certificate, day
from ottla_transport_ssl.contexts import Setup

_IN_THE_CLEAR: Final = "set security.protocol=PLAINTEXT, or SASL_PLAINTEXT, if this listener does not encrypt"
_OTHER_PORT: Final = "check the ports in bootstrap.servers and advertised.listeners"
_MAX_SHOWN: Final = 16
_MAX_LISTS: Final = 5
_MAX_AUTHORITIES: Final = 3

_RECORD_TYPES: Final = range(0x14, 0x19)
_MAJOR_VERSION: Final = 0x03

_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_NAME: Final = frozenset({62, 64})
"""Verification results of OpenSSL: the certificate lacks the host name, or the IP address."""

_REVOKED: Final = 23
_NO_LIST, _LIST_EXPIRED = 3, 12
_ABOUT_LISTS: Final = frozenset({_NO_LIST, 5, 8, 11, _LIST_EXPIRED, 15, 16, 33, 35, 36, 44, 54})
"""Verification results for a revocation list that is missing, expired, damaged, of another issuer or unreadable."""


@attrs.frozen(kw_only=True)
class HandshakeInfo:
    """A connection, for error messages: the peer, our setup, and the peer's certificates."""

    peer: str
    setup: Setup
    chain: Sequence[bytes] = ()

    @property
    def certificates(self) -> Sequence[Certificate]:
        """The readable certificates of the peer's chain, its own one first."""
        found = []
        for der in self.chain:
            try:
                found.append(Certificate.read(der))
            except ValueError:
                break
        return found


def refused(error: ssl.SSLError, info: HandshakeInfo) -> OttlaError:
    """Return the error for a failed handshake, with the cause that OpenSSL or the peer's alert gives."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_verified(error, info)
    reason = error.reason or ""
    sort = _alert(reason) or reason
    if sort in _ABOUT_US:
        return _we_are_refused(sort, info)
    if sort in _PASSING:
        return ConnectionFailedError(f"{info.peer} aborted the TLS handshake: {_words(error)}")
    remedy = next((said(info) for reasons, said in _REMEDIES.items() if sort in reasons), "")
    return TlsHandshakeError(f"the TLS handshake with {info.peer} failed: {_words(error)}{remedy}")


def broken(error: ssl.SSLError, info: HandshakeInfo) -> OttlaError:
    """Return the error for a connection that broke after the handshake, when TLS 1.3 verifies our certificate."""
    sort = _alert(error.reason or "")
    if sort in _ABOUT_US:
        return _we_are_refused(sort, info)
    return ConnectionFailedError(f"the TLS connection to {info.peer} broke: {_words(error)}")


def flooded(info: HandshakeInfo) -> OttlaError:
    """Return the error for a peer that sends TLS's own messages without end."""
    return ConnectionFailedError(
        f"{info.peer} sends too many messages of TLS itself, such as key updates, and hardly any data"
    )


def no_tls(first_bytes: bytes, info: HandshakeInfo) -> ProtocolMismatchError | None:
    """Return the error for a peer whose first bytes are not TLS, or None."""
    if not first_bytes or (first_bytes[0] in _RECORD_TYPES and first_bytes[1:2] in (b"", bytes([_MAJOR_VERSION]))):
        return None
    return ProtocolMismatchError(
        f"{info.peer} does not speak TLS: it answered {first_bytes[:_MAX_SHOWN]!r}; {_IN_THE_CLEAR}, else {_OTHER_PORT}"
    )


def hung_up(first_bytes: bytes, info: HandshakeInfo) -> OttlaError:
    """Return the error for a peer that closed in the handshake: immediately, as a listener without TLS, or later."""
    if not first_bytes:
        return ProtocolMismatchError(
            f"{info.peer} closed the connection after our TLS ClientHello without a response, as a listener without "
            f"TLS does; {_IN_THE_CLEAR}, else {_OTHER_PORT}"
        )
    return no_tls(first_bytes, info) or ConnectionFailedError(
        f"{info.peer} closed the connection during the TLS handshake; its log may say why"
    )


def suite_refused(suite: str, info: HandshakeInfo) -> TlsHandshakeError:
    """Return the error for a TLS 1.3 suite that is not allowed but was offered, because Python cannot leave it out."""
    return TlsHandshakeError(
        f"{info.peer} chose {suite}, which is not in ssl.cipher.suites; Python's ssl always offers all suites of "
        "TLS 1.3: add it, or set ssl.enabled.protocols=TLSv1.2"
    )


# The peer's certificate, verified by OpenSSL


def _not_verified(error: ssl.SSLCertVerificationError, info: HandshakeInfo) -> TlsHandshakeError:
    if error.verify_code in _OTHER_NAME:
        return _other_name(info)
    if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
        return _out_of_date(error, info)
    if error.verify_code == _REVOKED:
        return _revoked(info)
    if error.verify_code in _ABOUT_LISTS:
        return _not_known_to_be_good(error, info)
    shown = info.certificates
    whose = f". It is {shown[0]}" if shown else ""
    if len(shown) > 1:
        whose += f", and the last issuer in its chain is {shown[-1].issuer!r}"
    return CertificateNotTrustedError(
        f"the certificate of {info.peer} is not trusted: {error.verify_message}{whose}. Trusted: "
        f"{info.setup.trusted}{_authorities(info)}; set ssl.truststore.location to a file with the authority that "
        "issued it"
    )


def _authorities(info: HandshakeInfo) -> str:
    """Return the subjects of the certificates in the trust store of the configuration, or nothing for the system's."""
    subjects = [repr(found.subject) for source, found in info.setup.given if str(source) == info.setup.trusted]
    more = len(subjects) - _MAX_AUTHORITIES
    shown = ", ".join(subjects[:_MAX_AUTHORITIES])
    return f" ({shown}{f' and {more} more' if more > 0 else ''})" if shown else ""


def _other_name(info: HandshakeInfo) -> HostnameMismatchError:
    shown = info.certificates[:1]
    names = [name for certificate in shown for name in certificate.names]
    if names:
        what = f"a certificate for other names: {', '.join(names)}"
        remedy = "use one of them in bootstrap.servers and advertised.listeners, or have one issued for this name"
    else:
        whose = f" ({shown[0].subject!r})" if shown else ""
        what = f"a certificate without a host name in subjectAltName{whose}, and its common name is ignored (RFC 9525)"
        remedy = "have a certificate issued with this name or address as subjectAltName"
    return HostnameMismatchError(f"{info.peer} shows {what}; {remedy}")


def _out_of_date(error: ssl.SSLCertVerificationError, info: HandshakeInfo) -> CertificateExpiredError:
    now = datetime.now(UTC)
    for certificate in info.certificates:
        if not certificate.not_before <= now <= certificate.not_after:
            valid = f"from {day(certificate.not_before)} to {day(certificate.not_after)}"
            return CertificateExpiredError(
                f"a certificate of {info.peer} is not valid now ({error.verify_message}): {certificate} is valid "
                f"{valid}, but this machine's clock says {day(now)}; have it renewed, or correct the clock"
            )
    return CertificateExpiredError(
        f"the certificate of an authority for {info.peer} is not valid now ({error.verify_message}); renew it in "
        f"{info.setup.trusted}"
    )


def _revoked(info: HandshakeInfo) -> CertificateRevokedError:
    shown = info.certificates
    whose = f", {shown[0]}," if shown else ""
    return CertificateRevokedError(
        f"the certificate of {info.peer}{whose} was revoked by its issuer ({_lists_from(info)}); the broker "
        "needs a new one, and a server that shows this one may be an impostor"
    )


def _not_known_to_be_good(error: ssl.SSLCertVerificationError, info: HandshakeInfo) -> RevocationUnknownError:
    """Return the error for a missing or unusable revocation list: the check requires a list of the issuer."""
    shown, revocation = info.certificates, info.setup.revocation
    issuer = shown[0].issuer if shown else "its issuer"
    ended = [each.next_update for each in (revocation.of(issuer) if revocation else ()) if each.next_update]
    source = _lists_from(info)
    if error.verify_code == _NO_LIST and not (revocation and revocation.of(issuer)):
        known = ", ".join(repr(each.issuer) for each in (revocation.lists if revocation else ())[:_MAX_LISTS])
        why = f"{source} has no revocation list of {issuer!r}, only of {known or 'others'}"
        remedy = "add that issuer's list to the file"
    elif error.verify_code == _LIST_EXPIRED and ended:
        why = f"the revocation list of {issuer!r} in {source} expired on {day(max(ended))}"
        remedy = "download the issuer's newest list into the file, which is read again for the next connection"
    else:
        why = f"the revocation list of {issuer!r} in {source} cannot be used: {error.verify_message}"
        remedy = "download the issuer's newest list into the file"
    return RevocationUnknownError(
        f"it is not known whether the certificate of {info.peer} was revoked: {why}; {remedy}, or leave out "
        "ssl.crl.location to skip this check"
    )


def _lists_from(info: HandshakeInfo) -> str:
    return str(info.setup.revocation.source) if info.setup.revocation is not None else "ssl.crl.location"


# Our certificate, verified by the peer

_ABOUT_US: Final[Mapping[str, str]] = {
    "CERTIFICATE_REQUIRED": "",
    "BAD_CERTIFICATE": "it is not acceptable",
    "UNSUPPORTED_CERTIFICATE": "it is of the wrong kind; is it for client authentication?",
    "CERTIFICATE_REVOKED": "it was revoked",
    "CERTIFICATE_EXPIRED": "it is not valid now",
    "CERTIFICATE_UNKNOWN": "it is not acceptable, for example because the broker does not trust its issuer",
    "UNKNOWN_CA": "the broker does not know who issued it (ssl.truststore.location of the broker)",
    "ACCESS_DENIED": "it is valid, but the broker does not allow its owner to connect",
}
"""Alerts about our certificate, or about its absence."""


def _we_are_refused(sort: str, info: HandshakeInfo) -> ClientCertificateRequiredError:
    setup = info.setup
    if not setup.ours_from:
        return ClientCertificateRequiredError(
            f"{info.peer} requires a client certificate, but none is configured; set ssl.keystore.location, or "
            "ssl.keystore.key with ssl.keystore.certificate.chain"
        )
    whose = f" of {setup.ours}" if setup.ours else ""
    until = f", valid until {day(setup.ours.not_after)}" if setup.ours else ""
    why = _ABOUT_US[sort] or "none of the authorities that the broker names has issued it"
    return ClientCertificateRequiredError(
        f"{info.peer} refused our certificate{whose}{until}, from {setup.ours_from}: {why}"
    )


# Other errors

_PASSING: Final = frozenset({"INTERNAL_ERROR", "USER_CANCELLED"})
"""Alerts for internal errors of the peer, which may not occur at the next attempt."""


def _versions(info: HandshakeInfo) -> str:
    context = info.setup.context
    lowest, highest = (bound.name.replace("_", ".") for bound in (context.minimum_version, context.maximum_version))
    return f"; the enabled versions are {lowest} to {highest} (ssl.enabled.protocols, ssl.protocol)"


def _nothing_in_common(info: HandshakeInfo) -> str:
    wanted = "" if info.setup.ours_from else ", and ssl.keystore.location if it requires a client certificate"
    return (
        f": no TLS version or cipher suite in common{_versions(info)}; check ssl.cipher.suites (it has to name "
        f"suites with DHE, which are not used by default){wanted}"
    )


def _too_weak(info: HandshakeInfo) -> str:
    return "; the broker's key or signature is too weak for this OpenSSL: have its certificate or its settings renewed"


_REMEDIES: Final[Mapping[frozenset[str], Callable[[HandshakeInfo], str]]] = {
    frozenset({"PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION", "WRONG_VERSION_NUMBER"}): _versions,
    frozenset({"HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY", "WRONG_CIPHER_RETURNED"}): _nothing_in_common,
    frozenset({"DH_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}): _too_weak,
}


def _alert(reason: str) -> str:
    """Return the RFC name of the peer's alert, or an empty string if the error is not an alert."""
    _prefix, found, name = reason.partition("ALERT_")
    return name if found else ""


def _words(error: ssl.SSLError) -> str:
    """Return the error's message, without the file and line of OpenSSL's source."""
    reason = error.reason or (error.args[1] if len(error.args) > 1 else str(error))
    alert = _alert(reason)
    said = (alert or reason).replace("_", " ").lower()
    return f"it sent the alert {said!r}" if alert else said
