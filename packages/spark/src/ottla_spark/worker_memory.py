"""What Spark's Python workers need not do around every task: look through all of Python, and return their memory.

PySpark's daemon has a worker look for garbage after each task, among everything that was ever imported: a tenth of a
second, more than a small micro-batch takes. What lives on after a first task lives as long as the worker, so it is put
aside. And the C library gives memory back to the system when some megabytes of rows are done with, only to have it
zeroed for the next ones.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"

LARGEST: Final = 16 * 1024 * 1024
"""glibc keeps twice as much as the largest block that was freed, and maps no smaller one by itself."""

_visits: dict[int, int] = {}


def settle_in() -> None:
    """To be called when a task begins. Does nothing where the process is not one of PySpark's daemon."""
    if _is_daemons():
        _settle_in()


def _settle_in() -> None:
    process = os.getpid()
    visits = _visits[process] = _visits.get(process, 0) + 1
    if visits == 1:
        bytes(LARGEST)  # never touched, and freed at once
    elif visits == 2:  # the daemon has just looked for garbage
        gc.freeze()


def _is_daemons() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
