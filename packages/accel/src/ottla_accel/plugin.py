"""The record encoder that the core selects where this package is installed, and its own implementation of `send`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla_accel.layout import check

check()

# ruff: noqa: E402 - these need the core that the check has found: another one may lack some of their names
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    Columns,
    ColumnsKind,
    Partitioner,
    RecordEncoder,
    SupportsHashes,
    SupportsIgnoresKeys,
    SupportsSticky,
    supports,
)
from ottla.recordbatch.core_abilities import QuickSender
from ottla_accel.avro_rows import avro_rows
from ottla_accel.avro_values import avro_values
from ottla_accel.columns import CALLBACK_SIZE, FACT_SIZE, NativeColumns
from ottla_accel.json_rows import objects
from ottla_accel.sending import QuickSend
from ottla_accel.tables import cut_rows, murmur2_partitions

if TYPE_CHECKING:
    from ottla import Delivery, Producer
    from ottla.accumulator.topic_routes import Route


class NativeEncoder(QuickSender):
    """An encoder whose columns encode each record when it is appended."""

    priority = 10
    record_cost = 20 + FACT_SIZE + CALLBACK_SIZE
    avro_rows = staticmethod(avro_rows)
    avro_values = staticmethod(avro_values)
    cut_rows = staticmethod(cut_rows)
    json_rows = staticmethod(objects)
    murmur2_partitions = staticmethod(murmur2_partitions)

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return columns for `send`, or None for another *kind*."""
        return NativeColumns(limit) if kind is ColumnsKind.OBJECTS else None

    def awaited_delivery(self) -> type[Delivery]:
        """Return the class of deliveries that tasks await."""
        from ottla_accel.waiting import AwaitedDelivery  # here, because it imports asyncio

        return AwaitedDelivery

    def quick_send(
        self, producer: Producer, *, delivery: type[Delivery], routes: dict[str, Route], partitioner: Partitioner
    ) -> Callable[..., Delivery]:
        """Return `send` of this producer, without a reference that keeps the producer alive."""
        return QuickSend(
            routes=routes,
            producer=weakref.ref(producer),
            delivery=delivery,
            slow=type(producer).send,
            sticky=supports(partitioner, SupportsSticky) and bool(partitioner.sticky),
            hashes=supports(partitioner, SupportsHashes) and partitioner.hashes == "murmur2",
            ignores_keys=supports(partitioner, SupportsIgnoresKeys) and bool(partitioner.ignores_keys),
        ).send


@hookimpl
def ottla_encoder() -> RecordEncoder:
    return NativeEncoder()
