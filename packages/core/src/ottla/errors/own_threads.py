"""The threads that Ottla makes: no program raises exceptions into them, as it may into its own."""

from __future__ import annotations

import threading


class OwnThread(threading.Thread):
    """A thread of a producer, such as the I/O thread."""


def on_own_thread() -> bool:
    """Return whether the calling thread is one of a producer."""
    return isinstance(threading.current_thread(), OwnThread)
