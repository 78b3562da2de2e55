"""The kinds of plugins, as data: entry point group, hook, and the protocol of the hook's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import attrs

from ottla.interfaces import (
    Compressor,
    ConfigProvider,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    RecordEncoder,
    Serializer,
    SupportsAppended,
    SupportsAvroRows,
    SupportsAvroValues,
    SupportsClose,
    SupportsColumnHeaders,
    SupportsConcurrentLogins,
    SupportsCutRows,
    SupportsFinished,
    SupportsHashes,
    SupportsIdentity,
    SupportsIgnoresKeys,
    SupportsJsonRows,
    SupportsMurmur2Partitions,
    SupportsOnNewBatch,
    SupportsOnSendTable,
    SupportsOnTableAcknowledgement,
    SupportsOpenOver,
    SupportsPartitionColumn,
    SupportsPartitionRecord,
    SupportsPrepare,
    SupportsRemedy,
    SupportsSerializeColumn,
    SupportsSetsHeaders,
    SupportsSticky,
    SupportsUseEncoder,
    Transport,
)
from ottla.plugins.former_interceptors import AdaptedInterceptor, FormerInterceptor
from ottla.results.value_methods import ValueMethods

KindName: TypeAlias = Literal[
    "transport",
    "authenticator",
    "partitioner",
    "compressor",
    "encoder",
    "reporter",
    "serializer",
    "interceptor",
    "config_provider",
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FormerGeneration(ValueMethods):
    """A former generation of a kind's contract, whose plugins can still be used."""

    protocol: Any
    """The protocol of the objects that its hooks return."""
    adapt: Callable[[Any], Any]
    """Make an object of the newest generation from one of this; the result has the same abilities."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Kind(ValueMethods):
    """One kind. `install` maps known names to packages for `pip install`; all in lower case."""

    name: KindName
    group: str
    hook: str
    protocol: Any
    abilities: tuple[Any, ...] = (SupportsClose,)
    """The protocols of the abilities that an object of this kind may have."""
    install: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    setting: str = ""
    """The keys that name plugins of this kind."""
    generation: int = 1
    """The newest generation of this kind's contract, to which `protocol` belongs."""
    former: Mapping[int, FormerGeneration] = attrs.field(factory=dict, eq=False)
    """The former generations that are adapted, by number."""

    @property
    def generations(self) -> tuple[int, ...]:
        """All generations whose plugins can be used, ascending."""
        return (*sorted(self.former), self.generation)

    def protocol_of(self, generation: int) -> Any:
        """The protocol of the objects of a generation."""
        former = self.former.get(generation)
        return self.protocol if former is None else former.protocol


_SASL = "ottla-authenticator-sasl"

KINDS: Final[Mapping[KindName, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            name="transport",
            group="ottla.transports",
            hook="ottla_transport",
            protocol=Transport,
            abilities=(SupportsOpenOver, SupportsClose),
            setting="connection.via or security.protocol",
            install={"plaintext": "ottla-transport-plaintext", "ssl": "ottla-transport-ssl"},
        ),
        Kind(
            name="authenticator",
            group="ottla.authenticators",
            hook="ottla_authenticator",
            protocol=Mechanism,
            setting="sasl.mechanism",
            abilities=(SupportsIdentity, SupportsRemedy, SupportsConcurrentLogins, SupportsClose),
            install={
                "plain": _SASL,
                "scram-sha-256": _SASL,
                "scram-sha-512": _SASL,
                "oauthbearer": _SASL,
                "gssapi": f'"{_SASL}[gssapi]"',
            },
        ),
        Kind(
            name="partitioner",
            group="ottla.partitioners",
            hook="ottla_partitioner",
            protocol=Partitioner,
            setting="partitioner.class",
            abilities=(
                SupportsOnNewBatch,
                SupportsSticky,
                SupportsAppended,
                SupportsFinished,
                SupportsIgnoresKeys,
                SupportsPartitionColumn,
                SupportsPartitionRecord,
                SupportsHashes,
                SupportsClose,
            ),
            install=dict.fromkeys(
                (
                    "consistent",
                    "consistent_random",
                    "fnv1a",
                    "fnv1a_random",
                    "murmur2",
                    "murmur2_random",
                    "round_robin",
                ),
                "ottla",
            ),
        ),
        Kind(
            name="compressor",
            group="ottla.compressors",
            hook="ottla_compressor",
            protocol=Compressor,
            setting="compression.type",
            install={
                "gzip": "ottla",
                "lz4": '"ottla[lz4]"',
                "snappy": '"ottla[snappy]"',
                "zstd": '"ottla[zstd]"',
            },
        ),
        Kind(
            name="encoder",
            group="ottla.encoders",
            hook="ottla_encoder",
            protocol=RecordEncoder,
            setting="record.encoder",
            abilities=(
                SupportsCutRows,
                SupportsMurmur2Partitions,
                SupportsJsonRows,
                SupportsAvroRows,
                SupportsAvroValues,
                SupportsClose,
            ),
            install={"python": "ottla", "native": "ottla-accel"},
        ),
        Kind(
            name="reporter",
            group="ottla.reporters",
            hook="ottla_reporter",
            protocol=MetricsReporter,
            setting="metric.reporters",
            abilities=(),
            install={"opentelemetry": "ottla-opentelemetry", "prometheus": "ottla-reporter-prometheus"},
        ),
        Kind(
            name="serializer",
            group="ottla.serializers",
            hook="ottla_serializer",
            protocol=Serializer,
            setting="key.serializer or value.serializer",
            abilities=(
                SupportsSetsHeaders,
                SupportsPrepare,
                SupportsSerializeColumn,
                SupportsColumnHeaders,
                SupportsUseEncoder,
                SupportsClose,
            ),
            install={
                "bytes": "ottla",
                "string": "ottla",
                "json": "ottla",
                "avro": "ottla-serializer-schema-registry",
                "json-schema": '"ottla-serializer-schema-registry[json-schema]"',
                "protobuf": '"ottla-serializer-schema-registry[protobuf]"',
            },
        ),
        Kind(
            name="interceptor",
            group="ottla.interceptors",
            hook="ottla_interceptor",
            protocol=Interceptor,
            setting="interceptor.classes",
            abilities=(SupportsOnSendTable, SupportsOnTableAcknowledgement, SupportsClose),
            install={"opentelemetry": "ottla-opentelemetry"},
            generation=2,
            former={1: FormerGeneration(protocol=FormerInterceptor, adapt=AdaptedInterceptor)},
        ),
        Kind(
            name="config_provider",
            group="ottla.config_providers",
            hook="ottla_config_provider",
            protocol=ConfigProvider,
            setting="config.providers",
            install={"file": "ottla", "directory": "ottla", "env": "ottla"},
        ),
    )
}


BUILT_IN: Final = frozenset(
    package.strip('"').partition("[")[0] for kind in KINDS.values() for package in kind.install.values()
)
"""The distributions of Ottla that have plugins; their plugins are the built-in ones."""


def declared_in(protocol: Any) -> Mapping[str, Any]:
    """The public names that a protocol declares with a value, such as methods."""
    # A copy: another thread may add to a class's dictionary what Python keeps there.
    return {name: value for name, value in vars(protocol).copy().items() if not name.startswith("_")}


def missing_attributes(found: object, protocol: Any) -> tuple[str, ...]:
    """The attributes that an object lacks of a protocol; a method that is None counts as lacking."""
    wanted = set(declared_in(protocol)) | set(protocol.__annotations__)
    return tuple(sorted(name for name in wanted if getattr(found, name, None) is None))


def uncallable_methods(found: object, kind: Kind, protocol: Any) -> tuple[str, ...]:
    """The methods of a kind, also optional ones, that an object has as something else; None counts as missing.

    *protocol* is that of the object's generation.
    """
    present = {name: value for name in _methods(kind, protocol) if (value := getattr(found, name, None)) is not None}
    return tuple(name for name, value in present.items() if not callable(value))


@cache
def _methods(kind: Kind, protocol: Any) -> Sequence[str]:
    declared = [declared_in(each).items() for each in (protocol, *kind.abilities)]
    return sorted(name for items in declared for name, value in items if callable(value))


def check_flags(found: object, kind: Kind, protocol: Any) -> None:
    """Read the attributes of an object that are no methods, and their truth values: what one of them raises passes.

    The producer reads them when it is built, where nothing expects an error.
    """
    for declared in (protocol, *kind.abilities):
        for name in declared.__annotations__:
            bool(getattr(found, name, None))
