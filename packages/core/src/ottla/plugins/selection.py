"""The plugins of a configuration: requested, resolved together, and created once the whole configuration is valid."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from ottla.config import ConfigDraft, ProducerConfig, SecurityProtocol
from ottla.config.plugin_choice import PluginChoice
from ottla.errors import ConfigError, InvalidPluginError, PluginError
from ottla.errors.plugin_origin import PluginOrigin, note_origin, origin_of
from ottla.errors.robust_logger import robust_logger
from ottla.errors.secret import without_frames
from ottla.interfaces import (
    Columns,
    Compressor,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    RecordEncoder,
    Serializer,
    SupportsOpenOver,
    Transport,
    supports,
)
from ottla.plugins.attribute_checks import (
    checked_compressor,
    checked_encoder,
    checked_mechanism,
    columns_of,
    first_columns,
    lacks_columns,
    with_encoder,
)
from ottla.plugins.calls import CLOSE_SECONDS
from ottla.plugins.compressors.codec_errors import missing_library
from ottla.plugins.config_references import read_draft
from ottla.plugins.early_problems import early_problems
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Plugin, Registry
from ottla.plugins.requests import PluginRequest, ResolvedPlugin, Resolver, request_named
from ottla.plugins.serializers_by_name import SerializersByName
from ottla.plugins.transports.chain import TransportChain, UnchangedBytes

_log = robust_logger(__name__)

Role: TypeAlias = Literal[
    "transport",
    "mechanism",
    "connection_via",
    "partitioner",
    "compressor",
    "key_serializer",
    "value_serializer",
    "encoder",
    "reporters",
    "interceptors",
]
"""The use of plugins in a producer."""

CREATION_ORDER: Final[Sequence[Role]] = (
    "transport",
    "encoder",
    "value_serializer",  # gets the encoder
    "connection_via",  # gets the transport
    "mechanism",
    "partitioner",
    "compressor",
    "key_serializer",
    "interceptors",
    "reporters",  # closed first, while the others' metrics can still be read
)

_WITHOUT_INNER: Final = frozenset(protocol.transport for protocol in SecurityProtocol)
"""Transports that take no inner one: in `connection.via` they are always links of a chain."""

_CORE: Final = "ottla"
"""The distribution of this package."""

_DEFAULT_MECHANISM: Final = "sasl.mechanism was left out, and that means GSSAPI (Kerberos), as in Java"

_SET_THE_MECHANISM: Final = "set it to the mechanism of the brokers, such as SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"

_PASSWORD_KEYS: Final = ("sasl.username", "sasl.password")
_KERBEROS_KEYS: Final = ("sasl.jaas.config", "sasl.kerberos.service.name", "sasl.kerberos.principal")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Plugins:
    """The plugins of a configuration; those of which there may be several are mappings by name.

    A serializer of None means that values are bytes already; a compressor of None means no compression.
    """

    transport: Transport
    mechanism: Mechanism | None
    partitioner: Partitioner
    compressor: Compressor | None
    encoder: RecordEncoder
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    value_formats: SerializersByName
    key_formats: SerializersByName
    objects: PluginObjects
    compression_level: int | None = None
    reporters: Mapping[str, MetricsReporter] = attrs.Factory(dict)
    interceptors: Mapping[str, Interceptor] = attrs.Factory(dict)

    def columns(self, limit: int) -> Columns:
        """Columns of the encoder for records of `send`."""
        return columns_of(self.encoder, limit)

    @property
    def client_id(self) -> str:
        """The client id as it is used; empty if there is none."""
        return self.objects.client_id or ""

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Close all plugins, in the reverse of `CREATION_ORDER`. Called after their last use, perhaps twice.

        Takes about *timeout* seconds at most. Reporters are closed if they have started.
        """
        self.objects.close(timeout)


def choose_plugins(
    settings: Mapping[str, object],
    keywords: Mapping[str, object] | None = None,
    *,
    registry: Registry,
    objects: PluginObjects,
) -> tuple[ProducerConfig, Plugins]:
    """The checked configuration of these settings and its plugins, which *objects* makes.

    Raises ConfigError, or PluginError if that is the only problem; then the plugins that were made are closed.
    """
    draft = read_draft(settings, keywords, registry=registry, objects=objects)
    return choose(draft, registry, objects)


def choose(
    draft: ConfigDraft, registry: Registry, objects: PluginObjects | None = None
) -> tuple[ProducerConfig, Plugins]:
    """The checked configuration and its plugins. Raises ConfigError, or PluginError if that is the only problem.

    *objects* makes the plugins; after an error they are closed. The ConfigError lists all problems as text. Its frames
    are removed: they may belong to a plugin, and their variables may hold wrong values, such as half a password.
    """
    objects = objects or PluginObjects()
    try:
        return _choose(draft, registry, objects)
    except (ConfigError, PluginError) as error:
        objects.close(CLOSE_SECONDS)
        refused = draft.without_provided(error)
        if not isinstance(refused, ConfigError):
            raise
    except BaseException:
        objects.close(CLOSE_SECONDS)
        raise
    raise without_frames(refused)


def _choose(draft: ConfigDraft, registry: Registry, objects: PluginObjects) -> tuple[ProducerConfig, Plugins]:
    resolver = Resolver(draft, registry)
    found: dict[Role, Sequence[ResolvedPlugin]] = {}
    for role, requests in _requests(draft).items():
        found[role] = [plugin for request in requests for plugin in resolver.resolve(request)]
        _check_distinct(found[role], draft)
    if found["mechanism"] and _lacks_mechanism(draft):
        draft.object_to(f"{_DEFAULT_MECHANISM}; {_SET_THE_MECHANISM}")
        found["mechanism"] = []  # GSSAPI's own problems would mislead
    # Here, because a compressor is made only once all else is right: its library would be missed in a second round.
    resolver.errors += _missing_libraries(found["compressor"])
    try:
        config = _finish(draft, registry, resolver, objects)
    except (ConfigError, PluginError) as error:
        more = early_problems(found["transport"], found["mechanism"])
        if not more:
            raise
        raise ConfigError([*_problems_of(error), *more]) from None
    created: dict[Role, Any] = {}
    for role in CREATION_ORDER:
        try:
            created[role] = _create(role, found[role], created, registry, objects)
        except ConfigError as error:
            login = [] if "mechanism" in created or role == "mechanism" else found["mechanism"]
            problems = _of_the_default(error.problems, draft) if role == "mechanism" else error.problems
            raise ConfigError([*problems, *early_problems([], login)]) from None
    return config, Plugins(
        transport=created["connection_via"] if found["connection_via"] else created["transport"],
        mechanism=created["mechanism"],
        partitioner=created["partitioner"],
        compressor=created["compressor"],
        compression_level=_level(config, created["compressor"]),
        encoder=created["encoder"],
        key_serializer=created["key_serializer"],
        value_serializer=created["value_serializer"],
        reporters=created["reporters"],
        interceptors=created["interceptors"],
        value_formats=_formats(draft, registry, created, objects, is_key=False),
        key_formats=_formats(draft, registry, created, objects, is_key=True),
        objects=objects,
    )


def _lacks_mechanism(draft: ConfigDraft) -> bool:
    """Whether a name or password is given that the default mechanism does not read, and no setting of Kerberos."""
    kerberos = any(map(draft.given, ("sasl.mechanism", *_KERBEROS_KEYS)))
    return not kerberos and any(map(draft.given, _PASSWORD_KEYS))


def _of_the_default(problems: Sequence[str], draft: ConfigDraft) -> Sequence[str]:
    """Problems of the mechanism, which say so if the user has not chosen it."""
    if draft.given("sasl.mechanism"):
        return problems
    return [f"{problem} ({_DEFAULT_MECHANISM}; {_SET_THE_MECHANISM})" for problem in problems]


def _problems_of(error: ConfigError | PluginError) -> Sequence[str]:
    return error.problems if isinstance(error, ConfigError) else [str(error)]


def _missing_libraries(compressors: Sequence[ResolvedPlugin]) -> Sequence[PluginError]:
    """The errors of the core's compressors that lack their library."""
    codecs = [each.plugin.name for each in compressors if each.plugin.distribution == _CORE]
    return [error for error in map(missing_library, codecs) if error is not None]


def _check_distinct(found: Sequence[ResolvedPlugin], draft: ConfigDraft) -> None:
    """Note a plugin that a list names twice: `name` and `package:name` may be the same one."""
    names: dict[Plugin, list[str]] = {}
    for each in found:
        names.setdefault(each.plugin, []).append(str(each.request.name))
    for plugin, written in names.items():
        if len(written) > 1:
            draft.object_to(f"the {plugin} is named {len(written)} times, as {' and '.join(written)}; leave one")


def _requests(draft: ConfigDraft) -> Mapping[Role, Sequence[PluginRequest]]:
    """The plugins that the configuration names, in the order in which errors report them."""
    config = draft.config
    connection, observation = config.connection, config.observation
    protocol, mechanism, via = connection.security_protocol, connection.sasl_mechanism, connection.connection_via
    codec = config.batching.compression_type
    unset = "" if draft.given("sasl.mechanism") else _DEFAULT_MECHANISM
    return {
        "transport": [PluginRequest(kind="transport", name=protocol.transport, key_prefixes=("ssl.",))],
        "mechanism": [PluginRequest(kind="authenticator", name=mechanism, key_prefixes=("sasl.",), note=unset)]
        if protocol.sasl
        else [],
        "connection_via": [request_named("transport", name) for name in via],
        "partitioner": [request_named("partitioner", config.partitioning.partitioner)],
        "compressor": [request_named("compressor", codec)] if codec != "none" else [],
        "key_serializer": _serializer_requests(config.serialization.key_serializer),
        "value_serializer": _serializer_requests(config.serialization.value_serializer),
        "encoder": [_encoder_request(config.batching.record_encoder)],
        "reporters": [request_named("reporter", name) for name in observation.reporters],
        "interceptors": [request_named("interceptor", name) for name in observation.interceptors],
    }


def _serializer_requests(choice: PluginChoice) -> Sequence[PluginRequest]:
    return [request_named("serializer", choice)] if choice != "bytes" else []


def _encoder_request(name: PluginChoice | None) -> PluginRequest:
    return PluginRequest(kind="encoder", name=None) if name is None else request_named("encoder", name)


def _finish(draft: ConfigDraft, registry: Registry, resolver: Resolver, objects: PluginObjects) -> ProducerConfig:
    """The checked configuration; *objects* then knows the client id.

    If the only problem is one missing plugin, raises its PluginError.
    """
    errors = resolver.errors

    def name_client(configured: str | None) -> str | None:
        if errors:  # no producer is made, so none has a name
            return configured
        objects.client_id = objects.name_client(configured)
        return objects.client_id

    try:
        config = draft.finish(
            other_keys=registry.built_in_keys,
            table_keys=registry.table_keys,
            likely_owner=registry.likely_owner,
            excused=resolver.unclaimable,
            name_client=name_client,
        )
    except ConfigError as error:
        raise ConfigError([*error.problems, *map(str, errors)]) from None
    if errors:
        del config  # no frame of an error has the settings
    if len(errors) > 1:
        raise ConfigError([str(error) for error in errors])
    if errors:
        raise errors[0]
    return config


def _create(
    role: Role,
    found: Sequence[ResolvedPlugin],
    created: Mapping[Role, Any],
    registry: Registry,
    objects: PluginObjects,
) -> Any:
    """The objects of a role, by name if there may be several, or None if the configuration names no plugin for it.

    *created* are the objects that were made before.
    """
    match role:
        case "reporters" | "interceptors":
            return _by_name(found, objects)
        case "encoder":
            return _encoder(found, registry, objects)
        case "connection_via" if len(found) > 1 or any(map(_takes_no_inner, found)):
            return _chain(found, created["transport"], objects)
        case _:
            return _create_one(role, found[0], created, objects) if found else None


def _by_name(found: Sequence[ResolvedPlugin], objects: PluginObjects) -> Mapping[str, Any]:
    """The objects by the names of their plugins; several objects of one class are numbered."""
    made: dict[str, Any] = {}
    for each in found:
        name = str(each.plugin)
        numbered = (name if number == 1 else f"{name}#{number}" for number in itertools.count(1))
        made[next(free for free in numbered if free not in made)] = each.create(objects)
    return made


def _takes_no_inner(plugin: ResolvedPlugin) -> bool:
    return plugin.plugin.name.lower() in _WITHOUT_INNER or not plugin.plugin.takes_inner


def _create_one(role: Role, plugin: ResolvedPlugin, created: Mapping[Role, Any], objects: PluginObjects) -> Any:
    match role:
        case "transport":
            return plugin.create(objects, inner=None)
        case "connection_via":
            return plugin.create(objects, inner=created["transport"])
        case "compressor":
            return checked_compressor(plugin.create(objects), name=str(plugin.request.name))
        case "mechanism":
            return checked_mechanism(plugin.create(objects))
        case "key_serializer":
            return with_encoder(plugin.create(objects, is_key=True), created["encoder"])
        case "value_serializer":
            return with_encoder(plugin.create(objects, is_key=False), created["encoder"])
        case _:
            return plugin.create(objects)


def _chain(found: Sequence[ResolvedPlugin], transport: Transport, objects: PluginObjects) -> TransportChain:
    """The transports of `connection.via` in a row, with the one of `security.protocol` on top."""
    links: list[Transport] = [each.create(objects, inner=UnchangedBytes()) for each in found]
    for link, name in zip([*links[1:], transport], [*map(str, (each.plugin for each in found[1:])), ""], strict=True):
        if not supports(link, SupportsOpenOver):
            what = f"the {name}" if name else "the transport of security.protocol"
            raise ConfigError(
                [
                    f"connection.via={','.join(str(each.request.name) for each in found)}: {what} takes only a socket, "
                    "not the bytes of a transport before it; name it first, or use a version of it with open_over"
                ]
            )
    chain = TransportChain([*links, transport])
    names = ", ".join(origin_of("transport", link).name for link in chain.links)
    remedy = "find out which one it is by leaving one out of connection.via"
    note_origin(chain, PluginOrigin(f"chain of {names}", remedy))
    return chain


def _encoder(found: Sequence[ResolvedPlugin], registry: Registry, objects: PluginObjects) -> RecordEncoder:
    """The encoder that the configuration names, or the first one that takes records of `send`."""
    named = [each.create(objects) for each in found if each.request.name is not None]
    encoders = named or registry.create_encoders(((each.plugin, each.values) for each in found), create=objects.create)
    for encoder in encoders:
        columns = first_columns(encoder)
        if columns is not None:
            origin = origin_of("encoder", encoder)
            note_origin(type(columns), origin)  # a note for each batch would cost time
            _log.info("%s: records are encoded by the %s", objects.client_id, origin)
            return checked_encoder(encoder)
    if named:
        raise lacks_columns(named[0])
    raise InvalidPluginError(
        "no installed record encoder takes records of `send`; is ottla itself installed completely?"
    )


def _level(config: ProducerConfig, compressor: Compressor | None) -> int | None:
    """The level that the user set with Kafka's key for this codec; None if it is not set."""
    return None if compressor is None else config.batching.compression_levels.get(compressor.codec_id)


def _formats(
    draft: ConfigDraft, registry: Registry, created: Mapping[Role, Any], objects: PluginObjects, *, is_key: bool
) -> SerializersByName:
    """The serializers of keys, or of values, by the names that calls of `send_table` give."""
    serialization = draft.config.serialization
    if is_key:
        name, serializer, option = serialization.key_serializer, created["key_serializer"], "key_format"
    else:
        name, serializer, option = serialization.value_serializer, created["value_serializer"], "value_format"
    factory = _SerializerFactory(draft, registry, created["encoder"], objects, is_key=is_key)
    named = (name, serializer) if isinstance(name, str) and serializer is not None else None
    return SerializersByName(factory.make, named=named, option=option)


@attrs.frozen(eq=False, repr=False)
class _SerializerFactory:
    """Makes the serializers that only a call of `send_table` names, when it does."""

    draft: ConfigDraft
    registry: Registry
    encoder: RecordEncoder
    objects: PluginObjects
    is_key: bool = attrs.field(kw_only=True)

    def make(self, name: str) -> Serializer:
        """The serializer of this name. Raises ConfigError, or PluginError if it is missing."""
        resolver = Resolver(self.draft, self.registry)
        known = len(self.draft.problems)
        resolved = resolver.resolve(request_named("serializer", name))
        if wrong := self.draft.problems[known:]:
            raise ConfigError(wrong)
        if resolver.errors:
            raise resolver.errors[0]
        [serializer] = resolved
        return with_encoder(serializer.create(self.objects, is_key=self.is_key), self.encoder)
