"""Loggers whose lines never fail, and do not wait for busy handlers.

What a handler or a filter of the program raises must not reach the producer.

Python's handlers catch errors in `emit` alone. A filter that raises, or an error whose text cannot be made, would end a
round of the I/O thread, and the next one with its next line: records would wait until they expire.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback

from ottla.errors import busy_handlers


class RobustLogger(logging.Logger):
    """Prints what handlers and filters raise, as Python's own handlers do, unless `logging.raiseExceptions` is off."""

    def handle(self, record: logging.LogRecord) -> None:
        """Pass a record to the filters and handlers."""
        try:
            super().handle(record)
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
