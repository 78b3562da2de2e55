"""Names of other clients' methods: an AttributeError that says what to call here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

C = TypeVar("C", bound=type)

_NO_POLL: Final = "leave it out: callbacks run on the producer's I/O thread"
_WAIT: Final = "call result(timeout), or exception(timeout)"
_WAIT_FOR_SEVERAL: Final = "call future(), which returns one that wait and as_completed of concurrent.futures take"

PRODUCER_HINTS: Final = {
    "bootstrap_connected": "run `ottla doctor`, or call partitions_for(topic)",
    "create_batch": "call send for each record, or send_table",
    "list_topics": "call partitions_for(topic), or use an admin client",
    "poll": _NO_POLL,
    "produce": "call send(topic, value, key), which returns a delivery and takes on_delivery",
    "produce_batch": "call send for each record, or send_table",
    "purge": "call close(0), which fails the records that are not acknowledged yet",
    "send_and_wait": "call send(...).result(timeout)",
    "send_batch": "call send for each record, or send_table",
    "set_sasl_credentials": "set sasl.credentials.provider, or a function as sasl.password",
    "start": "leave it out: the constructor starts the producer",
    "stop": "call close(), or use the producer in a with statement",
}
"""For `Producer`: methods of confluent-kafka, kafka-python and aiokafka."""

ASYNC_HINTS: Final = {
    **{name: hint for name, hint in PRODUCER_HINTS.items() if name not in {"send_and_wait", "start", "stop"}},
    "produce": "call `await producer.send(topic, value, key)`, which returns a delivery to await",
    "purge": "call `await producer.close(0)`, which fails the records that are not acknowledged yet",
    "start": "leave it out, or use the producer in an `async with` statement",
    "stop": "call `await producer.close()`, or use the producer in an `async with` statement",
}
"""For `AsyncProducer`: methods of confluent-kafka and aiokafka."""

DELIVERY_HINTS: Final = {
    "_condition": _WAIT_FOR_SEVERAL,
    "add_both": "call add_done_callback(f); f gets the delivery",
    "add_callback": "call add_done_callback(f); f gets the delivery, with its metadata or its error",
    "add_errback": "call add_done_callback(f); f gets the delivery, with its metadata or its error",
    "failed": "read error, which is None until the record has failed",
    "get": _WAIT,
    "is_done": "call done()",
    "succeeded": "read metadata, which is None until the record is acknowledged",
    "value": "call result(timeout) for the metadata",
}
"""For `Delivery`: methods of kafka-python's futures, and what `concurrent.futures` reads of its own."""


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


def with_call_hints(hints: dict[str, str]) -> Callable[[C], C]:
    """Add the hints to a class, for names that it does not have itself."""

    def add(kind: C) -> C:
        for name, hint in hints.items():
            assert not hasattr(kind, name), f"{kind.__name__}.{name} exists"
            setattr(kind, name, _Hint(name, hint))
        return kind

    return add
