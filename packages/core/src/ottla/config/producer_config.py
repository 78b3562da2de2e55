"""The configuration of a producer: one frozen section for each part that reads it.

Every field is one key of Kafka, with Java's default. Times are seconds; -1 means the same as in Kafka. Each part of the
core gets only its own section.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ottla.config.addresses import Address, addresses
from ottla.config.java_classes import interceptors, partitioner, reporters, serializer
from ottla.config.option import option
from ottla.config.value_types import (
    LONG_MAX,
    SHORT_MAX,
    boolean,
    choice,
    integer,
    items,
    level,
    milliseconds,
    milliseconds_or_never,
    plugin_name,
    plugin_names,
    text,
)
from ottla.config.values import PluginValues

SerializerChoice: TypeAlias = str | Callable[..., Any]


class SecurityProtocol(enum.StrEnum):
    """The protection of connections: TLS, SASL, both or neither."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def transport(self) -> str:
        """The name of the transport plugin for this protocol."""
        return "ssl" if self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL) else "plaintext"

    @property
    def sasl(self) -> bool:
        """Return whether connections are authenticated with `sasl.mechanism`."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class DnsLookup(enum.StrEnum):
    """The use of a bootstrap server's name (KIP-235)."""

    USE_ALL_DNS_IPS = "use_all_dns_ips"
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


@attrs.frozen(kw_only=True)
class ConnectionConfig:
    """Connections: bootstrap servers, security, sockets and timeouts."""

    bootstrap_servers: tuple[Address, ...] = option(
        "bootstrap.servers",
        addresses(),
        default=(),
        meaning="The servers to ask first for the cluster's brokers. Required.",
    )
    dns_lookup: DnsLookup = option(  # noqa: RUF009 - a field, not a default
        "client.dns.lookup",
        choice({lookup.value: lookup for lookup in DnsLookup}),
        default=DnsLookup.USE_ALL_DNS_IPS,
        meaning="All addresses of a name in turn, or the canonical names of the bootstrap servers' addresses.",
    )
    client_id: str = option(
        "client.id",
        text(most_bytes=SHORT_MAX),
        default="",
        meaning="The producer's name in the brokers' logs and quotas; empty: a name is made up.",
    )
    security_protocol: SecurityProtocol = option(  # noqa: RUF009 - a field, not a default
        "security.protocol",
        choice({protocol.lower(): protocol for protocol in SecurityProtocol}),
        default=SecurityProtocol.PLAINTEXT,
        meaning="Encrypted (SSL), authenticated (SASL), both or neither; picks the transport plugin.",
    )
    sasl_mechanism: str = option(
        "sasl.mechanism",
        plugin_name(),
        default="gssapi",
        meaning="How to log in where security.protocol asks for it; the authenticator plugin of this name.",
    )
    connection_via: tuple[str, ...] = option(
        "connection.via",
        plugin_names(),
        default=(),
        meaning="Transport plugins to go through, such as proxies, in this order: the first is nearest to us.",
    )
    connections_max_idle: float = option(
        "connections.max.idle.ms",
        milliseconds_or_never(),
        default=540_000,
        meaning="A connection unused for this long is closed.",
    )
    send_buffer_bytes: int = option(
        "send.buffer.bytes",
        integer(minimum=-1),
        default=-1,  # 131,072 in Java, with which a request takes several rounds: a seventh of the rate of tables
        meaning="The size of a socket's send buffer; -1 leaves it to the system.",
    )
    receive_buffer_bytes: int = option(
        "receive.buffer.bytes",
        integer(minimum=-1),
        default=32_768,
        meaning="The size of a socket's receive buffer; -1 leaves it to the system.",
    )
    receive_message_max_bytes: int = option(
        "receive.message.max.bytes",
        integer(minimum=1_000, maximum=2**31 - 1),
        default=100_000_000,
        meaning="The largest response that a broker may send; a larger one ends the connection. As in librdkafka.",
    )
    reconnect_backoff: float = option(
        "reconnect.backoff.ms",
        milliseconds(maximum=LONG_MAX),
        default=50,
        meaning="The first wait before connecting again to a broker that could not be reached, or that ended several "
        "connections soon after they were made.",
    )
    reconnect_backoff_max: float = option(
        "reconnect.backoff.max.ms",
        milliseconds(maximum=LONG_MAX),
        default=1_000,
        meaning="The longest wait before connecting again; waits double up to it.",
    )
    connection_setup_timeout: float = option(
        "socket.connection.setup.timeout.ms",
        milliseconds(maximum=LONG_MAX),
        default=10_000,
        meaning="How long making a connection may take at first.",
    )
    connection_setup_timeout_max: float = option(
        "socket.connection.setup.timeout.max.ms",
        milliseconds(maximum=LONG_MAX),
        default=30_000,
        meaning="How long making a connection may take at most; the time doubles up to it.",
    )
    request_timeout: float = option(
        "request.timeout.ms",
        milliseconds(),
        default=30_000,
        meaning="How long a broker may take to answer before the connection is given up.",
    )


class RecoveryStrategy(enum.StrEnum):
    """The action when no known broker can be reached (KIP-899)."""

    NONE = "none"
    REBOOTSTRAP = "rebootstrap"


@attrs.frozen(kw_only=True)
class MetadataConfig:
    """The refresh of metadata."""

    max_age: float = option(
        "metadata.max.age.ms",
        milliseconds(maximum=LONG_MAX),
        default=300_000,
        meaning="Brokers and partitions are asked for again after this time, even if nothing went wrong.",
    )
    max_idle: float = option(
        "metadata.max.idle.ms",
        milliseconds(minimum=5_000, maximum=LONG_MAX),
        default=300_000,
        meaning="A topic that nothing was sent to for this long is forgotten.",
    )
    recovery: RecoveryStrategy = option(  # noqa: RUF009 - a field, not a default
        "metadata.recovery.strategy",
        choice({strategy.value: strategy for strategy in RecoveryStrategy}),
        default=RecoveryStrategy.REBOOTSTRAP,
        meaning="Whether to begin again with bootstrap.servers when no known broker can be reached.",
    )
    rebootstrap_trigger: float = option(
        "metadata.recovery.rebootstrap.trigger.ms",
        milliseconds(maximum=LONG_MAX),
        default=300_000,
        meaning="Begin again with bootstrap.servers when metadata could not be had for this long.",
    )


@attrs.frozen(kw_only=True)
class BatchingConfig:
    """Batches: size, linger, memory and compression."""

    batch_size: int = option(
        "batch.size",
        integer(minimum=0),
        default=16_384,
        meaning="The size of a batch in bytes; a larger record gets a batch of its own.",
    )
    linger: float = option(
        "linger.ms",
        milliseconds(maximum=LONG_MAX),
        default=5,
        meaning="How long a batch waits for more records at most: its request leaves by then, if its broker takes one.",
    )
    growth: bool = option(
        "batch.growth.enable",
        boolean(),
        default=True,
        meaning="Batches that are full but have to wait for their broker grow, up to max.request.size.",
    )
    buffer_memory: int = option(
        "buffer.memory",
        integer(minimum=0, maximum=LONG_MAX),
        default=33_554_432,
        meaning="The bytes that records may occupy until they are acknowledged; beyond it, send waits.",
    )
    max_request_size: int = option(
        "max.request.size",
        integer(minimum=0),
        default=1_048_576,
        meaning="The largest request, and so the largest record, in bytes.",
    )
    max_block: float = option(
        "max.block.ms",
        milliseconds(maximum=LONG_MAX),
        default=60_000,
        meaning="How long one call of send waits, for a topic that it does not know yet and for memory together.",
    )
    compression_type: str = option(
        "compression.type",
        plugin_name(),
        default="none",
        meaning="The compressor plugin for batches: none, gzip, snappy, lz4, zstd or another one installed.",
    )
    compression_gzip_level: int | None = option(
        "compression.gzip.level",
        level(minimum=1, maximum=9, also=-1),
        default=None,
        meaning="How hard gzip compresses: more is smaller and slower; -1 is zlib's own choice, 6, and the default.",
    )
    compression_lz4_level: int | None = option(
        "compression.lz4.level",
        level(minimum=1, maximum=17),
        default=None,
        meaning=(
            "How hard lz4 compresses: 9, the default, is the fast compressor, which makes the largest; every other "
            "level is the slower one, where more is smaller and slower."
        ),
    )
    compression_zstd_level: int | None = option(
        "compression.zstd.level",
        level(minimum=-131072, maximum=22),
        default=None,
        meaning="How hard zstd compresses: more is smaller and slower; 3 by default.",
    )
    record_encoder: str | None = option(
        "record.encoder",
        plugin_name(),
        default=None,
        meaning="The encoder plugin that gathers and encodes records; that of ottla-accel by default, if installed.",
    )

    @property
    def compression_levels(self) -> Mapping[int, int | None]:
        """The levels that the user set, by Kafka's number of the codec."""
        return {1: self.compression_gzip_level, 3: self.compression_lz4_level, 4: self.compression_zstd_level}


@attrs.frozen(kw_only=True)
class DeliveryConfig:
    """Acknowledgements, retries and timeouts of records."""

    acks: int = option(
        "acks",
        choice({"all": -1, "-1": -1, "0": 0, "1": 1}),
        default=-1,
        meaning="Who confirms a record: all in-sync replicas (all or -1), the leader (1), or no broker (0).",
    )
    retries: int = option(
        "retries",
        integer(minimum=0),
        default=2_147_483_647,
        meaning="How often a batch is sent again; best left alone: delivery.timeout.ms is the limit.",
    )
    delivery_timeout: float = option(
        "delivery.timeout.ms",
        milliseconds(),
        default=120_000,
        meaning="A record that is not acknowledged after this time has failed; waiting and retries included.",
    )
    retry_backoff: float = option(
        "retry.backoff.ms",
        milliseconds(maximum=LONG_MAX),
        default=100,
        meaning="The first wait before a batch is sent again.",
    )
    retry_backoff_max: float = option(
        "retry.backoff.max.ms",
        milliseconds(maximum=LONG_MAX),
        default=1_000,
        meaning="The longest wait before a batch is sent again; waits double up to it.",
    )
    max_in_flight: int = option(
        "max.in.flight.requests.per.connection",
        integer(minimum=1),
        default=5,
        meaning="The maximum number of requests in flight on one connection. Up to 5 keep the order when a batch is "
        "retried; without idempotence only 1 does.",
    )
    io_handoff: bool = option(
        "io.handoff.enable",
        boolean(),
        default=True,
        meaning="A thread that waits for one record after the other does the I/O for them; false: the I/O thread does.",
    )


class Idempotence(enum.StrEnum):
    """Idempotence: off, required, or used if possible."""

    OFF = "false"
    REQUIRED = "true"
    WISHED = "true unless acks, retries or the brokers' age rule it out"


@attrs.frozen(kw_only=True)
class TransactionsConfig:
    """Idempotence and transactions."""

    idempotence: Idempotence = option(  # noqa: RUF009 - a field, not a default
        "enable.idempotence",
        choice({"true": Idempotence.REQUIRED, "false": Idempotence.OFF}),
        default=Idempotence.WISHED,
        meaning="Every record is written once and in order, however often its batch is sent.",
    )
    transactional_id: str | None = option(
        "transactional.id",
        text(minimum=1, most_bytes=SHORT_MAX),
        default=None,
        meaning="The name under which this producer writes transactions; one producer at a time may have it.",
    )
    timeout: int = option(
        "transaction.timeout.ms",
        integer(minimum=1),
        default=60_000,
        meaning="How long a transaction may stay open before its coordinator aborts it.",
    )
    two_phase: bool = option(
        "transaction.two.phase.commit.enable",
        boolean(),
        default=False,
        meaning="Transactions are ended from outside and have no time-out (KIP-939); brokers have to allow it.",
    )


@attrs.frozen(kw_only=True)
class PartitioningConfig:
    """The choice of partitions for records that do not name one."""

    partitioner: str = option(
        "partitioner.class",
        partitioner(),
        default="murmur2",
        meaning="The partitioner plugin; murmur2 does what Java's producer does by default.",
    )
    ignore_keys: bool = option(
        "partitioner.ignore.keys",
        boolean(),
        default=False,
        meaning="Records with a key are spread as if they had none.",
    )
    adaptive: bool = option(
        "partitioner.adaptive.partitioning.enable",
        boolean(),
        default=True,
        meaning="Records without a key go more often to partitions whose brokers are faster.",
    )
    availability_timeout: float = option(
        "partitioner.availability.timeout.ms",
        milliseconds(maximum=LONG_MAX),
        default=0,
        meaning="Partitions of a broker that took nothing for this long are left out; 0: never.",
    )
    rack_aware: bool = option(
        "partitioner.rack.aware",
        boolean(),
        default=False,
        meaning="Records without a key go to partitions whose leader is in the rack of the client, if there are any.",
    )
    rack: str = option(
        "client.rack",
        text(),
        default="",
        meaning="The rack that the client is in, as in the setting `broker.rack` of brokers.",
    )


@attrs.frozen(kw_only=True)
class SerializationConfig:
    """The serializers of keys and values: a plugin's name, or a callable."""

    key_serializer: SerializerChoice = option(  # noqa: RUF009 - a field, not a default
        "key.serializer",
        serializer(),
        default="bytes",
        meaning="The serializer plugin for keys, or a function.",
    )
    value_serializer: SerializerChoice = option(  # noqa: RUF009 - a field, not a default
        "value.serializer",
        serializer(),
        default="bytes",
        meaning="The serializer plugin for values, or a function.",
    )


@attrs.frozen(kw_only=True)
class ObservationConfig:
    """Metrics, reporters, and interceptors of records."""

    reporters: tuple[str, ...] = option(
        "metric.reporters",
        reporters(),
        default=(),
        meaning="The reporter plugins that carry metrics away; in Java JMX is one of them.",
    )
    samples: int = option(
        "metrics.num.samples",
        integer(minimum=1),
        default=2,
        meaning="Over how many windows rates, averages and maxima are taken.",
    )
    window: float = option(
        "metrics.sample.window.ms",
        milliseconds(maximum=LONG_MAX),
        default=30_000,
        meaning="How long such a window is.",
    )
    interceptors: tuple[str, ...] = option(
        "interceptor.classes",
        interceptors(),
        default=(),
        meaning="The interceptor plugins that see each record and its outcome, in this order.",
    )


@attrs.frozen(kw_only=True)
class ReferencesConfig:
    """Providers of values that settings refer to."""

    providers: tuple[object, ...] = option(
        "config.providers",
        items(),
        default=(),
        meaning="Names of the providers whose references, such as ${file:/path:key}, are read in all settings. Each "
        "has config.providers.NAME.class, a plugin (by default the name itself: file, directory or env), and "
        "config.providers.NAME.param.PARAMETER.",
    )


@attrs.frozen(kw_only=True)
class ProducerConfig:
    """All settings of a user. `plugin_values` are the keys of plugins, as the user wrote them."""

    connection: ConnectionConfig = attrs.Factory(ConnectionConfig)
    metadata: MetadataConfig = attrs.Factory(MetadataConfig)
    batching: BatchingConfig = attrs.Factory(BatchingConfig)
    delivery: DeliveryConfig = attrs.Factory(DeliveryConfig)
    transactions: TransactionsConfig = attrs.Factory(TransactionsConfig)
    partitioning: PartitioningConfig = attrs.Factory(PartitioningConfig)
    serialization: SerializationConfig = attrs.Factory(SerializationConfig)
    observation: ObservationConfig = attrs.Factory(ObservationConfig)
    references: ReferencesConfig = attrs.Factory(ReferencesConfig)
    plugin_values: PluginValues = attrs.Factory(lambda: PluginValues({}))
