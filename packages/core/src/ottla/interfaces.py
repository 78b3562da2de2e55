"""What a plugin gives to the core: one small protocol per kind, and the values that cross the door.

Hooks (`ottla.hookspecs`) are factories that return these objects, asked once when a producer is assembled.
Nothing here does work, and nothing here knows the core's parts.
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
"""What `send` takes for them."""

SPEC_VERSION: Final = 1
"""The generation of hook specs that this core speaks; a plugin module may state its own as `ottla_spec`."""


@attrs.frozen(kw_only=True)
class ConfigKey:
    """One configuration key that a plugin understands, declared so that the core can check it.

    `type` turns what the user wrote into the value the plugin reads; it raises ValueError or TypeError.
    The value of a `secret` key never reaches a log, an error or a repr; a type that returns a `Secret` keeps it out of
    tracebacks with local variables, too.
    A key that `rotates` may be a function without arguments, which the plugin asks whenever it needs the value: `type`
    gets one, too, for a value with references of `config.providers`.
    """

    name: str
    type: Callable[[Any], Any]
    default: Any
    meaning: str
    secret: bool = False
    rotates: bool = False


PluginConfig: TypeAlias = Mapping[str, Any]
"""What a hook receives as `config`: the keys that its plugin declared, checked, defaults filled in."""


class Interest(enum.Flag):
    """What a layer wants to hear of from the selector on its own behalf."""

    NONE = 0
    READ = 1
    WRITE = 2


@attrs.frozen
class Target:
    """An address to connect to: a `socket.AF_*` family and what `connect` takes for it."""

    family: int
    sockaddr: Any


@runtime_checkable
class TransportLayer(Protocol):
    """One connection's bytes. Called by one thread at a time, mostly the I/O thread; no method blocks.

    Optional ability: `details()`, asked by `ottla doctor` after the handshake, returns pairs of a label and a text that
    tell of it, such as ("protocol", "TLSv1.3"); one with the label "warning" is a warning. No secrets.
    """

    def handshake(self) -> bool:
        """True when bytes may flow; called again at any time until then. OSError: the connection failed."""

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Take over bytes from the front of *chunks* and say how many; 0: full.

        At most about 256 kB are taken ahead of the socket.
        """

    def flush(self) -> bool:
        """True when nothing taken over still waits for the socket."""

    def read_into(self, buffer: memoryview) -> int | None:
        """Bytes put into *buffer*; None: nothing now; 0: closed by the peer."""

    def interest(self) -> Interest:
        """What the layer itself waits for, apart from the channel's own reads and writes."""

    def may_read(self) -> bool:
        """Whether a read may give bytes without the socket becoming readable.

        An offer: when that read gives None, the next one comes once the socket is readable.
        """

    def close(self) -> None:
        """Close the socket, with a best-effort goodbye; returns at once and never raises."""


@runtime_checkable
class Transport(Protocol):
    """Opens the connections of one producer."""

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        """Where to connect for this broker; None: resolve the name as usual."""

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Wrap a connected, non-blocking socket, from now on the layer's; host and port are the broker's."""


@attrs.frozen(kw_only=True)
class Step:
    """One answer of an authenticator: bytes to send, if any, and whether it is satisfied. No repr shows a secret."""

    reply: bytes | None = attrs.field(repr=False)
    done: bool


@runtime_checkable
class Authenticator(Protocol):
    """One SASL exchange. Owns no socket and no clock. The last `reply` is sent even when it says that it is done.

    Optional ability: `refused(certain=...)`, called on the I/O thread when the broker refuses what `start` gave, be it
    by an error code alone, or (*certain* is false) hangs up before it has accepted it; a mechanism that keeps
    credentials for later logins drops them there. It returns at once.
    """

    def start(self) -> bytes:
        """The first message to the broker."""

    def challenge(self, data: bytes) -> Step:
        """Answer the broker's message."""


@runtime_checkable
class Mechanism(Protocol):
    """A SASL mechanism of one producer; `blocking` ones run on a helper thread, one call at a time.

    What an exchange raises becomes AuthenticationError, without its words; a NetworkError is told as it is: it must
    hold no secret.

    Optional abilities, for errors and the end:

    - `identity`: who we say we are, such as the user name; never a secret.
    - `remedy`: what helps when that is refused, such as "check sasl.username and sasl.password".
    - `close()`: called once when the producer closes; ends what runs in the background, at once.
    """

    name: str
    blocking: bool

    def authenticator(self, host: str, port: int) -> Authenticator:
        """A new exchange, for each connection and each re-authentication."""


@attrs.frozen(kw_only=True)
class TopicView:
    """What a partitioner may know of a topic. `queued_bytes` is live and read without a lock: a hint."""

    partitions: int
    available: Sequence[int]
    queued_bytes: Sequence[int]
    slow: frozenset[int] = frozenset()


@runtime_checkable
class Partitioner(Protocol):
    """Chooses a partition when the caller did not. Called by many threads at once.

    Optional abilities, found once at assembly:

    - `on_new_batch(topic, partition, view)`: told that a record would begin a new batch there, then asked once more.
    - `sticky = True` with `appended(topic, partition, size)`: records without a key go where the last one went, without
      a question, while the batch there has room; then `appended` tells how many bytes went there, and the next
      question comes. With `ignores_keys = True` that holds for all records. `finished`, with the same arguments, is
      told in place of `appended` of rows of tables, whose batches nothing can join.
    - `partition_column(topic, keys, view)`: the partitions of many keys at once, none of them None, when that is faster
      than one by one; records with keys then wait together until there are many of them.
    """

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """A partition in `range(view.partitions)`."""


@runtime_checkable
class Compressor(Protocol):
    """A codec. Thread-safe; its bytes are Kafka's for `codec_id` (1 gzip, 2 snappy, 3 lz4, 4 zstd)."""

    codec_id: int

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        """The compressed form of all *chunks* in a row; level None: the codec's own default."""

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        """The plain bytes; more than *limit* of them, or malformed input: ProtocolError."""


class ColumnsKind(enum.Enum):
    """Who fills the columns of a batch: `send` one record at a time, or `send_table` from Arrow."""

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
    """Of each record of a batch: its timestamp, and the sizes of key and value, -1 for null; None: no keys at all."""

    timestamps_ms: Sequence[int]
    key_sizes: Sequence[int] | None
    value_sizes: Sequence[int]


@runtime_checkable
class Columns(Protocol):
    """The records of one open batch, kept as columns until it is sealed. `append` and `allow` never run at once.

    Optional abilities, for the encoders that are released with the core. The first three come together: `put(...)`,
    `append` for any thread with what is to be called, see `ProducerBatch.append`; `lock`, which it holds meanwhile;
    `take_callbacks(given)`, the callbacks that were left with the columns and those *given*, in order, as pairs with
    their index. `tell(...)` calls them all, see `ProducerBatch`.
    """

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """The record's index in the batch; None: no room. An empty batch takes any record."""

    def allow(self, memory: int) -> None:
        """From now on there is room while the records occupy no more than *memory* bytes."""

    def close(self) -> None:
        """Take no more records: `append` says None from now on, whatever `allow` allows. There is one at least."""

    def memory(self) -> int:
        """What the records occupy until they are encoded, their objects included; never less than on the wire."""

    def __len__(self) -> int:
        """How many records there are; also after `encode`."""

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes."""

    def encode(self, magic: int) -> Encoded:
        """Encode everything at once, in record format 0, 1 or 2, and let go of the records; outside every lock.

        What a format has no place for is a UnsupportedVersionError, and the records stay.
        """

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns of the same encoder while there is room; how many there was for.

        The indexes ascend.
        """

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records, before `encode`."""

    def release(self) -> None:
        """Let go of the records, which `extend` has carried elsewhere; their number stays."""

    def facts(self) -> Facts:
        """What is told of each record once it is delivered; also after `encode`."""


@runtime_checkable
class RecordEncoder(Protocol):
    """Makes the columns of batches. The highest `priority` that takes the kind wins.

    Optional ability: `quick_send(producer, **)`, a `Producer.send` of its own for records that an open batch has room
    for. It is bound to the core's own classes, so only `ottla-accel`, which is released with the core, has one.
    """

    priority: int
    record_cost: int
    """What a record in its columns occupies beside its own bytes; up to 20 of that it takes on the wire, too."""

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Columns whose records may occupy *limit* bytes of memory at first; None: this kind is not taken."""


class MetricName(NamedTuple):
    """Which figure it is: Java's group and name, and what it is a figure of, as pairs such as ("topic", "orders").

    Two that look alike are equal, so one that is made by hand finds its value in a snapshot.
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
    """What a figure means, and the labels of its tags. `cumulative`: it only grows, from 0 when the producer began."""

    group: str
    name: str
    labels: tuple[str, ...]
    cumulative: bool
    meaning: str


class MetricsRegistry(Protocol):
    """Where a reporter reads from. For any thread, also after the producer was closed."""

    def snapshot(self) -> Mapping[MetricName, float]:
        """Every metric's value now. An average or a maximum of nothing is NaN."""

    def describe(self) -> Sequence[MetricDescription]:
        """What the metrics mean that a snapshot may have."""


@runtime_checkable
class MetricsReporter(Protocol):
    """Carries metrics away; it pulls, nothing is pushed on the way of a record.

    What it raises is logged, and the producer goes on without it.
    """

    def start(self, registry: MetricsRegistry) -> None:
        """Called once when the producer starts; must not wait. What runs in the background is begun here."""

    def close(self) -> None:
        """Called once when the producer has closed, whose last figures can still be had; ends what `start` began."""


@runtime_checkable
class Serializer(Protocol):
    """Turns what the caller sends into bytes.

    Optional ability: `serialize_column(topic, column)`, the same for an Arrow array: gives one of bytes or text, as
    long, null where *column* is null. `send_table` asks for it by `value_format`. A TypeError for a column's type is
    raised for an empty column, too. Optional: `use_encoder(encoder)`, called once before that with the producer's
    record encoder, which may have abilities that help.
    """

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The bytes of a key or value; None stays None. TypeError or ValueError reach the caller of `send`."""


@runtime_checkable
class Interceptor(Protocol):
    """Sees every record on its way in, and every outcome. What it raises is logged, and the record goes on without it.

    Optional ability: `close()`, called once when the producer has closed.
    """

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> tuple[Any, Any, Sequence[Header]]:
        """The key, value and headers to go on with; what it was given is the caller's and stays as it is.

        Called by many threads at once, before the serializers, with what the interceptor before this one returned.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called once for each record, in the order of its partition, on the I/O thread, which waits for it.

        With an *error* the record was given up, and all that *metadata* knows is the topic and, if it had one, the
        partition. For a record that `send` refuses it is called by the thread that sends.
        """


@runtime_checkable
class ConfigProvider(Protocol):
    """Values for references in settings, such as `${vault:kafka/producer:password}` for a provider `vault`.

    What `get` raises becomes a problem of the configuration, or of the login for which it was asked: an error of ours
    keeps its words, of anything else only type and place are shown, for its words may hold a secret.
    """

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The values of those of the *keys* that there are at *path*, which is empty in a reference without one.

        Called by whoever makes the producer, and again for passwords: by helper threads, at each login. It may wait,
        with a time-out of its own.
        """
