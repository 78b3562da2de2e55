"""Looking up host names with a time limit. The system's resolver has none.

A lookup cannot be interrupted, so each runs on a separate thread, and a caller whose time is over leaves it. The next
caller with the same name waits for that lookup instead of starting another one.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

AddressInfo: TypeAlias = tuple[Any, Any, int, str, Any]
"""What `socket.getaddrinfo` returns for an address."""


@attrs.define
class _Lookup:
    done: threading.Event = attrs.field(factory=threading.Event)
    found: Sequence[AddressInfo] = ()
    error: BaseException | None = None


class HostNames:
    """The addresses of host names. For any thread."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, str, int], _Lookup] = {}
        """By process, name and port. No lock guards it: a process that forks could leave its child a held one."""

    def addresses(self, host: str, port: int, *, timeout: float) -> Sequence[AddressInfo]:
        """Return the addresses of a name, in the system's order.

        Raises TimeoutError after *timeout* seconds, and OSError for a name without an address.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, ValueError):
            pass  # it is a name
        lookup = self._lookup(host, port)
        if not lookup.done.wait(timeout):
            raise TimeoutError(f"the host name {host!r} was not looked up within {timeout:.3g} s")
        if lookup.error is not None:
            raise OSError(f"the host name {host!r} has no address: {lookup.error}") from lookup.error
        return lookup.found

    def _lookup(self, host: str, port: int) -> _Lookup:
        wanted = (os.getpid(), host, port)  # after a fork, the thread of a lookup is only in the other process
        mine = _Lookup()
        thread = threading.Thread(target=self._run, args=(wanted, mine), name="ottla-registry-resolver", daemon=True)
        try:
            lookup = self._running.setdefault(wanted, mine)
            if lookup is mine:
                thread.start()
        except RuntimeError as error:
            self._end(wanted, mine, error)
            raise OSError(f"the system has no thread for looking up {host!r}: {error}") from error
        except BaseException:  # of a signal's handler, at any step
            self._end(wanted, mine, OSError("the lookup was interrupted"))
            raise
        return lookup

    def _run(self, wanted: tuple[int, str, int], lookup: _Lookup) -> None:
        _process, host, port = wanted
        try:
            lookup.found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except BaseException as error:  # whatever it is, a caller waits for it
            lookup.error = error
        self._end(wanted, lookup, None)

    def _end(self, wanted: tuple[int, str, int], lookup: _Lookup, error: BaseException | None) -> None:
        if error is not None:
            lookup.error = error
        if self._running.get(wanted) is lookup:  # else its start was interrupted, and there may be a newer one
            self._running.pop(wanted, None)
        lookup.done.set()
