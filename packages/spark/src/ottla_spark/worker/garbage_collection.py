"""Less garbage collection and memory release around every task in Spark's Python workers, and during their imports.

PySpark's daemon makes a worker collect garbage after each task, over all imported modules: a tenth of a second, more
than a small micro-batch takes. So the objects that exist when the second task begins are frozen, once. Nearly all of
them live as long as the worker. The collector misses the others (that task's own functions, a few producers) only in
reference cycles.

The C library also returns memory to the system after some megabytes of rows, and the system zeroes it for the next
ones.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

DAEMON: Final = "pyspark.daemon"

LARGEST: Final = 16 * 1024 * 1024
"""Block size to free once: glibc then keeps twice as much at the top of each heap, and maps only larger blocks.

Large tables raise this limit by themselves; other C libraries ignore it.
"""

_tasks_begun: dict[int, int] = {}


@contextmanager
def imports_uncollected() -> Iterator[None]:
    """Import without garbage collections: each visits PySpark's objects and pyarrow's, and an import leaves no garbage.

    They take a tenth of the time in which a task's modules are imported, on CPython 3.11.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def reduce_collection() -> None:
    """Reduce garbage collection and the release of memory; every function that Spark runs in a worker calls it.

    This does nothing in a process that PySpark's daemon has not forked.
    """
    if not _is_daemons():
        return
    process = os.getpid()
    begun = _tasks_begun[process] = _tasks_begun.get(process, 0) + 1
    if begun == 1:
        bytes(LARGEST)  # never touched, and freed immediately
    elif begun == 2:
        gc.collect()  # replaces the daemon's collection after this task
        gc.freeze()


def _is_daemons() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
