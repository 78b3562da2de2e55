"""Names of other clients' methods: an AttributeError that says what to call here."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable
from inspect import getattr_static
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias, TypeVar

C = TypeVar("C", bound=type)

if TYPE_CHECKING:
    _OfProtocols: TypeAlias = ABCMeta
else:
    _OfProtocols = type(Protocol)
    """The type of classes that are protocols; it is derived from `ABCMeta`, the type of abstract classes."""

_ARGUMENTS: Final = "callback= is on_delivery= there, and timestamp= is timestamp_ms="
_NO_POLL: Final = "leave it out: callbacks run on the producer's I/O thread"
_WAIT: Final = "call result(timeout), or exception(timeout)"
_OWN_DATA: Final = "a delivery does not hold the record; bind what you need: on_delivery=functools.partial(f, order)"
_CLASSES: Final = "catch its class; if a broker refused the request, __cause__ is a BrokerError, which has its code"
_WAIT_FOR_SEVERAL: Final = "call future(), which returns one that wait and as_completed of concurrent.futures take"

PRODUCER_HINTS: Final = {
    "__aenter__": "use AsyncProducer of ottla.aio, or `with` in place of `async with`",
    "__len__": "leave it out: flush() waits for the records that are queued, and returns their counts",
    "bootstrap_connected": "run `ottla doctor`, or call partitions_for(topic)",
    "client": "call partitions_for(topic), or use an admin client",
    "cluster_id": "run `ottla doctor`, or use an admin client",
    "create_batch": "call send for each record, or send_table",
    "list_topics": "call partitions_for(topic), or use an admin client",
    "poll": _NO_POLL,
    "produce": f"call send(topic, value, key), which returns a delivery; {_ARGUMENTS}",
    "produce_batch": "call send for each record, or send_table",
    "purge": "call close(0), which fails the records that are not acknowledged yet",
    "send_and_wait": "call send(...).result(timeout)",
    "send_batch": "call send for each record, or send_table",
    "set_sasl_credentials": "set sasl.credentials.provider, or a function as sasl.password",
    "start": "leave it out: the constructor starts the producer",
    "stop": "call close(), or use the producer in a with statement",
}
"""For `Producer`: methods of confluent-kafka, kafka-python and aiokafka."""

_ONLY_SYNCHRONOUS: Final = {"__aenter__", "send_and_wait", "start", "stop"}

ASYNC_HINTS: Final = {
    **{name: hint for name, hint in PRODUCER_HINTS.items() if name not in _ONLY_SYNCHRONOUS},
    "__enter__": "use `async with` in place of `with`",
    "__len__": "leave it out: `await producer.flush()` waits for the queued records, and returns their counts",
    "produce": f"call `await producer.send(topic, value, key)`, which returns a delivery to await; {_ARGUMENTS}",
    "purge": "call `await producer.close(0)`, which fails the records that are not acknowledged yet",
    "start": "leave it out, or use the producer in an `async with` statement",
    "stop": "call `await producer.close()`, or use the producer in an `async with` statement",
}
"""For `AsyncProducer`: methods of confluent-kafka and aiokafka."""

SYNCHRONOUS_HINTS: Final = dict.fromkeys(
    ("join_transaction", "leave_transaction", "send_sealed"), "it is a method of Producer: call that on a thread"
)
"""For `AsyncProducer`: methods that only `Producer` has."""

DELIVERY_HINTS: Final = {
    "_condition": _WAIT_FOR_SEVERAL,
    "add_both": "call add_done_callback(f); f gets the delivery",
    "add_callback": "call add_done_callback(f); f gets the delivery, with its metadata or its error",
    "add_errback": "call add_done_callback(f); f gets the delivery, with its metadata or its error",
    "cancel": "a record cannot be taken back; close(0) of the producer fails all that are not acknowledged",
    "failed": "read error, which is None until the record has failed",
    "get": _WAIT,
    "headers": _OWN_DATA,
    "is_done": "call done()",
    "key": _OWN_DATA,
    "offset": "call result(timeout), which returns the metadata",
    "retriable": "Ottla has retried already: if error is not None, the record has failed",
    "succeeded": "read metadata, which is None until the record is acknowledged",
    "timestamp": "call result(timeout), which returns the metadata",
    "value": f"call result(timeout) for the metadata; {_OWN_DATA}",
}
"""For `Delivery`: methods of kafka-python's futures, and private attributes that `concurrent.futures` reads."""


METADATA_HINTS: Final = {
    "error": "read the error of the delivery",
    "headers": _OWN_DATA,
    "key": _OWN_DATA,
    "latency": "read it in the story() of the delivery",
    "log_start_offset": "brokers are not asked for it here",
    "timestamp": "read timestamp_ms",
    "timestamp_type": "timestamp_ms is the time in the log, whichever of the two it is",
    "topic_partition": "write (metadata.topic, metadata.partition)",
    "value": _OWN_DATA,
}
"""For `RecordMetadata`: methods of confluent-kafka's messages, and fields of kafka-python and aiokafka."""

ERROR_HINTS: Final = {
    "code": _CLASSES,
    "fatal": "send raises ProducerFailedError or FatalTransactionError once the producer can do no more",
    "name": _CLASSES,
    "retriable": "Ottla has retried already; possibly_persisted of a record's error says whether brokers may hold it",
    "str": "write str(error)",
    "txn_requires_abort": "catch AbortableTransactionError",
}
"""For `OttlaError`: methods of confluent-kafka's errors, and attributes of kafka-python's."""

_NOT_HERE: Final = "Ottla only sends; use an admin client for topics, and another client's consumer"

_NOT_REACHED: Final = "import TopicUnavailableError, which send raises if no broker answers within max.block.ms"

_REFUSED: Final = "catch OttlaError; if a broker refused the request, __cause__ is a BrokerError, which has its code"

IMPORT_HINTS: Final = {
    "AIOKafkaProducer": "import AsyncProducer from ottla.aio",
    "AIOProducer": "import AsyncProducer from ottla.aio",
    "AdminClient": _NOT_HERE,
    "AsyncProducer": "import it from ottla.aio",
    "AvroProducer": "import Producer, and set key.serializer and value.serializer to avro",
    "BrokerNotAvailableError": _REFUSED,
    "Consumer": _NOT_HERE,
    "KafkaAdminClient": _NOT_HERE,
    "KafkaConnectionError": _NOT_REACHED,
    "KafkaConsumer": _NOT_HERE,
    "KafkaError": "import OttlaError, the base of all errors",
    "KafkaException": "import OttlaError, the base of all errors",
    "KafkaProducer": "import Producer",
    "KafkaTimeoutError": "import TopicUnavailableError and BufferExhaustedError, which send raises in its place",
    "LeaderNotAvailableError": _REFUSED,
    "Message": "import Delivery, which callbacks get, or RecordMetadata",
    "MessageSizeTooLargeError": "import RecordTooLargeError",
    "NewTopic": _NOT_HERE,
    "NoBrokersAvailable": _NOT_REACHED,
    "NotEnoughReplicasError": _REFUSED,
    "ProducerFenced": "import ProducerFencedError",
    "RequestTimedOutError": _REFUSED,
    "SerializingProducer": "import Producer, which takes key_serializer and value_serializer",
    "StringSerializer": "set key.serializer or value.serializer to string, or import it from confluent_kafka",
    "TopicAuthorizationFailedError": _REFUSED,
    "TopicPartition": "write (topic, partition), or pass that of another client",
    "UnknownTopicOrPartitionError": "import TopicUnavailableError",
}
"""For `from ottla import ...`: classes of other clients, and one of another module."""


class _Hint:
    """A class attribute that does not exist, except for its AttributeError. Unlike `__getattr__` it slows no other."""

    __slots__ = ("_hint", "_name")

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}; {self._hint}", name=self._name, obj=instance
        )


class ListedWithoutHints(_OfProtocols):
    """The type of a class with hints. `dir` of the class leaves them out, as no attribute of theirs exists.

    `create_autospec` of `unittest.mock` and completion in a shell ask `dir`. A program may derive a class from ours and
    from one that is abstract or a protocol: Python then needs a type that is derived from the types of both.
    """

    # Those of protocols need attributes that other classes lack, in Python 3.11.
    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __dir__(cls) -> Iterable[str]:
        """Return the names of the attributes that exist."""
        return _without_hints(cls, super().__dir__())


def with_call_hints(hints: dict[str, str]) -> Callable[[C], C]:
    """Add the hints to a class, for names that it does not have itself."""

    def add(kind: C) -> C:
        for name, hint in hints.items():
            assert not hasattr(kind, name), f"{kind.__name__}.{name} exists"
            setattr(kind, name, _Hint(name, hint))
        kind.__dir__ = _dir_of_object  # type: ignore[assignment, method-assign]
        if "__len__" in hints:
            kind.__bool__ = _true  # type: ignore[attr-defined]  # without it Python asks __len__
        return kind

    return add


def _dir_of_object(found: object) -> Iterable[str]:
    return _without_hints(type(found), object.__dir__(found))


def _without_hints(kind: type, names: Iterable[str]) -> Iterable[str]:
    return [name for name in names if not isinstance(getattr_static(kind, name, None), _Hint)]


def _true(_self: object) -> bool:
    return True
