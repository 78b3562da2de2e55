"""Connections of a proxy to its target that are still to be made: no other connection waits for them."""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

CONNECT_WITHIN = 10.0  # seconds
RESET = struct.pack("ii", 1, 0)  # SO_LINGER
_BEGUN = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


Address: TypeAlias = tuple[Any, ...]
"""What `socket.getaddrinfo` says of one."""


class PendingConnections:
    """Sockets that are not connected to a target yet, with their clients. *pair* gets both once they are."""

    def __init__(
        self, selector: selectors.BaseSelector, pair: Callable[[socket.socket, socket.socket], object]
    ) -> None:
        self._selector = selector
        self._pair = pair
        self._clients: dict[socket.socket, tuple[socket.socket, float, list[Address]]] = {}
        """By target, with the time to give up, and the target's other addresses."""

    def accept(self, listener: socket.socket, host: str, port: int) -> None:
        """Accept a client, and begin to connect it to a target."""
        try:
            client, _ = listener.accept()
        except OSError:  # it has gone, or there is no descriptor for it; the selector reports it again
            return
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            client.close()
            return
        self._connect(client, found, time.monotonic() + CONNECT_WITHIN)

    def seconds(self) -> float | None:
        """Seconds until the first target's time is over; None if no connection is pending."""
        ends = [end for _client, end, _others in self._clients.values()]
        return max(min(ends) - time.monotonic(), 0.0) if ends else None

    def proceed(self, ready: Collection[object]) -> None:
        """Pair those whose target is connected, and give up those that failed or whose time is over."""
        for target in self._clients.keys() & ready:
            self._end(target, target.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        now = time.monotonic()
        for target in [target for target, (_client, end, _others) in self._clients.items() if now >= end]:
            self._end(target, errno.ETIMEDOUT)

    def cut(self, *, reset: bool) -> None:
        """End all of them."""
        for target in list(self._clients):
            self._end(target, errno.ECONNRESET, reset=reset)

    def _connect(self, client: socket.socket, found: list[Address], end: float) -> None:
        (family, kind, protocol, _, address), *others = found
        try:
            target = socket.socket(family, kind, protocol)
        except OSError:  # such as without IPv6
            if others:
                self._connect(client, others, end)
            else:
                client.close()
            return
        target.setblocking(False)
        self._clients[target] = client, end, others
        self._selector.register(target, selectors.EVENT_WRITE)
        if (problem := target.connect_ex(address)) not in _BEGUN:
            self._end(target, problem)

    def _end(self, target: socket.socket, problem: int, *, reset: bool = False) -> None:
        client, end, others = self._clients.pop(target)
        self._selector.unregister(target)
        if not problem:
            self._pair(client, target)
            return
        target.close()
        if others and problem not in (errno.ECONNRESET, errno.ETIMEDOUT):
            self._connect(client, others, end)  # as of localhost, where the target may listen on one of two
            return
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
