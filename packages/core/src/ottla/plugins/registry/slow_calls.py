"""Log lines about a plugin that keeps its caller waiting: an import or a hook that takes longer than a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from ottla.errors.robust_logger import robust_logger
from ottla.plugins.registry.given_info import PluginInfo

_log = robust_logger(__name__)

SLOW: Final = 1.0
"""Seconds after which a call is slow."""


@contextlib.contextmanager
def logged_when_slow(what: str, info: PluginInfo) -> Iterator[None]:
    """Log a call of a plugin that is slow: while it lasts, as it may never end, and at its end.

    *what* is the call, such as "the import". A call of a built-in plugin is logged only at its end.
    """
    started = time.monotonic()
    # Some ten calls of built-in plugins make a producer; a thread for each would take longer than all of them.
    waiting = contextlib.nullcontext() if info.built_in else _logged_while_it_lasts(what, info)
    try:
        with waiting:
            yield
    finally:
        seconds = time.monotonic() - started
        if seconds > SLOW:
            _log.info("%s of the %s took %.1f s", what, info, seconds)


@contextlib.contextmanager
def _logged_while_it_lasts(what: str, info: PluginInfo) -> Iterator[None]:
    """Log from another thread, because a plugin's code cannot be interrupted."""
    notice = threading.Timer(SLOW, lambda: _log.warning("still waiting for %s of the %s", what, info))
    notice.daemon = True
    try:
        notice.start()
    except BaseException as error:
        notice.cancel()
        if not isinstance(error, RuntimeError):  # Ctrl-C
            raise
        # The system has no thread left; only this line is lost.
    try:
        yield
    finally:
        notice.cancel()
        if notice.ident is not None:
            notice.join()
