"""The plugins of a configuration: looked up, their keys claimed, and made once the configuration is valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import ConfigDraft, ProducerConfig, SerializerChoice
from ottla.errors import ConfigError, InvalidPluginError, PluginError, PluginNotFoundError
from ottla.errors.secret import without_frames
from ottla.interfaces import (
    Columns,
    ColumnsKind,
    Compressor,
    Header,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    PluginConfig,
    RecordEncoder,
    Serializer,
    Transport,
)
from ottla.plugins.registry import KindName, Plugin, Registry
from ottla.plugins.value_formats import ValueFormats

KAFKAS_CODECS: Final = frozenset({1, 2, 3, 4})

_DEFAULT_MECHANISM: Final = "sasl.mechanism was left out, and that means GSSAPI (Kerberos), as in Java"


@attrs.frozen(kw_only=True)
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
    value_formats: ValueFormats
    reporters: Mapping[str, MetricsReporter] = attrs.Factory(dict)
    interceptors: Mapping[str, Interceptor] = attrs.Factory(dict)

    def columns(self, limit: int) -> Columns:
        """Columns of the encoder for records of `send`."""
        made = self.encoder.columns(ColumnsKind.OBJECTS, limit)
        assert made is not None, "the encoder was chosen because it takes this kind"
        return made


class _Claims:
    """Looks plugins up, claims their keys, and collects errors until all plugins were looked up."""

    def __init__(self, draft: ConfigDraft, registry: Registry) -> None:
        self._draft = draft
        self._registry = registry
        self.errors: list[PluginError] = []
        self.unclaimable: set[str] = set()
        """Keys of plugins that are not available: the missing plugin is reported once, not again for each key."""

    def plugin(self, kind: KindName, name: str, *, family: str = "", note: str = "") -> Callable[..., Any]:
        """A function that makes the plugin's object once the whole configuration is valid.

        *family* is the prefix of its keys, if that is not the plugin's name; *note* is added to the error of a missing
        plugin.
        """
        try:
            plugin = self._registry.plugin(kind, name)
            return _noting(self.of(plugin), note)
        except PluginError as error:
            self.errors.append(_noted(error, note))
            begins = (family,) if family else _families(name)
            self.unclaimable.update(key for key in self._draft.config.plugin_values if key.startswith(begins))
            return _never

    def plugins(self, kind: KindName, names: Sequence[str]) -> Callable[[], Mapping[str, Any]]:
        """The same for several plugins; they are made in order."""
        found: list[tuple[Plugin, Callable[..., Any]]] = []
        for name in names:
            try:
                plugin = self._registry.plugin(kind, name)
                found.append((plugin, self.of(plugin)))
            except PluginError as error:
                self.errors.append(error)
        return lambda: {str(plugin): make() for plugin, make in found}

    def of(self, plugin: Plugin) -> Callable[..., Any]:
        """The same for a plugin that is already looked up."""
        values = self._draft.claim(plugin.config_keys(), plugin=str(plugin))
        return lambda **extra: plugin.create(values, **extra)


def choose(draft: ConfigDraft, registry: Registry) -> tuple[ProducerConfig, Plugins]:
    """The checked configuration and its plugins. Raises ConfigError, or PluginError if that is the only problem.

    The ConfigError has all problems as text. Its frames are removed: they may belong to a plugin, and their variables
    may hold wrong values, such as half a password.
    """
    try:
        return _choose(draft, registry)
    except ConfigError as error:
        refused = error
    raise without_frames(refused)


def _choose(draft: ConfigDraft, registry: Registry) -> tuple[ProducerConfig, Plugins]:
    wanted = draft.config
    claims = _Claims(draft, registry)
    protocol = wanted.connection.security_protocol
    transport = claims.plugin("transport", protocol.transport, family="ssl.")
    mechanism = wanted.connection.sasl_mechanism
    unasked = "" if draft.given("sasl.mechanism") else _DEFAULT_MECHANISM
    authenticator = claims.plugin("authenticator", mechanism, family="sasl.", note=unasked) if protocol.sasl else None
    via = wanted.connection.connection_via
    outer = claims.plugin("transport", via) if via else None
    partitioner = claims.plugin("partitioner", wanted.partitioning.partitioner)
    codec = wanted.batching.compression_type
    compressor = claims.plugin("compressor", codec) if codec != "none" else None
    key = _serializer(claims, wanted.serialization.key_serializer, is_key=True)
    value = _serializer(claims, wanted.serialization.value_serializer, is_key=False)
    encoder = _encoder(claims, draft, registry, wanted.batching.record_encoder)
    reporters = claims.plugins("reporter", wanted.observation.reporters)
    interceptors = claims.plugins("interceptor", wanted.observation.interceptors)
    config = _finish(draft, registry, claims)
    inner = transport(inner=None)
    made = encoder()
    value_serializer = _with_encoder(value(), made)
    return config, Plugins(
        transport=outer(inner=inner) if outer else inner,
        mechanism=authenticator() if authenticator else None,
        partitioner=partitioner(),
        compressor=_compressor(codec, compressor()) if compressor else None,
        encoder=made,
        key_serializer=key(),
        value_serializer=value_serializer,
        reporters=reporters(),
        interceptors=interceptors(),
        value_formats=_value_formats(
            draft, registry, made, chosen=(wanted.serialization.value_serializer, value_serializer)
        ),
    )


def _finish(draft: ConfigDraft, registry: Registry, claims: _Claims) -> ProducerConfig:
    """The checked configuration. If the only problem is one missing plugin, raises its PluginError."""
    errors = claims.errors
    try:
        config = draft.finish(installed_keys=registry.declared_keys, excused=claims.unclaimable)
    except ConfigError as error:
        raise ConfigError([*error.problems, *map(str, errors)]) from None
    if len(errors) > 1:
        raise ConfigError([str(error) for error in errors])
    if errors:
        raise errors[0]
    return config


def _serializer(claims: _Claims, choice: SerializerChoice, *, is_key: bool) -> Callable[[], Serializer | None]:
    if not isinstance(choice, str):
        return lambda: _CallableSerializer(choice)
    if choice == "bytes":
        return lambda: None
    make = claims.plugin("serializer", choice)
    return lambda: make(is_key=is_key)


def _with_encoder(serializer: Serializer | None, encoder: RecordEncoder) -> Serializer | None:
    """The serializer, after passing the encoder to it if it uses the encoder's abilities."""
    if (use_encoder := getattr(serializer, "use_encoder", None)) is not None:
        use_encoder(encoder)
    return serializer


def _value_formats(
    draft: ConfigDraft,
    registry: Registry,
    encoder: RecordEncoder,
    *,
    chosen: tuple[SerializerChoice, Serializer | None],
) -> ValueFormats:
    def make(name: str) -> Serializer:
        plugin = registry.plugin("serializer", name)
        before = len(draft.problems)
        values = draft.claim(plugin.config_keys(), plugin=str(plugin))
        if wrong := draft.problems[before:]:
            raise ConfigError(wrong)
        serializer: Serializer = plugin.create(values, is_key=False)
        _with_encoder(serializer, encoder)
        return serializer

    name, serializer = chosen
    return ValueFormats(make, named=(name, serializer) if isinstance(name, str) and serializer is not None else None)


def _compressor(name: str, compressor: Compressor) -> Compressor:
    if compressor.codec_id not in KAFKAS_CODECS:
        raise InvalidPluginError(
            f"compression.type={name}: codec_id {compressor.codec_id!r} is none of Kafka's: 1 gzip, 2 snappy, 3 lz4 or "
            "4 zstd"
        )
    return compressor


def _encoder(claims: _Claims, draft: ConfigDraft, registry: Registry, name: str | None) -> Callable[[], RecordEncoder]:
    """The encoder of that name, or the first one for records of `send`."""
    if name is not None:
        forced = claims.plugin("encoder", name)
        return lambda: _first_for_send([forced()])
    encoders: list[tuple[Plugin, PluginConfig]] = [
        (plugin, draft.claim(plugin.config_keys(), plugin=str(plugin))) for plugin in registry.encoders()
    ]
    return lambda: _first_for_send(registry.create_encoders(encoders))


def _first_for_send(encoders: Sequence[RecordEncoder]) -> RecordEncoder:
    for encoder in encoders:
        if encoder.columns(ColumnsKind.OBJECTS, 1) is not None:
            return encoder
    raise InvalidPluginError(
        "no installed record encoder takes records of `send`; is ottla itself installed completely?"
    )


@attrs.frozen
class _CallableSerializer:
    """A plain function of one argument, given as `key.serializer` or `value.serializer`."""

    function: Callable[[Any], bytes | None]

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The function's result, which must be bytes or None."""
        result = self.function(data)
        if result is not None and not isinstance(result, bytes):
            raise TypeError(f"the serializer function returned {type(result).__name__}, not bytes")
        return result


def _noting(make: Callable[..., Any], note: str) -> Callable[..., Any]:
    def made(**extra: object) -> Any:
        try:
            return make(**extra)
        except PluginNotFoundError as error:
            raise _noted(error, note) from error.__cause__

    return made


def _families(name: str) -> tuple[str, ...]:
    """The possible prefixes of the keys of a missing plugin, by the naming convention for plugins."""
    plain = name.strip().lower()
    return f"{plain}.", f"{re.sub('[-_]', '.', plain)}."


def _noted(error: PluginError, note: str) -> PluginError:
    return PluginNotFoundError(f"{error}; {note}") if note and isinstance(error, PluginNotFoundError) else error


def _never(**_extra: object) -> Any:
    raise AssertionError("a plugin that was not found is never made")
