"""Which threads are I/O threads: on one of them, waiting for a producer would be waiting for oneself."""

from __future__ import annotations

import threading
from typing import Final

_IDENTIFIERS: Final[set[int]] = set()


def enter() -> None:
    """The calling thread is an I/O thread from now on."""
    _IDENTIFIERS.add(threading.get_ident())


def leave() -> None:
    """The calling thread is one no more."""
    _IDENTIFIERS.discard(threading.get_ident())


def on_io_thread() -> bool:
    """Whether the calling thread is an I/O thread, as it is inside a delivery callback."""
    return threading.get_ident() in _IDENTIFIERS


def forget() -> None:
    """In a forked child none of them exists."""
    _IDENTIFIERS.clear()
