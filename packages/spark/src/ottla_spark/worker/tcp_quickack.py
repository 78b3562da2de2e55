"""Immediate TCP acknowledgements for Spark's rows, which otherwise wait 40 ms.

Spark sends the end of a task's rows in a separate segment. Over TCP, the sender's kernel holds a small segment back
until the one before it is acknowledged (Nagle's algorithm), and Linux delays that acknowledgement by 40 ms: as long as
a micro-batch of ten rows takes. With TCP_QUICKACK, the reader acknowledges immediately. Where this option is missing,
where Spark's workers use Unix domain sockets, or where the program has called `socket.setdefaulttimeout`, rows are read
as usual.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs
from pyspark import TaskContext

T = TypeVar("T")

DESCRIPTORS: Final = Path("/proc/self/fd")

_of_worker: dict[int, Sequence[LocalConnection]] = {}


@attrs.frozen
class LocalConnection:
    """A TCP connection within this machine that others of this process opened, by one of their descriptors.

    It may be one of the program's own, to a service of this machine. So no descriptor is kept open here: the service
    would not see the end of the connection.
    """

    descriptor: int
    inode: int

    def acknowledge(self) -> None:
        """Acknowledge the bytes that were received, if the connection is still open."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError), _copied(self.descriptor) as copy:
                if os.fstat(copy.fileno()).st_ino == self.inode:  # otherwise the number has been used again
                    copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def with_tcp_quickack(batches: Iterator[T]) -> Iterator[T]:
    """Return the same batches, with an immediate acknowledgement before each wait."""
    if TaskContext.get() is None:
        return batches
    connections = _of_worker.get(os.getpid())
    if connections is None:  # before the first producer connects; Spark keeps a worker's connection
        connections = _of_worker.setdefault(os.getpid(), local_connections())
    return acknowledged(batches, connections) if connections else batches


def acknowledged(batches: Iterator[T], connections: Sequence[LocalConnection]) -> Iterator[T]:
    """Yield the same batches. Before each, acknowledge the bytes that the connections have received."""
    _acknowledge(connections)
    for batch in batches:
        yield batch
        _acknowledge(connections)


def local_connections() -> Sequence[LocalConnection]:
    """Return this process's TCP connections within this machine; none on other systems than Linux."""
    if sys.platform != "linux" or not DESCRIPTORS.is_dir():
        return ()
    sockets: dict[int, int] = {}  # by inode: PySpark has several descriptors for one socket
    for name in os.listdir(DESCRIPTORS):
        with contextlib.suppress(OSError):  # closed meanwhile, such as the descriptor of the listed folder
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                sockets.setdefault(status.st_ino, int(name))
    return tuple(LocalConnection(number, inode) for inode, number in sockets.items() if _is_local(number))


def _is_local(descriptor: int) -> bool:
    """Return whether this is a descriptor of a local TCP connection."""
    try:
        with _copied(descriptor) as found:
            if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
                return False
            peer: str = found.getpeername()[0]
    except OSError:  # a listening socket, or one of a network namespace that the process may not ask
        return False
    return peer == "::1" or peer.startswith(("127.", "::ffff:127."))


@contextlib.contextmanager
def _copied(descriptor: int) -> Iterator[socket.socket]:
    """A socket for the connection of a descriptor, for the block; the descriptor stays as it is. Raises OSError."""
    if socket.getdefaulttimeout() is not None:
        # A new socket object would make the connection non-blocking, for its owner, too, who reads it otherwise.
        raise OSError("a socket object would change the connection: the program has set a default timeout")
    copy = os.dup(descriptor)
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with found:
        yield found


def _acknowledge(connections: Sequence[LocalConnection]) -> None:
    for each in connections:
        each.acknowledge()
