"""The set of the I/O threads of all producers. On its own one, a wait for a producer would never end."""

from __future__ import annotations

import threading
from typing import Final

_IDENTIFIERS: Final[set[int]] = set()


def enter() -> None:
    """Mark the calling thread as an I/O thread."""
    _IDENTIFIERS.add(threading.get_ident())


def leave() -> None:
    """Undo `enter`."""
    _IDENTIFIERS.discard(threading.get_ident())


def on_io_thread() -> bool:
    """Return whether the calling thread is an I/O thread, as it is inside a delivery callback."""
    return threading.get_ident() in _IDENTIFIERS


def forget() -> None:
    """Remove all threads: none of them exists in a forked child."""
    _IDENTIFIERS.clear()
