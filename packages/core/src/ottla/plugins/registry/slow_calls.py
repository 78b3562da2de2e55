"""Log lines about a plugin that keeps its caller waiting: an import or a hook that takes longer than a second."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Final

from ottla.plugins.registry.installed import EntryInfo

_log = logging.getLogger(__name__)

SLOW: Final = 1.0
"""Seconds after which a call is slow."""


@contextlib.contextmanager
def logged_when_slow(what: str, info: EntryInfo) -> Iterator[None]:
    """Log a call of a plugin that is slow: while it lasts, as it may never end, and at its end.

    *what* is the call, such as "the import". The first line comes from another thread, since foreign code cannot be
    interrupted.
    """
    started = time.monotonic()
    notice = threading.Timer(SLOW, lambda: _log.warning("still waiting for %s of the %s", what, info))
    notice.daemon = True
    try:
        notice.start()
    except RuntimeError:  # the system has no thread left; only this line is lost
        notice.cancel()
    try:
        yield
    finally:
        notice.cancel()
        if notice.ident is not None:
            notice.join()
        seconds = time.monotonic() - started
        if seconds > SLOW:
            _log.info("%s of the %s took %.1f s", what, info, seconds)
