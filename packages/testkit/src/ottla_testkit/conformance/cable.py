"""A connection in two halves, with the test between them: it carries the bytes, as many as it likes, or cuts.

the layer  -- ours ... far --  the test  -- near ... theirs --  the peer
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Final

from ottla_testkit.free_ports import HOST

BUFFER: Final = 32 * 1024
"""Asked of the system for each end of the layer's half, so that it is full soon."""

MUCH: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)


class Cable:
    """Its two ends are for the layer (`ours`, which does not block) and for the peer (`theirs`, which does)."""

    def __init__(self, family: int, *, sip: int = 0) -> None:
        ours, self.far = _pair(family)
        self.near, self.theirs = _pair(family)
        self.ours = SippingSocket.instead_of(ours, sip) if sip else ours
        for sock in (self.ours, self.far, self.near):
            sock.setblocking(False)
        self.to_peer = Lane(self.far, self.near)
        self.to_layer = Lane(self.near, self.far)
        self._cut = False

    def carry(self, *, to_peer: int = MUCH, to_layer: int = MUCH) -> int:
        """Move at most so many bytes each way, the ends of both streams included, and say how many were moved."""
        return 0 if self._cut else self.to_peer.carry(to_peer) + self.to_layer.carry(to_layer)

    def cut(self, *, reset: bool) -> None:
        """End the layer's half, by a reset or as a peer that hangs up, and the peer's half in the latter way."""
        self._cut = True
        _end(self.far, reset=reset)
        # No reset there: `ssl` of Python forgets to close a socket that was reset before it could begin.
        with contextlib.suppress(OSError):
            self.near.shutdown(socket.SHUT_WR)

    def sipped(self) -> int:
        """Bytes that a socket which sips has moved, which the layer may not have told of yet."""
        return self.ours.moved if isinstance(self.ours, SippingSocket) else 0

    def close(self) -> None:
        """All four ends."""
        self._cut = True
        for sock in (self.ours, self.far, self.near, self.theirs):
            sock.close()


class SippingSocket(socket.socket):
    """A real socket that gives and takes some bytes at a time, and every other time none: what systems may do."""

    sip = 1
    moved = 0
    _turn = 0

    @classmethod
    def instead_of(cls, sock: socket.socket, sip: int) -> SippingSocket:
        """Take over the connection of *sock*."""
        sipping = cls(sock.family, sock.type, sock.proto, fileno=sock.detach())
        sipping.sip = sip
        return sipping

    def send(self, data, flags=0):  # type: ignore[no-untyped-def]
        self._rest()
        return self._count(super().send(memoryview(data).cast("B")[: self.sip], flags))

    def sendmsg(self, buffers, *rest):  # type: ignore[no-untyped-def]
        self._rest()
        first = next((chunk for chunk in buffers if len(chunk)), b"")
        return self._count(super().sendmsg([memoryview(first)[: self.sip]], *rest))

    def recv(self, bufsize, flags=0):  # type: ignore[no-untyped-def]
        self._rest()
        data = super().recv(min(bufsize, self.sip), flags)
        self.moved += len(data)
        return data

    def recv_into(self, buffer, nbytes=0, flags=0):  # type: ignore[no-untyped-def]
        self._rest()
        return self._count(super().recv_into(buffer, min(nbytes or len(buffer), self.sip), flags))

    def _count(self, size: int) -> int:
        self.moved += size
        return size

    def _rest(self) -> None:
        self._turn += 1
        if self._turn % 2:
            raise BlockingIOError


def _pair(family: int) -> tuple[socket.socket, socket.socket]:
    if family not in (socket.AF_INET, socket.AF_INET6):
        one, other = socket.socketpair(socket.AddressFamily(family), socket.SOCK_STREAM)
        _shrink(one)
        return one, other
    with socket.socket(socket.AF_INET) as listener:
        _shrink(listener)
        listener.bind((HOST, 0))
        listener.listen(1)
        one = socket.socket(socket.AF_INET)
        _shrink(one)
        one.connect(listener.getsockname())
        other, _address = listener.accept()
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def _shrink(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)


class Lane:
    """One direction: `held` is on its way, `carried` is how many bytes have arrived, `end` how many may."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source = source
        self._target = target
        self.held = bytearray()
        self._heard_all = False
        self._over = False
        self.carried = 0
        self.end: int | None = None

    def carry(self, limit: int) -> int:
        if self.end is not None:
            limit = min(limit, self.end - self.carried)
        if self._over or limit <= 0:
            return 0
        self._take(limit - len(self.held))
        moved = self._give(limit)
        self.carried += moved
        if self._heard_all and not self.held and not self._over:
            self._over = True
            with contextlib.suppress(OSError):
                self._target.shutdown(socket.SHUT_WR)
        return moved

    def _take(self, limit: int) -> None:
        if limit <= 0 or self._heard_all:
            return
        try:
            came = self._source.recv(limit)
        except BlockingIOError:
            return
        except OSError:
            self._over = True
            _end(self._target, reset=True)
            return
        self.held += came
        self._heard_all = not came

    def _give(self, limit: int) -> int:
        if not self.held or self._over:
            return 0
        try:
            moved = self._target.send(self.held[:limit])
        except BlockingIOError:
            return 0
        except OSError:
            self._over = True
            _end(self._source, reset=True)
            return 0
        del self.held[:moved]
        return moved


def _end(sock: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        else:
            sock.shutdown(socket.SHUT_RDWR)
    sock.close()
