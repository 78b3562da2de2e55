"""A serializer from the settings of its plugin. What belongs to a format is the caller's."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ottla.config.key_derivation import check_iterations
from ottla.config.regular_files import read_regular_file, reason_of
from ottla.config.secret_file import secret_file
from ottla.errors import ConfigError, printable, quoted
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import PluginConfig, Secret
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.formats import SchemaFormat
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.serializer import Lookup, RegistrySerializer, SchemaOptions
from ottla_serializer_schema_registry.subjects import SubjectStrategy
from ottla_serializer_schema_registry.text_serializers import text_serializer

MAX_FILE: Final = 16 << 20
"""Maximum bytes of a file with certificates, as of `ssl.*`."""

_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_Read = TypeVar("_Read")

_log = robust_logger(__name__)


def configured_serializer(
    config: PluginConfig, schema_format: SchemaFormat, *, is_key: bool, name: str
) -> RegistrySerializer:
    """Return a serializer whose schema is a text: given, of a file, or of the registry. Raises ConfigError."""
    part = "key" if is_key else "value"
    schema_key = keys.KEY_SCHEMA if is_key else keys.VALUE_SCHEMA
    raise_problems(problems_of(config, name=name, part=part))
    text = None if config[schema_key] is None else _read(lambda: keys.schema_text(config[schema_key]), schema_key)
    references = _read(lambda: keys.references(config[keys.REFERENCES[part]]), keys.REFERENCES[part])
    if references and text is None:
        raise ConfigError([f"{keys.REFERENCES[part]} belongs to a {schema_key}, which is missing"])
    has_name = text is None or schema_format.name_of(text) is not None
    if config[keys.STRATEGY] is not SubjectStrategy.TOPIC and (not has_name or (text is None and config[keys.LATEST])):
        raise ConfigError([f"{keys.STRATEGY}={config[keys.STRATEGY]} needs a {schema_key} that has a name"])
    options = options_of(config, part=part)
    return _read(
        lambda: text_serializer(registry_of(config), schema_format, text, options=options, references=references),
        schema_key,
    )


def _read(read: Callable[[], _Read], key: str) -> _Read:
    try:
        return read()
    except ConfigError:
        raise
    except (ValueError, InvalidSchemaError) as error:
        raise ConfigError([f"{key}: {printable(str(error), hide=False)}"]) from error


def registry_of(config: PluginConfig) -> SchemaRegistry:
    """Return the registry of the settings. Raises ConfigError for files that cannot be used."""
    authorization = _authorization(config)
    if authorization is not None:
        _warn_of_plain_addresses(config)
    exchanges = Exchanges(config[keys.URL], authorization=authorization, context=_context(config))
    return SchemaRegistry(exchanges, normalize=config[keys.NORMALIZE])


def options_of(config: PluginConfig, *, part: str) -> SchemaOptions:
    """Return how schemas are found."""
    return SchemaOptions(
        part=part,
        lookup=_lookup(config),
        strategy=config[keys.STRATEGY],
        id_place=config[keys.ID_PLACES[part]],
    )


def _lookup(config: PluginConfig) -> Lookup:
    if config[keys.LATEST]:
        return Lookup.NEWEST
    return Lookup.LOOK_UP if config[keys.REGISTER] is False else Lookup.REGISTER


def raise_problems(problems: Sequence[str]) -> None:
    """Raise ConfigError if there are any."""
    if problems:
        raise ConfigError(list(problems))


def problems_of(config: PluginConfig, *, name: str, part: str) -> Sequence[str]:
    """Return what is wrong with the settings of the registry; *name* is the plugin's."""
    problems = []
    if not config[keys.URL]:
        problems.append(f"{keys.URL}: the serializer {name} needs the address of a schema registry")
    problems += [f"{keys.URL}: {wrong}" for wrong in map(keys.address_problem, config[keys.URL]) if wrong is not None]
    if config[keys.LATEST] and config[keys.REGISTER]:
        problems.append(f"{keys.REGISTER} and {keys.LATEST} cannot both be true")
    if config[keys.USER_INFO] is not None and config[keys.TOKEN] is not None:
        problems.append(f"{keys.USER_INFO} and {keys.TOKEN} cannot both be set")
    if config[keys.CERTIFICATE] is None:
        alone = [key for key in (keys.PRIVATE_KEY, keys.PRIVATE_KEY_PASSWORD) if config[key] is not None]
        problems += [f"{key} belongs to a {keys.CERTIFICATE}, which is missing" for key in alone]
    if config[keys.URL] and not _has_https(config):
        unused = [key for key in (keys.CA, keys.CERTIFICATE) if config[key] is not None]
        problems += [f"{key} belongs to an https address, which {keys.URL} lacks" for key in unused]
    return problems


def _authorization(config: PluginConfig) -> Authorization | None:
    if config[keys.USER_INFO] is not None:
        return Authorization.basic(config[keys.USER_INFO])
    return None if config[keys.TOKEN] is None else Authorization.bearer(config[keys.TOKEN])


def _has_https(config: PluginConfig) -> bool:
    return any(address.startswith("https:") for address in config[keys.URL])


def _warn_of_plain_addresses(config: PluginConfig) -> None:
    key = keys.USER_INFO if config[keys.USER_INFO] is not None else keys.TOKEN
    for address in config[keys.URL]:
        parts = urlsplit(address)
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            _log.warning(
                "schema.registry.url=%s has no encryption: every machine between this program and the registry can "
                "read %s; use https",
                quoted(address),
                key,
            )


def _context(config: PluginConfig) -> ssl.SSLContext | None:
    if not _has_https(config):
        return None
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
            password = config[keys.PRIVATE_KEY_PASSWORD] or Secret("")
            context.load_cert_chain(certificate, private_key, password=password.reveal)
    return context


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
