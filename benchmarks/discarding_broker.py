"""A broker that discards records, in a process of its own: `python discarding_broker.py`.

It prints its address, and answers each line on its stdin with the number of records and of Produce requests since the
line before, until the end of stdin. Batches are counted by their headers and not parsed further, so that a client has
most of the time of a processor that both use. All other requests get the responses of a simulated cluster.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from typing import Final

import attrs

from ottla_testkit.simulation import Session, SimulatedCluster
from ottla_testkit.simulation.pending_response import content_of

TOPIC: Final = "t"
PARTITIONS: Final = 4
PRODUCE: Final = 0
FIRST_WITH_TOPIC_IDS: Final = 13
DELTA_OF_LAST_RECORD: Final = 23
"""Where a batch has the number of its records less one."""


@attrs.define
class Reader:
    """Reads the fields of a request in their order."""

    view: memoryview
    at: int = 0

    def number(self, form: str) -> int:
        """A number of a fixed size, in the form of `struct`."""
        [value] = struct.unpack_from(form, self.view, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        """An unsigned varint, as a compact length plus one."""
        shift = value = 0
        while True:
            byte = self.view[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def bytes(self, size: int) -> bytes:
        """As many bytes."""
        self.at += size
        return bytes(self.view[self.at - size : self.at])


@attrs.define
class Discards:
    """Counts the records of Produce requests, and acknowledges them."""

    records: int = 0
    requests: int = 0
    _offsets: dict[tuple[bytes, int], int] = attrs.Factory(dict)

    def respond(self, request: memoryview) -> bytes:
        """The response to a Produce request of version 9 or later."""
        read = Reader(request)
        _key, version, correlation = read.number(">h"), read.number(">h"), read.number(">i")
        read.bytes(max(read.number(">h"), 0) + 1)  # the client id, and no tagged fields
        read.bytes(max(read.varint() - 1, 0) + 6)  # the transactional id, acks and the time-out
        topics = read.varint()
        out = bytearray(struct.pack(">i", correlation) + b"\0" + _varint(topics))
        for _ in range(topics - 1):
            if version >= FIRST_WITH_TOPIC_IDS:
                name = read.bytes(16)
                out += name
            else:
                size = read.varint()
                name = read.bytes(size - 1)
                out += _varint(size) + name
            partitions = read.varint()
            out += _varint(partitions)
            for _ in range(partitions - 1):
                out += self._partition(read, name)
            read.bytes(1)
            out.append(0)
        self.requests += 1
        return bytes(out) + struct.pack(">i", 0) + b"\0"

    def _partition(self, read: Reader, name: bytes) -> bytes:
        index, size = read.number(">i"), read.varint() - 1
        [delta] = struct.unpack_from(">i", read.view, read.at + DELTA_OF_LAST_RECORD)
        read.at += size + 1
        first = self._offsets.get((name, index), 0)
        self._offsets[name, index] = first + delta + 1
        self.records += delta + 1
        return struct.pack(">ihqqq", index, 0, first, -1, 0) + b"\1\0\0"


class Server:
    """Serves connections, each on a thread."""

    def __init__(self) -> None:
        self.discards = Discards()
        self._cluster = SimulatedCluster.of(1)
        self._cluster.create(TOPIC, *[1] * PARTITIONS)
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        host, port = self._socket.getsockname()[:2]
        self._cluster.address = host, port
        self.address = f"{host}:{port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _address = self._socket.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session, buffer = Session(), bytearray(1 << 22)
        with connection:
            while True:
                head = bytearray(4)
                if not _fill(connection, memoryview(head)):
                    return
                size = int.from_bytes(head, "big")
                if size > len(buffer):
                    buffer = bytearray(size)
                request = memoryview(buffer)[:size]
                if not _fill(connection, request):
                    return
                response = self._response(session, request)
                if response is not None:
                    connection.sendall(struct.pack(">i", len(response)) + response)

    def _response(self, session: Session, request: memoryview) -> bytes | None:
        with self._lock:
            if int.from_bytes(request[:2], "big") == PRODUCE:
                return self.discards.respond(request)
            return content_of(self._cluster.brokers[1].respond(session, bytes(request), time.monotonic()))


def _fill(connection: socket.socket, view: memoryview) -> bool:
    """Fill the view; False at the end of the connection."""
    got = 0
    while got < len(view):
        more = connection.recv_into(view[got:])
        if not more:
            return False
        got += more
    return True


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def main() -> None:
    """Serve until the end of stdin."""
    server = Server()
    print(server.address, flush=True)
    for _line in sys.stdin:
        discards = server.discards
        print(discards.records, discards.requests, flush=True)
        discards.records = discards.requests = 0
    os._exit(0)  # its threads wait for clients


if __name__ == "__main__":
    main()
