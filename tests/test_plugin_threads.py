"""Plugins are called on the threads that the tables of their contracts name."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any, Final

import pyarrow as pa
import pytest
from broker_on_a_socket import SocketBroker

from ottla import InvalidRecordError, Producer
from ottla.concurrency import io_threads
from ottla.errors import AuthenticationError, ErrorCode, NotPreparedError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Step
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.registry import KINDS
from ottla.plugins.registry.installed import announced
from ottla.recordbatch.objects import ObjectEncoder
from ottla.recordbatch.parse import parse_batches
from ottla_accel.json_rows import objects
from ottla_accel.tables import cut_rows, murmur2_partitions
from ottla_testkit.simulation import SimulatedCluster, SimulatedLogin, batch_checks
from plugin_contracts import contract
from third_party_mechanism import Plain

TIMEOUT: Final = 20.0
PASSWORD: Final = "swordfish"

ATTRIBUTES: Final = {
    "name",
    "blocking",
    "concurrent_logins",
    "identity",
    "remedy",
    "sticky",
    "ignores_keys",
    "hashes",
    "sets_headers",
}
"""Values that are read, not called."""

UNOBSERVED: Final = {
    "open_over",  # by transports that are named in a list
    "details",  # by `ottla doctor`
    "cipher",  # of encrypted connections only
    "avro_rows",  # by the serializer `avro`, which needs a registry
    "avro_values",  # the same
}
"""Methods that no scenario here calls."""

Seen = dict[tuple[str, str], set[str]]


def current() -> str:
    """The thread, in the words of the tables."""
    if io_threads.on_io_thread():
        return "I/O"
    return "helper" if threading.current_thread().name.startswith("ottla-") else "caller"


class Watched:
    """Passes every attribute of a plugin's object on, and notes the thread of each call."""

    def __init__(self, kind: str, inner: Any, seen: Seen) -> None:
        self._kind, self._inner, self._seen = kind, inner, seen

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return partial(self._call, name, value) if callable(value) else value

    def _call(self, name: str, method: Any, *arguments: Any, **options: Any) -> Any:
        self._seen[self._kind, name].add(current())
        plain = [each._inner if isinstance(each, Watched) else each for each in arguments]
        made = method(*plain, **options)
        return MAKERS[name](self._kind, made, self._seen) if name in MAKERS else made


class WatchedColumns(Watched):
    """The same for columns, which have a length."""

    def __len__(self) -> int:
        self._seen[self._kind, "__len__"].add(current())
        return len(self._inner)


MAKERS: Final[Mapping[str, type[Watched]]] = {"open": Watched, "authenticator": Watched, "columns": WatchedColumns}
"""The methods that return another object of the plugin."""


class Hooks:
    """The hooks of all kinds. Each object is watched; a test may choose the objects."""

    seen: Seen
    objects: Mapping[str, Any]

    def make(self, kind: str, ordinary: Any) -> Any:
        self.seen[kind, KINDS[kind].hook].add(current())  # type: ignore[index]  # it is one of them
        return Watched(kind, self.objects.get(kind, ordinary), self.seen)

    @hookimpl
    def ottla_transport(self, inner: Any) -> Any:
        return self.make("transport", inner)

    @hookimpl
    def ottla_authenticator(self) -> Any:
        return self.make("authenticator", Exchanges())

    @hookimpl
    def ottla_partitioner(self) -> Any:
        return self.make("partitioner", Partitioner())

    @hookimpl
    def ottla_compressor(self) -> Any:
        return self.make("compressor", Gzip())

    @hookimpl
    def ottla_serializer(self) -> Any:
        return self.make("serializer", Serializer())

    @hookimpl
    def ottla_encoder(self) -> Any:
        return self.make("encoder", TableEncoder())

    @hookimpl
    def ottla_reporter(self) -> Any:
        return self.make("reporter", Reporter())

    @hookimpl
    def ottla_interceptor(self) -> Any:
        return self.make("interceptor", Interceptor())

    @hookimpl
    def ottla_config_provider(self) -> Any:
        return self.make("config_provider", Provider())

    @hookimpl
    def ottla_config_keys(self) -> Sequence[ConfigKey]:
        return []


class Interceptors(Hooks):
    """The same, with the generation of interceptors."""

    ottla_spec = 2


class Exchanges(Plain):
    """A mechanism whose exchanges note refusals."""

    def __init__(self, *, blocking: bool = False, password: str = PASSWORD) -> None:
        super().__init__(password=password, blocking=blocking)

    def authenticator(self, host: str, port: int) -> Any:
        return Exchange(super().authenticator(host, port))


class Exchange:
    def __init__(self, inner: Any) -> None:
        self.start = inner.start

    def challenge(self, data: bytes) -> Step:
        return Step(reply=None, done=True)

    def refused(self, *, certain: bool) -> None:
        """Nothing to drop."""


class Partitioner:
    """All records to partition 0."""

    def partition(self, topic: str, key: bytes | None, view: Any) -> int:
        return 0


class Sticky(Partitioner):
    sticky = True

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Nothing to count."""

    def finished(self, topic: str, partition: int, size: int) -> None:
        """Nothing to count."""


class ByColumn(Sticky):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: Any) -> Sequence[int]:
        return [0] * len(keys)


class OnNewBatch(Partitioner):
    def on_new_batch(self, topic: str, partition: int, view: Any) -> None:
        """The same partition again."""


class ByRecord(Partitioner):
    def partition_record(self, record: Any, view: Any) -> int:
        return 0


class Serializer:
    """Needs a lookup for the first record."""

    prepared = False

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes | None:
        if not self.prepared:
            raise NotPreparedError("a lookup is needed")
        return data  # type: ignore[no-any-return]  # bytes

    def prepare(self, topic: str, data: Any, headers: Any, *, timeout: float) -> None:
        self.prepared = True

    def serialize_column(self, topic: str, column: Any) -> Any:
        return column

    def column_headers(self, topic: str, column: Any) -> Any:
        return [("schema", b"1")]

    def use_encoder(self, encoder: Any) -> None:
        """No use for it."""


class Reporter:
    def start(self, registry: Any) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to end."""


class Interceptor:
    def on_send(self, record: Any) -> Any:
        return record

    def on_acknowledgement(self, metadata: Any, error: Exception | None, context: Any) -> None:
        """Nothing to note."""

    def on_send_table(self, rows: Any) -> Any:
        return rows

    def on_table_acknowledgement(self, topic: str, result: Any, error: Exception | None, context: Any) -> None:
        """Nothing to note."""


class TableEncoder(ObjectEncoder):
    """The encoder in Python, with abilities of the one in C."""

    cut_rows = staticmethod(cut_rows)
    murmur2_partitions = staticmethod(murmur2_partitions)
    json_rows = staticmethod(objects)


class Provider:
    def get(self, path: str, keys: Any) -> Mapping[str, str]:
        return dict.fromkeys(keys, PASSWORD)


HOOKS: Final = Hooks()
INTERCEPTORS: Final = Interceptors()

LOGIN: Final = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "X-PLAIN"}
TABLE: Final = pa.table({"value": [bytes(5_000)] * 1_000})


@pytest.fixture(scope="module")
def seen() -> Seen:
    """The threads of all calls, after records of every kind that the tables name."""
    seen: Seen = defaultdict(set)
    Hooks.seen = seen
    entries = [
        EntryPoint("x-plain" if kind == "authenticator" else "watched", f"{__name__}:HOOKS", KINDS[kind].group)
        for kind in KINDS
        if kind != "interceptor"
    ]
    entries.append(EntryPoint("watched", f"{__name__}:INTERCEPTORS", KINDS["interceptor"].group))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.plugins.registry.lookup.announced", lambda: [*announced(), *entries])
        patch.setattr(batch_checks, "parse_batches", lambda data, **_: parse_batches(data, compressors={1: Gzip()}))
        everything()
        logins()
        partitioners()
        tables()
        interceptors()
    return seen


def producer_at(servers: str, settings: Mapping[str, Any], **objects: Any) -> Producer:
    """A producer with these plugins, and these objects of theirs in place of the ordinary ones."""
    Hooks.objects = objects
    return Producer({"bootstrap.servers": servers, "linger.ms": 20, "max.block.ms": 10_000, **settings})


def open_broker() -> SocketBroker:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return SocketBroker(cluster.brokers[1])


def everything() -> None:
    """Records of `send` and rows of tables through every plugin that may have both, and a batch that is split."""
    settings = {
        key: "watched"
        for key in (
            "connection.via",
            "partitioner.class",
            "compression.type",
            "key.serializer",
            "value.serializer",
            "record.encoder",
            "metric.reporters",
        )
    }
    broker = open_broker()
    with broker.serving() as servers, producer_at(servers, settings) as producer:
        producer.send("t", b"value", b"key").result(TIMEOUT)
        broker.broker.codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        for _ in range(2):
            producer.send("t", bytes(100), b"key")
        producer.flush(TIMEOUT)
        producer.send_table("t", TABLE)
        producer.send_table("t", TABLE.slice(0, 2), value_format="watched")
        producer.flush(TIMEOUT)


def logins() -> None:
    """Logins that may wait, that may not, that are refused, and with a password from a provider."""
    login = SimulatedLogin(users={"ann": PASSWORD}, mechanisms=["X-PLAIN", "PLAIN"])
    for blocking in (False, True):
        broker = SocketBroker.secured(login)
        with broker.serving() as servers:
            with producer_at(servers, LOGIN, authenticator=Exchanges(blocking=blocking)) as producer:
                producer.send("t", b"value").result(TIMEOUT)
            with (
                producer_at(servers, LOGIN, authenticator=Exchanges(password="wrong")) as producer,
                pytest.raises(AuthenticationError),
            ):
                producer.send("t", b"value")
    named = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "${watched:password}"}
    broker = SocketBroker.secured(login)
    with (
        broker.serving() as servers,
        producer_at(servers, {**LOGIN, **named, "config.providers": "watched"}) as producer,
    ):
        producer.send("t", b"value").result(TIMEOUT)


def partitioners() -> None:
    """Each way to choose partitions, for records and rows with and without keys, in batches that end by every cause."""
    settings = {"partitioner.class": "watched", "record.encoder": "watched", "batch.size": 1000}
    rows = pa.table({"key": [b"a", None, b"b"], "value": [b"1", b"2", b"3"]})
    for partitioner in (Sticky(), ByColumn(), OnNewBatch(), ByRecord()):
        broker = open_broker()
        with broker.serving() as servers, producer_at(servers, settings, partitioner=partitioner) as producer:
            for key in (None, b"key", None):
                for _ in range(3):
                    producer.send("t", bytes(700), key)
                producer.flush(TIMEOUT)
            producer.send("t", b"value", b"key")
            producer.send("t", b"value").result(TIMEOUT)  # the linger time ends, so the I/O thread chooses partitions
            producer.send_table("t", rows)
            producer.flush(TIMEOUT)


def tables() -> None:
    """Rows with keys for Java's partitioner, and values as JSON."""
    broker = open_broker()
    rows = pa.table({"key": [b"a", b"b"], "value": [1, 2], "text": ["x", "y"]})
    with broker.serving() as servers, producer_at(servers, {"record.encoder": "watched"}) as producer:
        producer.send_table("t", rows, value=["value", "text"], value_format="json")
        producer.flush(TIMEOUT)


def interceptors() -> None:
    """A record and a table that are written, and some that are refused."""
    broker = open_broker()
    settings = {"interceptor.classes": "watched", "record.encoder": "watched"}
    with broker.serving() as servers, producer_at(servers, settings) as producer:
        producer.send("t", b"value")
        producer.send_table("t", TABLE)
        producer.flush(TIMEOUT)
        with pytest.raises(InvalidRecordError):
            producer.send("no topic", b"value")
        with pytest.raises(InvalidRecordError):
            producer.send_table("no topic", TABLE)


@pytest.mark.parametrize("kind", KINDS)
def test_each_method_is_called_on_the_threads_of_its_table(kind: str, seen: Seen) -> None:
    declared = {row.method: {*row.threads} for row in contract(kind)}
    observed = {method: threads for (of, method), threads in seen.items() if of == kind}

    assert {method: threads for method, threads in observed.items() if not threads <= declared[method]} == {}
    assert set(declared) - set(observed) <= ATTRIBUTES | UNOBSERVED
