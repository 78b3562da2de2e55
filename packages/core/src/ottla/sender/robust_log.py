"""Log lines about a fault of the I/O thread, which a logging handler must not turn into its end.

`RobustLogger` does so for what a handler raises, except if it recurses without end.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable


def log_robustly(write: Callable[[], object]) -> None:
    """Call *write*, which logs a line. If a handler raises, print its error, as Python's own handlers do."""
    try:
        write()
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc(file=sys.stderr)
