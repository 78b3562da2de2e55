"""The parts of the core's objects that the compiled code of ottla-accel reads and writes in memory.

It takes the offset of each slot once, when it is imported, and uses no names afterwards. It is compiled for one version
of this layout, and refuses every other one. The core itself uses nothing from here.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 1
"""The version of the layout: increase it when a name below, its place in the order or its meaning changes."""

SLOTS: Final = (
    "ottla.accumulator.topic_routes:Route.sticky_batch",
    "ottla.accumulator.topic_routes:Route.queues",
    "ottla.accumulator.topic_routes:Route.view",
    "ottla.interfaces:TopicView.partitions",
    "ottla.accumulator.partition_queue:PartitionQueue.open",
    "ottla.accumulator.batch:ProducerBatch._columns",
    "ottla.accumulator.delivery:Delivery._batch",
    "ottla.accumulator.delivery:Delivery._index",
    "ottla.accumulator.delivery:AcknowledgedDelivery.metadata",
)
"""Attributes in `__slots__`, as `module:class.attribute`."""

METADATA_ITEMS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "serialized_key_size",
    "serialized_value_size",
)
"""The items of the tuple `ottla.results.RecordMetadata`."""
