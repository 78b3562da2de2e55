"""The kinds of waits in tests of awaited records: the core's, and those in C where ottla-accel is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Final

from ottla import Delivery
from ottla.accumulator.task_wait import TaskWait

_kinds: dict[str, tuple[type[Delivery], Any]] = {"python": (Delivery, TaskWait)}
if importlib.util.find_spec("ottla_accel") is not None:
    _native = importlib.import_module("ottla_accel.waiting")
    _kinds["native"] = _native.AwaitedDelivery, _native.NativeTaskWait

WAIT_KINDS: Final[Mapping[str, tuple[type[Delivery], Any]]] = _kinds
"""The class of deliveries, and that of the waits of tasks."""
