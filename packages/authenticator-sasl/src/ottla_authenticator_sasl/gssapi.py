"""GSSAPI (RFC 4752): Kerberos, through the library `gssapi`. It uses no Kerberos security layer: use TLS to encrypt.

The Kerberos library manages tickets: they come from the ticket cache that `kinit` fills, or from a keytab, and are
renewed there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config.allow_lists import NotAllowedError, check_file, check_login, from_others
from ottla.errors import AuthenticationError, ConfigError, PluginNotFoundError, printable, quoted
from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step
from ottla_authenticator_sasl.login import (
    JAAS,
    JAAS_KEY,
    JAVA_CLASS_KEYS,
    LOGIN_CALLBACK_KEY,
    a_string,
    module_options,
)

ottla_conformance = "ottla_authenticator_sasl.conformance:GssapiConformance"

NAME: Final = "GSSAPI"
SERVICE: Final = "sasl.kerberos.service.name"
PRINCIPAL: Final = "sasl.kerberos.principal"
KEYTAB: Final = "sasl.kerberos.keytab"

_NO_LAYER: Final = 1


@attrs.frozen(kw_only=True)
class KerberosLogin:
    """The client's principal (None: that of the ticket cache), and the service name of the brokers."""

    service: str
    principal: str | None
    keytab: str | None


class GssapiMechanism:
    """Create one context for each connection, all with the same credentials. *library* is the module `gssapi`."""

    name = NAME
    blocking = True
    concurrent_logins = True  # the Kerberos libraries of MIT and Heimdal are thread-safe, and a context has one login

    def __init__(self, library: Any, login: KerberosLogin) -> None:
        self._library = library
        self._login = login
        self.identity = login.principal
        self.remedy = f"check {SERVICE} and the broker's host name; the broker's principal consists of both"

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange with the service on this host."""
        return GssapiExchange(self._library, self._login, host=host)


class GssapiExchange:
    """Exchange Kerberos tokens; then choose no security layer when the broker offers its layers."""

    def __init__(self, library: Any, login: KerberosLogin, *, host: str) -> None:
        self._library = library
        self._login = login
        self._service = f"{login.service}@{host}"
        self._context: Any = None

    def start(self) -> bytes:
        """Return the first Kerberos token. Blocks if the ticket is missing, because the library then asks the KDC."""
        with _translated_errors(self._library, f"there is no Kerberos ticket for {self._service}"):
            self._context = self._new_context()
            token: bytes = self._context.step() or b""
            return token

    def challenge(self, data: bytes) -> Step:
        """Return the next Kerberos token, or the final message, which chooses a security layer."""
        with _translated_errors(self._library, f"Kerberos could not verify the identity of {self._service}"):
            if not self._context.complete:
                return Step(reply=self._context.step(data) or b"", done=False)
            return Step(reply=self._choose(self._context.unwrap(data).message), done=True)

    def _choose(self, offer: bytes) -> bytes:
        """Return the choice of no layer (RFC 4752).

        *offer* consists of a byte of layers, and a maximum size in three bytes.
        """
        if len(offer) != 4:
            raise AuthenticationError(f"{self._service} offers security layers in {len(offer)} bytes instead of 4")
        if not offer[0] & _NO_LAYER:
            raise AuthenticationError(
                f"{self._service} requires a Kerberos security layer (sasl.qop), which Ottla does not support; use "
                "SASL_SSL"
            )
        wrapped: bytes = self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message
        return wrapped

    def _new_context(self) -> Any:
        library = self._library
        flags = library.RequirementFlag
        return library.SecurityContext(
            name=library.Name(self._service, name_type=library.NameType.hostbased_service),
            creds=self._credentials(),
            flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
            mech=library.MechType.kerberos,
            usage="initiate",
        )

    def _credentials(self) -> Any:
        """Return the credentials; None uses those of the ticket cache, for any principal."""
        library, login = self._library, self._login
        if login.principal is None and login.keytab is None:
            return None
        name = None
        if login.principal is not None:
            name = library.Name(login.principal, name_type=library.NameType.kerberos_principal)
        store = None if login.keytab is None else {"client_keytab": login.keytab}
        return library.Credentials(name=name, usage="initiate", store=store)


@contextlib.contextmanager
def _translated_errors(library: Any, what: str) -> Iterator[None]:
    """Convert the library's errors to Ottla's, with the library's message."""
    try:
        yield
    except library.exceptions.GSSError as error:
        raise AuthenticationError(
            f"{what}: {quoted(str(error))}; check the ticket (klist, kinit) or {KEYTAB}, and the broker's principal"
        ) from error


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the brokers' service, and for the client's principal and keytab."""
    return (
        ConfigKey(
            name=SERVICE, type=a_string, default=None, meaning="the service name: the first part of brokers' principals"
        ),
        ConfigKey(
            name=PRINCIPAL,
            type=a_string,
            default=None,
            meaning="the client's principal; without it, that of the ticket cache",
        ),
        ConfigKey(
            name=KEYTAB,
            type=a_string,
            default=None,
            meaning="the client's keytab file; without it, the ticket cache is used",
        ),
        JAAS_KEY,
        LOGIN_CALLBACK_KEY,
        *JAVA_CLASS_KEYS,
    )


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `GSSAPI`."""
    login = _login(config)
    try:
        # Checked also with a keytab, because the Kerberos library prefers a ticket in the process's cache.
        check_login("kerberos", what="Kerberos tickets")
    except NotAllowedError as error:
        raise ConfigError([f"sasl.mechanism={NAME}: {error}"]) from None
    try:
        library = importlib.import_module("gssapi")
    except ImportError as error:
        raise PluginNotFoundError(
            "sasl.mechanism=GSSAPI needs the library gssapi; try: pip install 'ottla-authenticator-sasl[gssapi]' "
            f"(with Kerberos' headers, such as Debian's libkrb5-dev) ({printable(str(error))})"
        ) from None
    return GssapiMechanism(library, login)


def _login(config: PluginConfig) -> KerberosLogin:
    options = module_options(config, mechanism=NAME, module="Krb5LoginModule", plain=(PRINCIPAL, KEYTAB))
    service = _service(config, options or {})
    if options is None:
        _check_kind(KEYTAB, config[KEYTAB])
        return KerberosLogin(service=service, principal=config[PRINCIPAL], keytab=config[KEYTAB])
    keytab = options.get("keyTab") if options.get("useKeyTab", "").lower() == "true" else None
    if keytab is not None and from_others():
        try:
            check_file(keytab)
        except NotAllowedError as error:
            raise ConfigError([f"keyTab in {JAAS}: {error}"]) from None
    _check_kind(f"keyTab in {JAAS}", keytab)
    return KerberosLogin(service=service, principal=options.get("principal"), keytab=keytab)


def _check_kind(key: str, keytab: str | None) -> None:
    """Refuse a pipe or a device, which the Kerberos library would read. It reports a file that is missing."""
    path = (keytab or "").removeprefix("FILE:")
    if "\0" in path or (os.path.exists(path) and not os.path.isfile(path)):
        raise ConfigError([f"{key}={printable(keytab or '')} is not a regular file"])


def _service(config: PluginConfig, options: Mapping[str, str]) -> str:
    plain, of_java = config[SERVICE], options.get("serviceName")
    if plain and of_java and plain != of_java:
        raise ConfigError([f"{SERVICE} and serviceName in {JAAS} differ; leave one out"])
    service: str | None = plain or of_java
    if not service:
        raise ConfigError([f"sasl.mechanism={NAME} needs {SERVICE}; it is kafka for most brokers"])
    return service
