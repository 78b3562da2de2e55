"""Interfaces between plugins and the core: one small protocol per kind of plugin, and the values passed between them.

Hooks (`ottla.hookspecs`) are factories that return these objects, called once when a producer is built.
This module has declarations only, and imports no part of the core that does work.
"""

from __future__ import annotations

import enum
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import attrs

from ottla.errors.secret import Secret as Secret
from ottla.results import RecordMetadata

Buffer: TypeAlias = bytes | bytearray | memoryview
Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Iterable[Header] | Mapping[str, bytes | None]
"""The headers that `send` takes."""

SPEC_VERSION: Final = 1
"""The generation of hook specs that this core speaks; a plugin module may state its own as `ottla_spec`."""


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


@runtime_checkable
class TransportLayer(Protocol):
    """One connection's bytes. Called by one thread at a time, mostly the I/O thread; no method blocks.

    Optional ability: `details()`, called by `ottla doctor` after the handshake, returns pairs of a label and a text
    about the connection, such as ("protocol", "TLSv1.3"). A pair with the label "warning" is a warning. No secrets.
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
        """Close the socket, with a best-effort shutdown of the protocol; returns at once and never raises."""


@runtime_checkable
class Transport(Protocol):
    """Opens the connections of one producer."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """The addresses to connect to for this broker; None: resolve the name as usual."""

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Wrap a connected, non-blocking socket, which the layer owns from now on; host and port are the broker's."""


@attrs.frozen(kw_only=True)
class Step:
    """One answer of an authenticator: bytes to send, if any, and whether the exchange is done. No repr has a secret."""

    reply: bytes | None = attrs.field(repr=False)
    done: bool


@runtime_checkable
class Authenticator(Protocol):
    """One SASL exchange. Owns no socket and no clock. The `reply` of a step that is `done` is sent, too.

    Optional ability: `refused(certain=...)`, called on the I/O thread when the broker refuses what `start` returned.
    The broker answers an error code alone, or (*certain* is false) closes the connection before it has accepted it. A
    mechanism that keeps credentials for later logins drops them there. `refused` returns at once.
    """

    def start(self) -> bytes:
        """The first message to the broker."""

    def challenge(self, data: bytes) -> Step:
        """Answer the broker's message."""


@runtime_checkable
class Mechanism(Protocol):
    """A SASL mechanism of one producer; `blocking` ones run on a helper thread, one call at a time.

    An exception of an exchange becomes AuthenticationError, without its message. A NetworkError is reported unchanged,
    so it must hold no secret.

    Optional abilities, for errors and the end:

    - `identity`: the name that the client logs in with, such as the user name; never a secret.
    - `remedy`: advice for when that is refused, such as "check sasl.username and sasl.password".
    - `close()`: called once when the producer closes; ends background work at once.
    """

    name: str
    blocking: bool

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a new exchange, for each connection and each re-authentication."""


@attrs.frozen(kw_only=True)
class TopicView:
    """The state of a topic that a partitioner may read.

    `available` has the partitions with a leader, and `slow` those whose leader has taken no batch for
    `partitioner.availability.timeout.ms`. `queued_bytes` has a number for each partition; other threads change it while
    the partitioner reads it, so a number may be out of date.
    """

    partitions: int
    available: Sequence[int]
    queued_bytes: Sequence[int]
    slow: frozenset[int] = frozenset()


@runtime_checkable
class Partitioner(Protocol):
    """Chooses a partition when the caller did not. Called by many threads at once.

    Optional abilities, read once when the producer is built:

    - `on_new_batch(topic, partition, view)`: called when a record would begin a new batch there; then `partition` is
      called once more.
    - `sticky = True` with `appended(topic, partition, size)`: records without a key go to the partition of the last
      one, without a call of `partition`, while the batch there has room. Then `appended` is called with the number of
      bytes that went there, and `partition` once more. With `ignores_keys = True` that holds for all records. For rows
      of tables, whose batches take no more records, `finished` is called in place of `appended`, with the same
      arguments.
    - `partition_column(topic, keys, view)`: the partitions of many keys at once, none of them None, when that is faster
      than one by one. Records with keys then wait together until there are many of them.
    """

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """Return a partition in `range(view.partitions)`."""


@runtime_checkable
class Compressor(Protocol):
    """A codec. Thread-safe; its output has Kafka's format for `codec_id` (1 gzip, 2 snappy, 3 lz4, 4 zstd)."""

    codec_id: int

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """Compress the concatenation of all *chunks*; level None: the codec's own default."""

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
        """Encode all records at once, in record format 0, 1 or 2, and release them; called without a lock.

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
    """Makes the columns of batches. The highest `priority` that takes the kind wins.

    Optional ability: `quick_send(producer, **)`, a `Producer.send` of its own for records that fit into an open batch.
    It depends on the core's own classes, so only `ottla-accel`, which is released with the core, has one.
    """

    priority: int
    record_cost: int
    """Bytes that a record in its columns occupies besides its own; it takes up to 20 of them on the wire, too."""

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return columns whose records may occupy *limit* bytes of memory at first; None: this kind is not taken."""


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
    """Meaning of a metric, and the labels of its tags. `cumulative`: it only grows, from 0 when the producer began."""

    group: str
    name: str
    labels: tuple[str, ...]
    cumulative: bool
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

    Its exceptions are logged, and the producer goes on without it.
    """

    def start(self, registry: MetricsRegistry) -> None:
        """Start background work. Called once when the producer starts; must not wait."""

    def close(self) -> None:
        """End what `start` began. Called once when the producer has closed; its last metrics can still be read."""


@runtime_checkable
class Serializer(Protocol):
    """Converts the caller's keys or values to bytes.

    Optional ability: `serialize_column(topic, column)`, the same for an Arrow array: returns one of bytes or text, of
    the same length, null where *column* is null. `send_table` calls it for `value_format`. A TypeError for a column's
    type is raised for an empty column, too. Optional: `use_encoder(encoder)`, called once before that with the
    producer's record encoder, which may have abilities that help.
    """

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """Return the bytes of a key or value; None stays None. TypeError or ValueError reach the caller of `send`."""


@runtime_checkable
class Interceptor(Protocol):
    """Called with every record before it is queued, and with every outcome.

    Its exceptions are logged, and the record goes on without it.

    Optional ability: `close()`, called once when the producer has closed.
    """

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> tuple[Any, Any, Sequence[Header]]:
        """Return the key, value and headers to go on with, without changing the objects it was given.

        Called by many threads at once, before the serializers, with the result of the interceptor before this one.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Note the outcome of a record. Called once for each, in partition order, on the I/O thread, which waits.

        With an *error* the record was given up, and *metadata* has only the topic and, if the record had one, the
        partition. For a record that `send` refuses, it is called by the thread that sends.
        """


@runtime_checkable
class ConfigProvider(Protocol):
    """Values for references in settings, such as `${vault:kafka/producer:password}` for a provider `vault`.

    An exception of `get` becomes a problem of the configuration, or of the login that needed the value. An error of
    Ottla keeps its message; of others only the type and place are shown, because a message may hold a secret.
    """

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of those *keys* that exist at *path*, which is empty in a reference without one.

        Called by the thread that makes the producer, and again for passwords: by helper threads, at each login. It may
        wait, with a time-out of its own.
        """
