"""A serializer from the settings of its plugin. What belongs to a format is the caller's."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ottla.errors import ConfigError, printable, quoted
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import PluginConfig
from ottla_serializer_schema_registry import keys
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.formats import SchemaFormat
from ottla_serializer_schema_registry.login_choice import login_key, login_of, login_problems
from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.serializer import Lookup, RegistrySerializer, SchemaOptions
from ottla_serializer_schema_registry.subjects import SubjectStrategy
from ottla_serializer_schema_registry.text_serializers import text_serializer
from ottla_serializer_schema_registry.trust_choice import read_trust

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
    trust = read_trust(config) if _has_https(config) or config[keys.ISSUER] is not None else None
    login = login_of(config, ssl.create_default_context if trust is None else trust.newest)
    if login is not None:
        _warn_of_plain_addresses(config, login_key(config))
    exchanges = Exchanges(config[keys.URL], authorization=login, context=trust)
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
    problems += login_problems(config)
    if config[keys.CERTIFICATE] is None:
        alone = [key for key in (keys.PRIVATE_KEY, keys.PRIVATE_KEY_PASSWORD) if config[key] is not None]
        problems += [f"{key} belongs to a {keys.CERTIFICATE}, which is missing" for key in alone]
    if config[keys.URL] and not _has_https(config) and config[keys.ISSUER] is None:
        unused = [key for key in (keys.CA, keys.CERTIFICATE) if config[key] is not None]
        problems += [f"{key} belongs to an https address, which {keys.URL} lacks" for key in unused]
    return problems


def _has_https(config: PluginConfig) -> bool:
    return any(address.startswith("https:") for address in config[keys.URL])


def _warn_of_plain_addresses(config: PluginConfig, sent: str | None) -> None:
    for address in config[keys.URL]:
        parts = urlsplit(address)
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            _log.warning(
                "schema.registry.url=%s has no encryption: every machine between this program and the registry can "
                "read %s; use https",
                quoted(address),
                sent,
            )
