"""What Spark's Python workers need not do around every task: look through all of Python, and return their memory.

PySpark's daemon has a worker look for garbage after each task, among everything that was ever imported: a tenth of a
second, more than a small micro-batch takes. So what is there when the second task begins is put aside, once: nearly all
of it lives as long as the worker, and what does not (that task's own functions, a few producers) is missed by the
collector only where it refers to itself. And the C library gives memory back to the system when some megabytes of rows
are done with, only to have it zeroed for the next ones.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"

LARGEST: Final = 16 * 1024 * 1024
"""Of the largest block that was freed glibc keeps twice as much at the top of each heap, and maps no smaller one alone.

It comes to that by itself where tables are large; other C libraries take no notice.
"""

_visits: dict[int, int] = {}


def settle_in() -> None:
    """To be called by whatever Spark has a worker do. Does nothing where the process is not one of PySpark's daemon."""
    if not _is_daemons():
        return
    process = os.getpid()
    visits = _visits[process] = _visits.get(process, 0) + 1
    if visits == 1:
        bytes(LARGEST)  # never touched, and freed at once
    elif visits == 2:
        gc.collect()  # in place of the daemon's, after this task
        gc.freeze()


def _is_daemons() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
