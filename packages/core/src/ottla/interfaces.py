"""Interfaces between plugins and the core: one small protocol per kind of plugin, and the values passed between them.

Hooks (`ottla.hookspecs`) are factories that return these objects, called once when a producer is built. An optional
ability of an object is a protocol `Supports...` after that of its kind, named after its attribute. An object has the
ability if it has the attribute and that is not None; no base class is needed. `supports` checks it.
This module has declarations and that check only, and imports no part of the core that does work.
"""

from __future__ import annotations

import enum
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import attrs

from ottla.errors import InvalidPluginError
from ottla.errors.quoting import class_name
from ottla.errors.secret import Secret as Secret
from ottla.results import RecordMetadata

Buffer: TypeAlias = bytes | bytearray | memoryview
Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Iterable[Header] | Mapping[str, bytes | None]
"""The headers that `send` takes."""

_Ability = TypeVar("_Ability")


@attrs.frozen(kw_only=True)
class ConfigKey:
    """One configuration key that a plugin understands, declared so that the core can check it.

    `type` converts the user's setting into the value that the plugin reads; it raises ValueError or TypeError.
    The value of a `secret` key never reaches a log, an error or a repr; a type that returns a `Secret` keeps it out of
    tracebacks with local variables, too.
    The value of a key that `rotates` may be a function without arguments, which the plugin calls whenever it needs the
    value. `type` gets such a function, too, for a value with references of `config.providers`.
    """

    name: str
    type: Callable[[Any], Any]
    default: Any
    meaning: str
    secret: bool = False
    rotates: bool = False


PluginConfig: TypeAlias = Mapping[str, Any]
"""The `config` argument of a hook: the keys that its plugin declared, checked, defaults filled in."""


class MetricCounter(Protocol):
    """A number that only grows. For any thread."""

    def add(self, amount: float = 1.0) -> None:
        """Add an amount. ValueError if it is negative."""


class PluginMetrics(Protocol):
    """Metrics of a plugin's own (KIP-877), in `Producer.metrics()` and for reporters. For any thread.

    Their group is "plugins", and their tags are the client id, the key that names the plugin (`config`), the class of
    its object (`class`), the name of its entry point (`plugin`), and *tags*. They are removed when the producer has
    closed its plugins. Metrics of one name have the same unit, meaning and labels.
    """

    def add_gauge(
        self, name: str, read: Callable[[], float], *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> None:
        """Add a metric whose value *read* returns, on the thread that reads the metrics; it must not wait.

        Raises ValueError for a name that exists, or is none; IllegalStateError once the producer is closed.
        """

    def add_counter(
        self, name: str, *, unit: str, meaning: str, tags: Mapping[str, str] | None = None
    ) -> MetricCounter:
        """Add a metric that only grows, and return its counter. Raises like `add_gauge`."""

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Remove a metric; nothing happens if there is none."""


@attrs.frozen(kw_only=True)
class PluginContext:
    """The `context` argument of a hook: what the producer gives to each plugin, whatever its kind.

    `client_id` is the one of requests and of the tags of metrics. It is None for a config provider, which is made
    before the configuration is read, and for a table sealer without `client.id`. `logger` is
    `ottla.plugin.KIND.NAME`; its lines should begin with the client id. `clock` returns seconds and never goes
    backwards; a test or a simulation moves it.
    """

    client_id: str | None
    logger: logging.Logger
    clock: Callable[[], float]
    metrics: PluginMetrics


# A Callable, because mypy refuses a protocol for type[...].
def supports(plugin: object, ability: Callable[..., _Ability]) -> TypeGuard[_Ability]:
    """Return whether a plugin's object has an optional ability, one of the protocols `Supports...`.

    An attribute that is None counts as missing. Raises InvalidPluginError for a method that cannot be called.
    """
    for name, is_method in _attributes(ability).items():
        value = getattr(plugin, name, None)
        if value is None:
            return False
        if is_method and not callable(value):
            raise InvalidPluginError(
                f"{name} of {class_name(plugin)} is of type {type(value).__name__}, and cannot be called; it must be "
                "a method or None"
            )
    return True


@cache
def _attributes(protocol: Any) -> Mapping[str, bool]:
    """The attributes of a protocol, and whether each is a method."""
    declared = vars(protocol).copy()  # another thread may add to a class's dictionary what Python keeps there
    methods = [name for name, value in declared.items() if callable(value) and not name.startswith("_")]
    return {**dict.fromkeys(protocol.__annotations__, False), **dict.fromkeys(methods, True)}


class SupportsClose(Protocol):
    """An optional ability of plugins of every kind: background work, files or connections that end with the producer.

    Reporters have it always. Layers of transports have a `close` of another meaning, for their connection.
    """

    def close(self) -> None:
        """End background work immediately. Called once, after the last use; its exceptions are logged.

        Plugins are closed in the reverse order of their creation: reporters, interceptors, key serializer, compressor,
        partitioner, mechanism, the transport of `connection.via`, value serializer, encoder, the transport of
        `security.protocol`, config providers. If a producer cannot be made, the plugins that were made are closed.
        """


class Interest(enum.Flag):
    """The socket events that a layer itself waits for."""

    NONE = 0
    READ = 1
    WRITE = 2


@attrs.frozen
class Target:
    """An address to connect to: a `socket.AF_*` family and the address that `connect` takes for it."""

    family: int
    sockaddr: Any


@attrs.frozen
class HostTarget:
    """A host and port to connect to, such as those of a proxy. The core resolves the name again for each attempt."""

    host: str
    port: int


@runtime_checkable
class TransportLayer(Protocol):
    """One connection's bytes. Called by one thread at a time, mostly the I/O thread; no method blocks.

    Optional ability: `SupportsDetails`.
    """

    def handshake(self) -> bool:
        """Return True when bytes may flow; called again at any time until then. OSError: the connection failed."""

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Take over bytes from the front of *chunks* and return how many; 0: full.

        At most about 256 kB are taken ahead of the socket.
        """

    def flush(self) -> bool:
        """Return True when no byte that was taken over still waits for the socket."""

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into *buffer* and return the number of bytes; None: nothing now; 0: closed by the peer."""

    def interest(self) -> Interest:
        """The events that the layer itself waits for, apart from the channel's own reads and writes."""

    def may_read(self) -> bool:
        """Return whether a read may return bytes without the socket becoming readable.

        A hint: when that read returns None, the next one comes once the socket is readable.
        """

    def close(self) -> None:
        """Close the socket, with a best-effort shutdown of the protocol; returns immediately and never raises."""


class SupportsDetails(Protocol):
    """An optional ability of transport layers: text about the connection, for `ottla doctor`."""

    def details(self) -> Sequence[tuple[str, str]]:
        """Return pairs of a label and a text, such as ("protocol", "TLSv1.3"), without secrets.

        Called after the handshake. A pair with the label "warning" is a warning.
        """


@runtime_checkable
class Transport(Protocol):
    """Opens the connections of one producer.

    Optional abilities: `SupportsOpenOver`, `SupportsClose`.
    """

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget] | None:
        """The addresses to connect to for this broker; None: resolve the name as usual. Called for each attempt."""

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Wrap a connected, non-blocking socket, which the layer owns from now on; host and port are the broker's."""


class SupportsOpenOver(Protocol):
    """An optional ability of transports: a layer over another layer, such as TLS through a proxy behind TLS."""

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Like `open`, with a layer in place of a socket: its bytes go to this host and port. The new layer owns it.

        The new layer calls `lower.handshake()` until it returns True, and only then reads and writes. Its own
        `interest` includes the lower one's, its `flush` also flushes, and its `may_read` is true if the lower one's is.
        Its `read_into` returns None only once the lower one has.
        """


@attrs.frozen(kw_only=True)
class Step:
    """One answer of an authenticator: bytes to send, if any, and whether the exchange is done. No repr has a secret."""

    reply: bytes | None = attrs.field(repr=False)
    done: bool


@runtime_checkable
class Authenticator(Protocol):
    """One SASL exchange. Owns no socket and no clock. The `reply` of a step that is `done` is sent, too.

    Optional ability: `SupportsRefused`.
    """

    def start(self) -> bytes:
        """The first message to the broker."""

    def challenge(self, data: bytes) -> Step:
        """Answer the broker's message."""


class SupportsRefused(Protocol):
    """An optional ability of authenticators: a mechanism that keeps credentials for later logins drops refused ones."""

    def refused(self, *, certain: bool) -> None:
        """Note that the broker refused what `start` returned. Called on the I/O thread; returns immediately.

        The broker answered an error code alone, or (*certain* is false) closed the connection before it accepted it.
        """


@runtime_checkable
class Mechanism(Protocol):
    """A SASL mechanism of one producer; `blocking` ones run on a helper thread, one call at a time.

    An exception of an exchange becomes AuthenticationError, without its message. A NetworkError is reported unchanged,
    so it must hold no secret.

    Optional abilities: `SupportsIdentity`, `SupportsRemedy`, `SupportsClose`.
    """

    name: str
    blocking: bool

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, for each connection and each re-authentication."""


class SupportsIdentity(Protocol):
    """An optional ability of mechanisms: errors and `ottla doctor` show who logs in."""

    identity: str | None
    """The name that the client logs in with, such as the user name; never a secret. None: not known yet."""


class SupportsRemedy(Protocol):
    """An optional ability of mechanisms: errors say what to do when the login is refused."""

    remedy: str
    """What to do, such as "check sasl.username and sasl.password"."""


@attrs.frozen(kw_only=True)
class TopicView:
    """The state of a topic that a partitioner may read. A topic has a new view whenever the cluster changes.

    `available` has the partitions with a leader, and `slow` those whose leader has taken no batch for
    `partitioner.availability.timeout.ms`. `queued_bytes` has a number for each partition; other threads change it while
    the partitioner reads it, so a number may be out of date. `leaders` has the node id of each partition's leader, -1
    for none, and `racks` the rack of each node that has one. Both are empty where no brokers are known: where batches
    are made without a producer.
    """

    partitions: int
    available: Sequence[int]
    queued_bytes: Sequence[int]
    slow: frozenset[int] = frozenset()
    leaders: Sequence[int] = ()
    racks: Mapping[int, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RecordView:
    """A record that a partitioner may read, as the serializers made it. *timestamp_ms* None: `send` was given none."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp_ms: int | None


@runtime_checkable
class Partitioner(Protocol):
    """Chooses a partition when the caller did not. Called by many threads at the same time.

    Optional abilities, read once when the producer is built: `SupportsPartitionRecord`, `SupportsOnNewBatch`,
    `SupportsSticky` with `SupportsAppended` and `SupportsFinished`, `SupportsIgnoresKeys`, `SupportsPartitionColumn`,
    `SupportsHashes`, `SupportsClose`.
    """

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """Return a partition in `range(view.partitions)`."""


class SupportsPartitionRecord(Protocol):
    """An optional ability of partitioners: choose by more than the key, such as a header or the value.

    Each record then takes a call, as do rows of tables: `sticky`, `ignores_keys`, `partition_column` and `hashes`, with
    which records share a call or take none, are not used.
    """

    def partition_record(self, record: RecordView, view: TopicView) -> int:
        """Return a partition in `range(view.partitions)`. Called in place of `partition`."""


class SupportsOnNewBatch(Protocol):
    """An optional ability of partitioners: choose again when a record would begin a new batch."""

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> object:
        """Note that a record would begin a new batch there; then `partition` is called once more."""


class SupportsSticky(Protocol):
    """An optional ability of partitioners: records without a key stay with a partition, without a call for each."""

    sticky: bool
    """True: records without a key go to the partition of the last one, without a call of `partition`, while the batch
    there has room. Then `appended` is called, and `partition` once more.
    """


class SupportsIgnoresKeys(Protocol):
    """An optional ability of partitioners that are sticky: records with keys are treated like those without."""

    ignores_keys: bool
    """True: all records go where records without a key go."""


class SupportsAppended(Protocol):
    """An optional ability of partitioners that are sticky: count what went to the chosen partition."""

    def appended(self, topic: str, partition: int, size: int) -> object:
        """Note that *size* bytes of records without a key went there."""


class SupportsFinished(Protocol):
    """An optional ability of partitioners that are sticky: count rows of tables apart from records of `send`."""

    def finished(self, topic: str, partition: int, size: int) -> object:
        """Called instead of `appended` for rows of tables, whose batches take no more records."""


class SupportsPartitionColumn(Protocol):
    """An optional ability of partitioners for which many keys in one call are faster than one by one.

    Records with keys then wait together until there are many of them.
    """

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        """Return the partitions of these keys, each in `range(view.partitions)`."""


class SupportsHashes(Protocol):
    """An optional ability of partitioners: to name their hash.

    An encoder may then compute the partitions of keys itself, without calling the partitioner.
    """

    hashes: str
    """The name of the hash that the partitioner applies to keys: "murmur2", which is Java's, is the only known one."""


@runtime_checkable
class Compressor(Protocol):
    """A codec. Thread-safe; its output has Kafka's format for `codec_id` (1 gzip, 2 snappy, 3 lz4, 4 zstd).

    Optional ability: `SupportsClose`.
    """

    codec_id: int

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """Compress the concatenation of all *chunks*.

        *level* is what the user set with Kafka's key for `codec_id`: `compression.gzip.level` (1 to 9, or -1),
        `compression.lz4.level` (1 to 17) or `compression.zstd.level` (-131072 to 22). None: not set; use a default.
        """

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """Return the plain bytes. Raises ProtocolError for more than *limit* of them, and for malformed input."""


class ColumnsKind(enum.Enum):
    """The source of a batch's columns: `send`, one record at a time, or `send_table`, from Arrow."""

    OBJECTS = "objects"
    ARROW = "arrow"


@attrs.frozen(kw_only=True)
class Encoded:
    """The records of a batch, before compression: a records section in format v2, a message set in v0 and v1.

    `first_timestamp` is the base of v2's deltas; both timestamps are -1 in v0, which has none.
    """

    chunks: Sequence[Buffer]
    first_timestamp: int
    max_timestamp: int
    count: int


class Facts(NamedTuple):
    """Timestamps of a batch's records, and the sizes of their keys and values, -1 for null; None: no keys at all."""

    timestamps_ms: Sequence[int]
    key_sizes: Sequence[int] | None
    value_sizes: Sequence[int]


@runtime_checkable
class Columns(Protocol):
    """The records of one open batch, kept as columns until it is sealed. `append` and `allow` never run at once.

    Optional abilities, for the encoders that are released with the core. The first three come together:

    - `put(...)`, an `append` for any thread that takes a callback, see `ProducerBatch.append`;
    - `lock`, which `put` holds meanwhile;
    - `take_callbacks(given)`, the callbacks that `put` has stored and those *given*, in order, as pairs with their
      index;
    - `run_callbacks(...)`, which runs the callbacks of an acknowledged batch, see `ProducerBatch`.
    """

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Append a record and return its index in the batch; None: no room. An empty batch takes any record."""

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes from now on."""

    def close(self) -> None:
        """Take no more records: `append` returns None from now on, whatever `allow` allows. There is one at least."""

    def memory(self) -> int:
        """The bytes that the records occupy until they are encoded, objects included; never less than on the wire."""

    def __len__(self) -> int:
        """The number of records; also after `encode`."""

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes."""

    def encode(self, magic: int) -> Encoded:
        """Encode all records in one pass, in record format 0, 1 or 2, and release them; called without a lock.

        Raises UnsupportedVersionError for records that the format cannot hold; then they are not released.
        """

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns of the same encoder while there is room; return how many fit.

        The indexes ascend.
        """

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records, before `encode`."""

    def release(self) -> None:
        """Release the records, which `extend` has copied to other columns; `len` still returns their number."""

    def facts(self) -> Facts:
        """The timestamps and sizes for the metadata of delivered records; also after `encode`."""


@runtime_checkable
class RecordEncoder(Protocol):
    """Makes the columns of batches. Of those released with the core the highest `priority` that takes the kind wins.

    Optional ability: `SupportsClose`. Others depend on the core's own classes, so that only `ottla-accel`, which is
    released with the core, has them: `SupportsQuickSend`, `SupportsCutRows`, `SupportsMurmur2Partitions`,
    `SupportsJsonRows`.
    """

    priority: int
    record_cost: int
    """Bytes that a record in its columns occupies besides its own; it takes up to 20 of them on the wire, too."""

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return columns whose records may occupy *limit* bytes of memory at first; None: this kind is not taken."""


class SupportsQuickSend(Protocol):
    """An optional ability of encoders: a `Producer.send` of its own for records that fit into an open batch."""

    def quick_send(self, producer: Any, *, routes: dict[str, Any], partitioner: Partitioner) -> Callable[..., Any]:
        """Return `send` of this producer, without a reference that keeps the producer alive."""


class SupportsCutRows(Protocol):
    """An optional ability of encoders: cut a table's rows into encoded batches."""

    def cut_rows(self, rows: Any, partitions: Any | None, *, max_bytes: int) -> Iterator[Any]:
        """Like `ottla.recordbatch.arrow.cut_rows`."""


class SupportsMurmur2Partitions(Protocol):
    """An optional ability of encoders: Java's partitions for a column of keys."""

    def murmur2_partitions(self, keys: Any, partitions: int) -> Any:
        """Like `ottla.plugins.partitioners.murmur2_arrow.murmur2_partitions`."""


class SupportsJsonRows(Protocol):
    """An optional ability of encoders: JSON objects of Arrow columns."""

    def json_rows(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]:
        """Return the offsets and the bytes of *count* objects with these fields, without null ones.

        For a column of an unsupported type it calls *text*, which returns a string column and the quotes for its cells.
        """


class MetricName(NamedTuple):
    """The name of a metric: the Java client's group and name, and its tags, as pairs such as ("topic", "orders").

    Names with equal fields are equal, so a name that is made by hand finds its value in a snapshot.
    """

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.group}:{self.name}" + (
            f"{{{','.join(f'{label}={of}' for label, of in self.tags)}}}" if self.tags else ""
        )


@attrs.frozen(kw_only=True)
class MetricDescription:
    """Meaning of a metric, and the labels of its tags. `cumulative`: it only grows, from 0 when the producer began.

    `unit` is such as "bytes", "records/s", "ms" or "1", which is a ratio.
    """

    group: str
    name: str
    labels: tuple[str, ...]
    cumulative: bool
    unit: str
    meaning: str


class MetricsRegistry(Protocol):
    """The metrics that a reporter reads. For any thread, also after the producer was closed."""

    def snapshot(self) -> Mapping[MetricName, float]:
        """Every metric's value now. An average or a maximum of nothing is NaN."""

    def describe(self) -> Sequence[MetricDescription]:
        """Descriptions of all metrics that a snapshot may have."""


@runtime_checkable
class MetricsReporter(Protocol):
    """Exports metrics. It reads them when it needs them; sending a record does not call it.

    Its exceptions are logged, and the producer continues without it.
    """

    def start(self, registry: MetricsRegistry) -> None:
        """Start background work. Called once when the producer starts; must not wait."""

    def close(self) -> None:
        """End what `start` began. Called once when the producer has closed; its last metrics can still be read.

        Not called if `start` raised, or was not called because the producer could not be made.
        """


@runtime_checkable
class Serializer(Protocol):
    """Converts the caller's keys or values to bytes. Called by many threads at the same time.

    Optional abilities: `SupportsSetsHeaders`, `SupportsPrepare`, `SupportsSerializeColumn`, `SupportsUseEncoder`,
    `SupportsClose`.
    """

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """Return the bytes of a key or value; None stays None. TypeError or ValueError reach the caller of `send`.

        It never waits. A record's value is serialized before its key.
        """


class SupportsSetsHeaders(Protocol):
    """An optional ability of serializers: set headers of the record, such as the id of a schema.

    Rows of tables have only the headers of their column.
    """

    sets_headers: bool
    """True: the *headers* that `serialize` gets are a list, which it may change."""


class SupportsPrepare(Protocol):
    """An optional ability of serializers: wait for a lookup, such as of a schema's id, that later data does not need.

    `serialize` and `serialize_column` raise `ottla.errors.NotPreparedError` while they need it. They are called again
    with the same arguments after `prepare` has returned, at most five times in a row.
    """

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        """Wait for what this key or value, or this column, needs; at most *timeout* seconds, then raise.

        *timeout* is what is left of `max.block.ms`. Called by the thread that sends, or by a helper thread if that one
        must not wait; never on the I/O thread, where `send` raises instead. Several threads may wait for the same
        lookup. What it raises reaches the caller of `send` as the cause of a SerializationError.
        """


class SupportsSerializeColumn(Protocol):
    """An optional ability of serializers: the values of an Arrow array at once, for `send_table(value_format=...)`."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        """Return the bytes of each row of *column*, null where it is null: a `pyarrow.Array` of the same length.

        *column* is a `pyarrow.Array`, checked in full, of any type that Arrow has: also dictionaries, views, extension
        types and run ends, at any depth. It is a `pyarrow.StructArray` if the value is made of several columns, and may
        be a slice, with an `offset`. The result is of type binary, large_binary, string or large_string, always the
        same for one type of column.
        Raises TypeError for a column's type that it does not accept, also if the column is empty: it is called with no
        rows first, for the type of its result.
        """


class SupportsUseEncoder(Protocol):
    """An optional ability of serializers: use abilities of the record encoder, such as `SupportsJsonRows`."""

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Take the producer's record encoder. Called once, before values are serialized."""


@attrs.frozen(kw_only=True)
class ProducerRecord:
    """A record on its way through the interceptors: the arguments of `send`, before the serializers.

    *partition* None: the partitioner chooses; *timestamp_ms* None: now. *context* is any object that the interceptor
    gets back with the outcome of this record; each interceptor has one of its own, and sees no other's.
    """

    topic: str
    key: Any
    value: Any
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None
    context: Any = None


@runtime_checkable
class Interceptor(Protocol):
    """Called with every record before it is queued, and with every outcome. This is generation 2 of the contract.

    Its exceptions are logged, and the record is sent without it.

    Optional ability: `SupportsClose`.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to go on with, such as `attrs.evolve(record, value=...)`; its topic cannot be changed.

        Called by many threads at once, before the serializers, with the result of the interceptor before this one. It
        must not change the objects that it gets.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        """Note the outcome of a record. Called once for each, in partition order, on the I/O thread, which waits.

        With an *error* the record was given up, and *metadata* has only the topic and, if the record had one, the
        partition. For a record that `send` refuses, it is called by the thread that sends. *context* is that of the
        record which this interceptor returned from `on_send`; None if it set none, failed, or was not called.
        """


@runtime_checkable
class ConfigProvider(Protocol):
    """Values for references in settings, such as `${vault:kafka/producer:password}` for a provider `vault`.

    An exception of `get` becomes a problem of the configuration, or of the login that needed the value. An error of
    Ottla keeps its message; of others only the type and place are shown, because a message may hold a secret.

    Optional ability: `SupportsClose`.
    """

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of those *keys* that exist at *path*, which is empty in a reference without one.

        Called by the thread that makes the producer, and again for passwords: by helper threads, at each login. It may
        wait, with a time-out of its own.
        """
