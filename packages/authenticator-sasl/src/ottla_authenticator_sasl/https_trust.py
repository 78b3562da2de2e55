"""TLS settings for the identity server: trusted authorities, and the client's certificate if the server requests one.

The server is not a broker and usually has another authority, so `ssl.*`, the keys for brokers, do not apply. The keys
for authorities are librdkafka's, `https.ca.location` and `https.ca.pem`. Java's `ssl.*` options in `sasl.jaas.config`
are accepted instead, as in Java. Everything is PEM. Files are read for each connection, so that renewed ones apply.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from ottla.config.allow_lists import NotAllowedError, check_file, from_others
from ottla.config.key_derivation import check_iterations
from ottla.config.regular_files import read_regular_file, reason_of
from ottla.config.secret_file import secret_file
from ottla.errors import ConfigError, TlsHandshakeError, printable
from ottla.interfaces import ConfigKey, PluginConfig, Secret
from ottla_authenticator_sasl.login import JAAS, a_secret, a_string

MAX_FILE: Final = 16 << 20
"""Maximum bytes of a file, as of `ssl.*`."""

CA_FILE: Final = "https.ca.location"
CA_PEM: Final = "https.ca.pem"
CERTIFICATE_FILE: Final = "https.certificate.location"
CERTIFICATE_PEM: Final = "https.certificate.pem"
KEY_FILE: Final = "https.key.location"
KEY_PEM: Final = "https.key.pem"
KEY_PASSWORD: Final = "https.key.password"

HTTPS_KEYS: Final = (
    ConfigKey(name=CA_FILE, type=a_string, default=None, meaning="a PEM file with the identity server's authorities"),
    ConfigKey(name=CA_PEM, type=a_string, default=None, meaning="the same as text, instead of a file"),
    ConfigKey(
        name=CERTIFICATE_FILE,
        type=a_string,
        default=None,
        meaning="a PEM file with the client's certificate for the identity server, and its chain",
    ),
    ConfigKey(name=CERTIFICATE_PEM, type=a_string, default=None, meaning="the same as text, instead of a file"),
    ConfigKey(
        name=KEY_FILE,
        type=a_string,
        default=None,
        meaning="a PEM file with this certificate's private key, if it is not in the same file",
    ),
    ConfigKey(name=KEY_PEM, type=a_secret, default=None, meaning="the same as text, instead of a file", secret=True),
    ConfigKey(name=KEY_PASSWORD, type=a_secret, default=None, meaning="the private key's password", secret=True),
)

_OF_JAVA: Final = {
    "ssl.truststore.location": CA_FILE,
    "ssl.truststore.certificates": CA_PEM,
    "ssl.keystore.location": CERTIFICATE_FILE,
    "ssl.keystore.certificate.chain": CERTIFICATE_PEM,
    "ssl.keystore.key": KEY_PEM,
    "ssl.key.password": KEY_PASSWORD,
}
_SECRET: Final = (KEY_PEM, KEY_PASSWORD)
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")


@attrs.frozen(kw_only=True)
class HttpsTrust:
    """The configured PEM files and texts. `keys` names their configuration keys, for error messages."""

    ca_file: str | None = None
    ca_pem: str | None = attrs.field(default=None, repr=False)
    certificate_file: str | None = None
    certificate_pem: str | None = attrs.field(default=None, repr=False)
    key_file: str | None = None
    key_pem: Secret[str] | None = None
    key_password: Secret[str] | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context for one connection. Raises TlsHandshakeError."""
        try:
            with _copy_of(CA_FILE, self.ca_file) as authorities:
                context = ssl.create_default_context(cafile=authorities, cadata=self.ca_pem)
        except (OSError, ValueError) as error:
            raise _unusable(CA_PEM if self.ca_pem else CA_FILE, error) from error
        context.hostname_checks_common_name = False  # RFC 9525
        if self.certificate_file or self.certificate_pem:
            try:
                self._present(context)
            except (OSError, ValueError) as error:
                raise _unusable("https.certificate.* and https.key.*", error) from error
        return context

    def _present(self, context: ssl.SSLContext) -> None:
        """Load the client's certificate and key. OpenSSL reads only files, so it gets copies in memory."""
        with (
            _copy_of(CERTIFICATE_FILE, self.certificate_file, self.certificate_pem) as certificate,
            _copy_of(KEY_FILE, self.key_file, self.key_pem) as key,
        ):
            assert certificate is not None, "the caller has checked it"
            # Always pass a password: without one OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(certificate, key, password=self._password)

    def problems(self) -> list[str]:
        """Return problems of keys that are missing or contradict each other."""
        pairs = (
            (CA_FILE, self.ca_file, CA_PEM, self.ca_pem),
            (CERTIFICATE_FILE, self.certificate_file, CERTIFICATE_PEM, self.certificate_pem),
            (KEY_FILE, self.key_file, KEY_PEM, self.key_pem),
        )
        found = [f"{one} and {other} are both set; leave one out" for one, a, other, b in pairs if a and b]
        if (self.key_file or self.key_pem) and not (self.certificate_file or self.certificate_pem):
            found.append(f"{KEY_FILE} or {KEY_PEM} is set without its certificate; set {CERTIFICATE_FILE} too")
        if self.certificate_pem and not (self.key_pem or self.key_file):
            found.append(f"{CERTIFICATE_PEM} needs {KEY_PEM}")
        return found

    def _password(self) -> str:
        return "" if self.key_password is None else self.key_password.reveal()


def https_trust(config: PluginConfig, options: Mapping[str, str]) -> HttpsTrust:
    """Return the settings of `HTTPS_KEYS`, or of the `ssl.*` options in `sasl.jaas.config`. Raises ConfigError."""
    values = {key.name: config[key.name] for key in HTTPS_KEYS}
    for name in options:
        if name in _TYPES and options[name].upper() != "PEM":
            raise ConfigError([f"{name} in {JAAS} must be PEM, the only type for the identity server"])
        if name.startswith("ssl.") and name not in _OF_JAVA and name not in _TYPES:
            raise ConfigError([f"{name} in {JAAS} is not supported; supported are {', '.join(_OF_JAVA)}"])
        if (key := _OF_JAVA.get(name)) is None:
            continue
        if values[key] is not None:
            raise ConfigError([f"{key} and {name} in {JAAS} are both given; leave one out"])
        if from_others() and key.endswith(".location"):
            try:
                check_file(options[name])
            except NotAllowedError as error:
                raise ConfigError([f"{name} in {JAAS}: {error}"]) from None
        values[key] = Secret(options[name]) if key in _SECRET else options[name]
    trust = HttpsTrust(
        ca_file=values[CA_FILE],
        ca_pem=values[CA_PEM],
        certificate_file=values[CERTIFICATE_FILE],
        certificate_pem=values[CERTIFICATE_PEM],
        key_file=values[KEY_FILE],
        key_pem=values[KEY_PEM],
        key_password=values[KEY_PASSWORD],
    )
    problems = trust.problems()
    if problems:
        raise ConfigError(problems)
    try:
        trust.context()
    except TlsHandshakeError as error:
        raise ConfigError([str(error)]) from None
    return trust


class _UnusableFileError(ValueError):
    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@contextlib.contextmanager
def _copy_of(key: str, file: str | None, pem: str | Secret[str] | None = None) -> Iterator[str | None]:
    """Yield the path of a copy of a file or text; None if there is neither. *key* is the file's."""
    if file is None and pem is None:
        yield None
        return
    content = _content(key, file, pem)
    try:
        check_iterations(content)
    except ValueError as error:
        raise _UnusableFileError(key if file is not None else key.replace(".location", ".pem"), str(error)) from None
    with secret_file(content.reveal()) as path:
        yield path


def _content(key: str, file: str | None, pem: str | Secret[str] | None) -> Secret[bytes]:
    if file is None:
        return Secret((pem.reveal() if isinstance(pem, Secret) else str(pem)).encode("ascii"))
    try:
        return Secret(read_regular_file(file, max_bytes=MAX_FILE))
    except (OSError, ValueError) as error:
        raise _UnusableFileError(key, reason_of(error)) from error


def _unusable(keys: str, error: Exception) -> TlsHandshakeError:
    if isinstance(error, _UnusableFileError):
        keys, reason = error.key, printable(str(error))
    else:
        reason = str((error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)) or "")
    return TlsHandshakeError(
        f"{keys} cannot be used for the identity server: {reason or type(error).__name__}; it must be readable "
        "PEM, and a private key must match its certificate and its password"
    )
