"""Creation of an `ssl` context from settings: versions, cipher suites, trust store, and key store.

Values that OpenSSL refuses raise ConfigError, which names key and file.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn, TypeAlias

import attrs

from ottla.config.secret_file import secret_file
from ottla.errors import ConfigError, files_remedy
from ottla_transport_ssl.certificate import Certificate
from ottla_transport_ssl.cipher_suites import usual_suites
from ottla_transport_ssl.keys import TlsSettings
from ottla_transport_ssl.pem import Block
from ottla_transport_ssl.revocation import Revocation, check_revocation
from ottla_transport_ssl.stores import Identity, StoreSource, authorities, identity
from ottla_transport_ssl.system_store import trust_system

Given: TypeAlias = tuple[StoreSource, Certificate]

_TOO_WEAK: Final = frozenset({"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "DH_KEY_TOO_SMALL"})
_STRONG_ENOUGH: Final = "have a certificate issued with an EC key, or an RSA key of 2048 bits or more, and SHA-256"


@attrs.frozen(kw_only=True)
class Setup:
    """A context, and its sources: `given` holds the certificates of the configuration.

    `allowed13` lists the suites that may be used in TLS 1.3, if not all: Python cannot configure them before 3.15.
    """

    context: ssl.SSLContext
    allowed13: frozenset[str] | None
    trusted: str
    revocation: Revocation | None
    ours: Certificate | None
    ours_from: str
    given: Sequence[Given]


def make_setup(settings: TlsSettings) -> Setup:
    """Create a setup, and read its files. Raises ConfigError, or PluginNotFoundError for a file's library."""
    context = _bare_context(settings)
    problems: list[str] = []
    given: Sequence[Given] = ()
    revocation: Revocation | None = None
    ours: Sequence[Given] = ()
    with _noting(problems, settings.trust):
        given = _trust(context, settings.trust)
    with _noting(problems, settings.revocation):
        revocation = check_revocation(context, settings.revocation)
    with _noting(problems, settings.identity):
        ours = _present(context, settings.identity)
    if problems:
        raise ConfigError(problems)
    return Setup(
        context=context,
        allowed13=settings.suites.tls13 if settings.suites is not None else None,
        trusted=str(settings.trust) if settings.trust is not None else _system_store(),
        revocation=revocation,
        ours=ours[0][1] if ours else None,
        ours_from=str(settings.identity) if settings.identity is not None else "",
        given=(*given, *ours),
    )


@contextlib.contextmanager
def _noting(problems: list[str], source: StoreSource | None) -> Iterator[None]:
    """Add the problems of errors in the block to *problems*, so that all are raised together."""
    try:
        yield
    except ConfigError as error:
        problems.extend(error.problems)
    except OSError as error:  # for example no temporary file for OpenSSL
        problems.append(f"{source}: it cannot be used: {error.strerror or error}{files_remedy(error)}")


def _bare_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_host_names
    # RFC 9525: only subjectAltName has the host names of a certificate. By default OpenSSL falls back to its common
    # name.
    context.hostname_checks_common_name = False
    context.minimum_version, context.maximum_version = settings.lowest, settings.highest
    context.options |= ssl.OP_NO_RENEGOTIATION
    # As in Java, every certificate in a trust store is trusted, even if it is no root or a broker's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.suites is None:
        context.set_ciphers(":".join(usual_suites(context)))
    elif settings.suites.tls12:
        context.set_ciphers(":".join(settings.suites.tls12))
    return context


def _trust(context: ssl.SSLContext, source: StoreSource | None) -> Sequence[Given]:
    """Trust the certificates in the store, or the system's if *source* is None; return the store's certificates."""
    if source is None:
        try:
            trust_system(context)
        except OSError as error:
            raise ConfigError([f"{_system_store()} cannot be read: {error.strerror}{files_remedy(error)}"]) from None
        return ()
    found = authorities(source)
    for number, certificate in enumerate(found, start=1):
        try:
            context.load_verify_locations(cadata=certificate)
        except ssl.SSLError:
            raise ConfigError([f"{source}: entry {number} of {len(found)} is not a certificate"]) from None
    return _readable(source, found)


def _present(context: ssl.SSLContext, source: StoreSource | None) -> Sequence[Given]:
    """Load the client's certificate, if any, into *context*, for brokers that request one; return its chain."""
    if source is None:
        return ()
    own = identity(source)
    chain = b"".join(Block(label="CERTIFICATE", body=certificate).written() for certificate in own.chain)
    with secret_file(chain + own.key) as path:
        try:
            # Always pass a password: without one OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(path, password=own.password.reveal() if own.password is not None else "")
        except (ssl.SSLError, ValueError) as error:
            _refuse(source, own, getattr(error, "reason", None))
    return _readable(source, own.chain)


def _refuse(source: StoreSource, own: Identity, reason: str | None) -> NoReturn:
    if reason == "KEY_VALUES_MISMATCH":
        what = f"the private key does not belong to the first certificate, {_subject(own)}"
    elif reason in _TOO_WEAK:
        what = f"the certificate, {_subject(own)}, is too weak for this OpenSSL ({reason}); {_STRONG_ENOUGH}"
    elif own.encrypted:
        what = "the private key cannot be decrypted; ssl.key.password is wrong, or the key is damaged"
    else:
        what = "the certificate or the private key in it is damaged"
    # Without its cause, whose message may quote a password.
    raise ConfigError([f"{source}: {what}"]) from None


def _subject(own: Identity) -> str:
    try:
        return str(Certificate.read(own.chain[0]))
    except ValueError:
        return "whose fields cannot be read"


def _readable(source: StoreSource, chain: Sequence[bytes]) -> Sequence[Given]:
    found = []
    for der in chain:
        with contextlib.suppress(ValueError):  # OpenSSL accepts this certificate; only messages cannot show it
            found.append((source, Certificate.read(der)))
    return found


def _system_store() -> str:
    paths = ssl.get_default_verify_paths()
    where = paths.cafile or paths.capath or "which has no folder here"
    return f"the system's authorities ({where})"
