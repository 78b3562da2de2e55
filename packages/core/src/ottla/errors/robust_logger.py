"""Loggers whose lines never fail, do not wait for busy handlers, and are not left out when records are lost.

What a handler or a filter of the program raises must not reach the producer.

Python's handlers catch errors in `emit` alone. A filter that raises, or an error whose text cannot be made, would end a
round of the I/O thread, and the next one with its next line: records would wait until they expire.

`dictConfig` and `fileConfig` disable all loggers that exist already, unless the program says otherwise. A program that
imports the producer first would so get no line about records that were lost.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable

from ottla.errors import busy_handlers


class RobustLogger(logging.Logger):
    """Prints what handlers and filters raise, as Python's own handlers do, unless `logging.raiseExceptions` is off.

    Lines at ERROR and above are written although the logger is disabled; its level and `logging.disable` hold for all.
    """

    def isEnabledFor(self, level: int) -> bool:
        """Return whether a line of this level is written."""
        if self.disabled and level >= logging.ERROR:
            return self.manager.disable < level and level >= self.getEffectiveLevel()
        return super().isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        """Pass a record to the filters and handlers."""
        try:
            if not self.disabled or record.levelno < logging.ERROR:
                super().handle(record)
            elif kept := self.filter(record):
                self.callHandlers(kept if isinstance(kept, logging.LogRecord) else record)
        except RecursionError:  # as Python's handlers: the caller is deep in a recursion, which has to end
            raise
        except Exception:
            print_error(record.name)

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Pass a record to the handlers; a thread that is not the main one waits for none that is busy."""
        # On the main thread a signal between a lock's acquisition and its release would leave it locked.
        if threading.current_thread() is threading.main_thread() or not busy_handlers.write(self, record, print_error):
            super().callHandlers(record)


def print_error(name: str) -> None:
    """Print the exception that is handled now, of a line of this logger."""
    if logging.raiseExceptions and sys.stderr is not None:
        with contextlib.suppress(Exception):  # it may have no text, or no standard error any more
            print(f"--- Logging error in a line of {name} ---", file=sys.stderr)
            traceback.print_exc(file=sys.stderr)


def robust_logger(name: str) -> logging.Logger:
    """Return the logger of this name; if the program has set its own logger class, the logger is of that class."""
    logger = logging.getLogger(name)
    if type(logger) is logging.Logger:
        logger.__class__ = RobustLogger
    return logger


def log_robustly(write: Callable[[], object]) -> None:
    """Call *write*, which logs a line about a fault of the I/O thread. Print any error: it must not end the thread.

    `RobustLogger` raises a RecursionError, and the program may have a logger class of its own.
    """
    try:
        write()
    except Exception:
        print_error("ottla")
