"""The authorities and the client's certificate of the settings, from PEM files that are read with limits."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Final

from ottla.config.function_calls import ask
from ottla.config.key_derivation import check_iterations
from ottla.config.regular_files import read_regular_file, reason_of
from ottla.config.secret_file import secret_file
from ottla.errors import ConfigError, OttlaError, printable
from ottla.interfaces import PluginConfig, Secret
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.registry.trust import ReadTrust

MAX_FILE: Final = 16 << 20
"""Maximum bytes of a file with certificates, as of `ssl.*`."""


def read_trust(config: PluginConfig) -> ReadTrust:
    """Return the context of the settings. Raises ConfigError for files that cannot be used."""
    named = [config[key] for key in (keys.CA, keys.CERTIFICATE, keys.PRIVATE_KEY) if config[key] is not None]
    return ReadTrust(lambda: tls_context(config), named if config[keys.CA] is not None else [*named, *_of_the_system()])


def _of_the_system() -> list[str]:
    paths = ssl.get_default_verify_paths()
    return [path for path in (paths.cafile, paths.capath) if path is not None]


def tls_context(config: PluginConfig) -> ssl.SSLContext:
    with _usable(keys.CA), _copy_of(config, keys.CA) as authorities:
        context = ssl.create_default_context(cafile=authorities)
    if config[keys.CERTIFICATE] is not None:
        with (
            _usable(f"{keys.CERTIFICATE}, {keys.PRIVATE_KEY} and {keys.PRIVATE_KEY_PASSWORD}"),
            _copy_of(config, keys.CERTIFICATE) as certificate,
            _copy_of(config, keys.PRIVATE_KEY) as private_key,
        ):
            assert certificate is not None, "it is set"
            # Always pass a password: without one OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(certificate, private_key, password=_password(config).reveal)
    return context


def _password(config: PluginConfig) -> Secret[str]:
    given = config[keys.PRIVATE_KEY_PASSWORD]
    if given is None:
        return Secret("")
    if isinstance(given, Secret):
        return given
    problem = f"{keys.PRIVATE_KEY_PASSWORD}: the function must return a string"
    try:
        returned = ask(given, key=keys.PRIVATE_KEY_PASSWORD, wanted="the private key's password")
    except OttlaError as error:
        problem = str(error)
    else:
        if isinstance(returned.reveal(), str):
            return returned
    raise ConfigError([problem])


@contextlib.contextmanager
def _usable(names: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = (error.reason if isinstance(error, ssl.SSLError) else None) or reason_of(error)
        problem = f"{names} cannot be used for the schema registry: {printable(str(reason))}"
        raise ConfigError(
            [f"{problem}; it must be readable PEM, and a private key must match its certificate and its password"]
        ) from None


@contextlib.contextmanager
def _copy_of(config: PluginConfig, key: str) -> Iterator[str | None]:
    """Yield the path of a copy of the file that a setting names, None if it is not set: OpenSSL reads any file."""
    if config[key] is None:
        yield None
        return
    with _usable(key):
        content = Secret(read_regular_file(config[key], max_bytes=MAX_FILE))
        check_iterations(content)
    with secret_file(content.reveal()) as path:
        yield path
