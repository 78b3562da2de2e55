"""The configuration of a producer: one frozen section for each part that reads it.

Every field is one key of Kafka, with Java's default. Times are seconds; -1 means the same as in Kafka. Each part of the
core gets only its own section.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from ottla.config.addresses import Address, addresses
from ottla.config.in_force import SettingsInForce
from ottla.config.java_classes import interceptors, partitioner, reporters, serializer
from ottla.config.option import option
from ottla.config.plugin_choice import PluginChoice, plugin, plugins
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
    text,
)
from ottla.config.values import PluginValues
from ottla.results.value_methods import ValueMethods


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
    """The ways to resolve a bootstrap server's name into addresses (KIP-235)."""

    USE_ALL_DNS_IPS = "use_all_dns_ips"
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConnectionConfig(ValueMethods):
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
        meaning="Whether to try all addresses of a name in turn, or to replace each bootstrap server by the canonical "
        "names of its addresses.",
    )
    client_id: str = option(
        "client.id",
        text(most_bytes=SHORT_MAX, visible=True),
        default="",
        meaning="The producer's name in the brokers' logs and quotas; empty: a name is generated.",
    )
    security_protocol: SecurityProtocol = option(  # noqa: RUF009 - a field, not a default
        "security.protocol",
        choice({protocol.lower(): protocol for protocol in SecurityProtocol}),
        default=SecurityProtocol.PLAINTEXT,
        meaning="Encrypted (SSL), authenticated (SASL), both or neither; picks the transport plugin.",
    )
    sasl_mechanism: PluginChoice = option(  # noqa: RUF009 - a field, not a default
        "sasl.mechanism",
        plugin("authenticator", annotation="PluginOf[Mechanism]"),
        default="gssapi",
        meaning="The SASL mechanism, if security.protocol has SASL: the name of an authenticator plugin.",
    )
    connection_via: tuple[PluginChoice, ...] = option(
        "connection.via",
        plugins("transport", annotation="PluginsOf[Transport]"),
        default=(),
        meaning="Transport plugins that each connection goes through, such as proxies; the first one is the nearest to "
        "the producer.",
    )
    connections_max_idle: float = option(
        "connections.max.idle.ms",
        milliseconds_or_never(),
        default=540_000,
        meaning="How long a connection may be idle before it is closed.",
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
        meaning="The largest response that a broker may send; a larger one ends the connection. "
        "librdkafka has this setting, too.",
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
        meaning="How long the first attempt to connect to a broker may take.",
    )
    connection_setup_timeout_max: float = option(
        "socket.connection.setup.timeout.max.ms",
        milliseconds(maximum=LONG_MAX),
        default=30_000,
        meaning="How long any attempt to connect may take; each failed attempt doubles the time up to this limit.",
    )
    request_timeout: float = option(
        "request.timeout.ms",
        milliseconds(),
        default=30_000,
        meaning="How long a broker may take to respond before the producer closes the connection.",
    )


class RecoveryStrategy(enum.StrEnum):
    """The action when no known broker can be reached (KIP-899)."""

    NONE = "none"
    REBOOTSTRAP = "rebootstrap"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MetadataConfig(ValueMethods):
    """The refresh of metadata."""

    max_age: float = option(
        "metadata.max.age.ms",
        milliseconds(maximum=LONG_MAX),
        default=300_000,
        meaning="How old metadata may be before it is requested again, even if nothing failed.",
    )
    max_idle: float = option(
        "metadata.max.idle.ms",
        milliseconds(minimum=5_000, maximum=LONG_MAX),
        default=300_000,
        meaning="How long the metadata of a topic is kept after the last record for it. Its metrics and queues stay.",
    )
    recovery: RecoveryStrategy = option(  # noqa: RUF009 - a field, not a default
        "metadata.recovery.strategy",
        choice({strategy.value: strategy for strategy in RecoveryStrategy}),
        default=RecoveryStrategy.REBOOTSTRAP,
        meaning="Whether to connect to bootstrap.servers again when no known broker can be reached.",
    )
    rebootstrap_trigger: float = option(
        "metadata.recovery.rebootstrap.trigger.ms",
        milliseconds(maximum=LONG_MAX),
        default=300_000,
        meaning="How long metadata may be unavailable before the producer connects to bootstrap.servers again.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchingConfig(ValueMethods):
    """Batches: size, linger, memory and compression."""

    batch_size: int = option(
        "batch.size",
        integer(minimum=0),
        default=16_384,
        meaning="The size of a batch in bytes; a larger record gets its own batch.",
    )
    linger: float = option(
        "linger.ms",
        milliseconds(maximum=LONG_MAX),
        default=5,
        meaning="How long a batch waits for more records at most; it is then sent, if its broker can take a request.",
    )
    growth: bool = option(
        "batch.growth.enable",
        boolean(),
        default=True,
        meaning="Whether a full batch that has to wait for its broker grows, up to max.request.size.",
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
        meaning=(
            "How long one call of send waits at most, for a new topic's metadata and for memory together. "
            "send(timeout=...) and send_table(timeout=...) set another limit, in seconds, for one call."
        ),
    )
    compression_type: PluginChoice = option(  # noqa: RUF009 - a field, not a default
        "compression.type",
        plugin("compressor", annotation="PluginOf[Compressor]"),
        default="none",
        meaning="The compressor plugin for batches: none, gzip, snappy, lz4, zstd or another one installed.",
    )
    compression_gzip_level: int | None = option(
        "compression.gzip.level",
        level(minimum=1, maximum=9, also=-1),
        default=None,
        meaning="gzip's compression level: higher levels compress better and are slower. -1, the default, is zlib's "
        "own choice, 6.",
    )
    compression_lz4_level: int | None = option(
        "compression.lz4.level",
        level(minimum=1, maximum=17),
        default=None,
        meaning=(
            "lz4's compression level: 9, the default, is the fast compressor, which compresses least. All other levels "
            "use the slower compressor, where higher levels compress better and are slower."
        ),
    )
    compression_zstd_level: int | None = option(
        "compression.zstd.level",
        level(minimum=-131072, maximum=22),
        default=None,
        meaning="zstd's compression level: higher levels compress better and are slower; 3 by default.",
    )
    record_encoder: PluginChoice | None = option(  # noqa: RUF009 - a field, not a default
        "record.encoder",
        plugin("encoder", annotation="PluginOf[RecordEncoder]"),
        default=None,
        meaning="The encoder plugin that collects and encodes records; by default that of ottla-accel, if installed.",
    )

    @property
    def compression_levels(self) -> Mapping[int, int | None]:
        """The compression levels by Kafka's codec id; None where the user set none."""
        return {1: self.compression_gzip_level, 3: self.compression_lz4_level, 4: self.compression_zstd_level}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DeliveryConfig(ValueMethods):
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
        meaning="How often a batch is sent again; keep the default, because delivery.timeout.ms is the limit.",
    )
    delivery_timeout: float = option(
        "delivery.timeout.ms",
        milliseconds(),
        default=120_000,
        meaning="How long a record may take until it is acknowledged, with all waits and retries; it then fails.",
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
        meaning="Whether a thread or an event loop that waits for one record after the other does the I/O for them "
        "itself, instead of the I/O thread.",
    )
    undelivered_exit_code: int = option(
        "undelivered.exit.code",
        integer(minimum=0, maximum=255),
        default=0,
        meaning="The exit code of a program that ends without closing its producer, or leaves its with block by an "
        "exception, and so loses records whose errors were not retrieved; 0 leaves the program's own. It ends the "
        "program with os._exit, after the producers are closed: functions that were registered with atexit before "
        "ottla was imported do not run.",
    )


class Idempotence(enum.StrEnum):
    """Idempotence: off, required, or used if possible."""

    OFF = "false"
    REQUIRED = "true"
    IF_POSSIBLE = "true unless acks, retries or the brokers' age rule it out"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TransactionsConfig(ValueMethods):
    """Idempotence and transactions."""

    idempotence: Idempotence = option(  # noqa: RUF009 - a field, not a default
        "enable.idempotence",
        choice({"true": Idempotence.REQUIRED, "false": Idempotence.OFF}),
        default=Idempotence.IF_POSSIBLE,
        meaning="Whether every record is written once and in order, however often its batch is sent.",
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
        meaning="Whether an external coordinator ends the transactions, which then have no time-out (KIP-939); brokers "
        "have to allow it.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartitioningConfig(ValueMethods):
    """The choice of partitions for records that do not name one."""

    partitioner: PluginChoice = option(  # noqa: RUF009 - a field, not a default
        "partitioner.class",
        partitioner(),
        default="murmur2",
        meaning="The partitioner plugin; murmur2 does what Java's producer does by default.",
    )
    ignore_keys: bool = option(
        "partitioner.ignore.keys",
        boolean(),
        default=False,
        meaning="Whether records with a key are partitioned as if they had none.",
    )
    adaptive: bool = option(
        "partitioner.adaptive.partitioning.enable",
        boolean(),
        default=True,
        meaning="Whether records without a key go more often to partitions whose brokers are faster.",
    )
    availability_timeout: float = option(
        "partitioner.availability.timeout.ms",
        milliseconds(maximum=LONG_MAX),
        default=0,
        meaning="Records without a key skip the partitions of a broker that took no batch for this long. With 0, they "
        "never do.",
    )
    rack_aware: bool = option(
        "partitioner.rack.aware",
        boolean(),
        default=False,
        meaning="Whether records without a key go to partitions whose leader is in the rack of the client, if any of "
        "them can take records (KIP-1123). For partitioner.class=murmur2; other partitioners decide themselves.",
    )
    rack: str = option(
        "client.rack",
        text(),
        default="",
        meaning="The rack that the client is in, as in the setting `broker.rack` of brokers.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SerializationConfig(ValueMethods):
    """The serializers of keys and values: a plugin's name, or a callable."""

    key_serializer: PluginChoice = option(  # noqa: RUF009 - a field, not a default
        "key.serializer",
        serializer(),
        default="bytes",
        meaning="The serializer plugin for keys, or a function.",
    )
    value_serializer: PluginChoice = option(  # noqa: RUF009 - a field, not a default
        "value.serializer",
        serializer(),
        default="bytes",
        meaning="The serializer plugin for values, or a function.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ObservationConfig(ValueMethods):
    """Metrics, reporters, and interceptors of records."""

    reporters: tuple[PluginChoice, ...] = option(
        "metric.reporters",
        reporters(),
        default=(),
        meaning="The reporter plugins, which export metrics; in Java, JMX is one of them.",
    )
    samples: int = option(
        "metrics.num.samples",
        integer(minimum=1),
        default=2,
        meaning="The number of windows over which rates, averages and maxima are computed.",
    )
    window: float = option(
        "metrics.sample.window.ms",
        milliseconds(maximum=LONG_MAX),
        default=30_000,
        meaning="The length of one window of the metrics.",
    )
    metrics_push: bool = option(
        "enable.metrics.push",
        boolean(),
        default=True,
        meaning="Whether brokers that collect metrics of clients (KIP-714) get those that they ask for.",
    )
    slow_record_threshold: float = option(
        "slow.record.threshold.ms",
        milliseconds_or_never(),
        default=-1,
        meaning="If a batch is not complete within this time after its first record was queued, a log line says what "
        "it waits for, and another one what it waited for once it is complete: at most one line in 10 s, about the "
        "slowest batch, and a last one at `close`. With -1, there is no line.",
    )
    interceptors: tuple[PluginChoice, ...] = option(
        "interceptor.classes",
        interceptors(),
        default=(),
        meaning="The interceptor plugins that see each record and its outcome, in this order.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReferencesConfig(ValueMethods):
    """Providers of values that settings refer to."""

    providers: tuple[object, ...] = option(
        "config.providers",
        items(),
        default=(),
        meaning="Names of the providers whose references, such as ${file:/path:key}, are read in all settings. Each "
        "has config.providers.NAME.class, a plugin (by default the name itself: file, directory or env), and "
        "config.providers.NAME.param.PARAMETER.",
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProducerConfig(ValueMethods):
    """All settings of a user. `plugin_values` are the keys of plugins, as the user wrote them.

    `in_force` lists all of them for display.
    """

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
    in_force: SettingsInForce = attrs.field(factory=SettingsInForce, eq=False)
