"""The layout of the core's objects that this package is compiled for, and the check that the core has it.

The names are those of `ottla.recordbatch.native_layout`, in the same order: compiled code accesses slots by position.
"""

import platform
from importlib import import_module
from pkgutil import resolve_name

from cpython.object cimport PyObject

from ottla_accel.locks cimport has_references
from ottla_accel.slots cimport fill, new_object, new_tuple, read_slot, slot_of

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
    """Return the place of each slot in its object, in bytes. Raises ImportError if the interpreter keeps it elsewhere."""
    found = []
    for slot in SLOTS:  # no comprehension: see test_memory.py
        found.append(offset_of(slot))
    return tuple(found)


def check_tuples(cls):
    """Raise ImportError if a tuple of this class, filled in memory, is not the one that a call of the class returns."""
    values = []
    for _ in cls._fields:
        values.append(object())
    if cls.__bases__ != (tuple,) or (cls.__basicsize__, cls.__itemsize__) != (tuple.__basicsize__, tuple.__itemsize__):
        refuse_interpreter(f"the layout of {cls.__name__} is not that of a tuple")
    made = new_tuple(cls, len(values))
    alone = has_references(<PyObject*>made, 1)
    for index, value in enumerate(values):
        fill(made, index, value)
    wanted = cls(*values)
    if not alone or type(made) is not cls or (made, hash(made), len(made)) != (wanted, hash(wanted), len(wanted)):
        refuse_interpreter(f"a {cls.__name__} made in memory is another one than in Python")


def offset_of(str slot):
    path, _, attribute = slot.rpartition(".")
    cls, value = resolve_name(path), object()
    cdef Py_ssize_t offset = slot_of(cls, attribute)
    owner = new_object(<PyObject*>cls)
    object.__setattr__(owner, attribute, value)
    if offset + <Py_ssize_t>sizeof(PyObject*) > cls.__basicsize__ or read_slot(<PyObject*>owner, offset) != <PyObject*>value:
        refuse_interpreter(f"{slot} is not where its descriptor says")
    return offset


def refuse(there):
    installed = import_module("ottla.version").__version__
    raise ImportError(
        f"ottla-accel {__version__} is compiled for layout {VERSION} of the core's objects, and that of ottla "
        f"{installed} is {there}; try: pip install --upgrade ottla-accel ottla=={installed}"
    ) from None


def refuse_interpreter(what):
    raise ImportError(
        f"ottla-accel {__version__} does not know the objects of {platform.python_implementation()} "
        f"{platform.python_version()}: {what}; try: pip install --upgrade ottla-accel, or set record.encoder=python"
    )
