"""The layout for compiled code names slots that exist, and changes only together with its version."""

from __future__ import annotations

from pkgutil import resolve_name
from types import MemberDescriptorType

import pytest

from ottla import RecordMetadata
from ottla.recordbatch import native_layout

LAYOUTS = {
    1: (
        (
            "ottla.accumulator.topic_routes:Route.sticky_batch",
            "ottla.accumulator.topic_routes:Route.queues",
            "ottla.accumulator.topic_routes:Route.view",
            "ottla.interfaces:TopicView.partitions",
            "ottla.accumulator.partition_queue:PartitionQueue.open",
            "ottla.accumulator.batch:ProducerBatch._columns",
            "ottla.accumulator.delivery:Delivery._batch",
            "ottla.accumulator.delivery:Delivery._index",
            "ottla.accumulator.delivery:AcknowledgedDelivery.metadata",
        ),
        ("topic", "partition", "offset", "timestamp_ms", "serialized_key_size", "serialized_value_size"),
    )
}
"""What each version names. A changed layout is a new version here and in `ottla_accel.layout`."""


@pytest.mark.parametrize("slot", native_layout.SLOTS)
def test_each_name_of_the_layout_is_a_slot_of_exactly_that_class(slot: str) -> None:
    path, _, attribute = slot.rpartition(".")

    assert isinstance(vars(resolve_name(path))[attribute], MemberDescriptorType)


def test_the_items_of_the_layout_are_those_of_the_metadata() -> None:
    assert RecordMetadata._fields == native_layout.METADATA_ITEMS


def test_a_changed_layout_has_a_new_version() -> None:
    assert LAYOUTS[native_layout.VERSION] == (native_layout.SLOTS, native_layout.METADATA_ITEMS)
    assert max(LAYOUTS) == native_layout.VERSION
