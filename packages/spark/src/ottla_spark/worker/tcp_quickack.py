"""Immediate TCP acknowledgements for Spark's rows, which otherwise wait 40 ms.

Spark sends the end of a task's rows in a separate segment. Over TCP, the sender's kernel holds a small segment back
until the one before it is acknowledged (Nagle's algorithm), and Linux delays that acknowledgement by 40 ms: as long as
a micro-batch of ten rows takes. With TCP_QUICKACK, the reader acknowledges immediately. Where this option is missing,
or where Spark's workers use Unix domain sockets, rows are read as usual.
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

from pyspark import TaskContext

T = TypeVar("T")

DESCRIPTORS: Final = Path("/proc/self/fd")

_of_worker: dict[int, Sequence[socket.socket]] = {}


def with_tcp_quickack(batches: Iterator[T]) -> Iterator[T]:
    """Return the same batches, with an immediate acknowledgement before each wait."""
    if TaskContext.get() is None:
        return batches
    sockets = _of_worker.get(os.getpid())
    if sockets is None:  # before the first producer connects; Spark keeps a worker's connection
        sockets = _of_worker.setdefault(os.getpid(), local_connections())
    return acknowledged(batches, sockets) if sockets else batches


def acknowledged(batches: Iterator[T], sockets: Sequence[socket.socket]) -> Iterator[T]:
    """Yield the same batches. Before each, acknowledge the bytes that the sockets have received."""
    _acknowledge(sockets)
    for batch in batches:
        yield batch
        _acknowledge(sockets)


def local_connections() -> Sequence[socket.socket]:
    """Return this process's TCP connections within this machine; none on other systems than Linux."""
    if sys.platform != "linux" or not DESCRIPTORS.is_dir():
        return ()
    sockets: dict[int, int] = {}  # by inode: PySpark has several descriptors for one socket
    for name in os.listdir(DESCRIPTORS):
        with contextlib.suppress(OSError):  # closed meanwhile, such as the descriptor of the listed folder
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                sockets.setdefault(status.st_ino, int(name))
    found = [_connection(descriptor) for descriptor in sockets.values()]
    return tuple(each for each in found if each is not None)


def _connection(descriptor: int) -> socket.socket | None:
    """Return a new socket for the descriptor's connection, or None if it is not a local TCP connection."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        found = socket.socket(fileno=copy)
    except OSError:  # such as of a network namespace that the process may not ask
        os.close(copy)
        return None
    if _is_local(found):
        return found
    found.close()
    return None


def _is_local(found: socket.socket) -> bool:
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
        return False
    try:
        peer: str = found.getpeername()[0]
    except OSError:  # a listening socket
        return False
    return peer == "::1" or peer.startswith(("127.", "::ffff:127."))


def _acknowledge(sockets: Sequence[socket.socket]) -> None:
    if sys.platform == "linux":
        for each in sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
