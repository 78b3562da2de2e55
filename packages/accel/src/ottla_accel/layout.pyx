"""The layout of the core's objects that this package is compiled for, and the check that the core has it.

The names are those of `ottla.recordbatch.native_layout`, in the same order: compiled code accesses slots by position.
"""

from importlib import import_module
from pkgutil import resolve_name

from ottla_accel.slots cimport slot_of

from ottla_accel import __version__

VERSION = 1

SLOTS = (
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

METADATA_ITEMS = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "serialized_key_size",
    "serialized_value_size",
)

CORE = "ottla.recordbatch.native_layout"


def check():
    """Raise ImportError if the core has another layout. Runs before anything else of the core is imported."""
    try:
        core = import_module(CORE)
    except ModuleNotFoundError as error:
        if error.name != CORE:
            raise
        refuse("none")
    if core.VERSION != VERSION:
        refuse(core.VERSION)
    if (core.SLOTS, core.METADATA_ITEMS) != (SLOTS, METADATA_ITEMS):
        refuse(f"{core.VERSION} with other names")


def offsets():
    """Return the place of each slot in its object, in bytes."""
    return tuple([offset_of(slot) for slot in SLOTS])


def offset_of(str slot):
    path, _, attribute = slot.rpartition(".")
    return slot_of(resolve_name(path), attribute)


def refuse(there):
    installed = import_module("ottla.version").__version__
    raise ImportError(
        f"ottla-accel {__version__} is compiled for layout {VERSION} of the core's objects, and that of ottla "
        f"{installed} is {there}; try: pip install --upgrade ottla-accel ottla=={installed}"
    ) from None
