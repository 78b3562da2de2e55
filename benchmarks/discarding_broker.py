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

from ottla.protocol.primitives import read_uvarint, uvarint
from ottla_testkit.simulation import Session, SimulatedCluster
from ottla_testkit.simulation.pending_response import content_of

TOPIC: Final = "t"
PARTITIONS: Final = 4
PRODUCE: Final = 0
FIRST_WITH_TOPIC_IDS: Final = 13
DELTA_OF_LAST_RECORD: Final = 23
"""Where a batch has the number of its records less one."""

_HEAD: Final = struct.Struct(">hhih")
_BEGIN: Final = struct.Struct(">ib")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ihqqqbbb")
_END: Final = bytes(5)  # no throttling, and no tagged fields


@attrs.define
class Discards:
    """Counts the records of Produce requests, and acknowledges them."""

    records: int = 0
    requests: int = 0
    _offsets: dict[tuple[bytes, int], int] = attrs.Factory(dict)

    def respond(self, request: memoryview) -> bytes:
        """The response to a Produce request of version 9 or later.

        In one function, with few calls: what it takes is missing to a client that runs on the same processors.
        """
        _key, version, correlation, client_id = _HEAD.unpack_from(request, 0)
        at = _HEAD.size + max(client_id, 0) + 1  # no tagged fields
        transactional_id, at = read_uvarint(request, at)
        topics, at = read_uvarint(request, at + max(transactional_id - 1, 0) + 6)  # behind acks and the time-out
        out = bytearray(_BEGIN.pack(correlation, 0)) + uvarint(topics)
        for _ in range(topics - 1):
            size = 16
            if version < FIRST_WITH_TOPIC_IDS:
                size, at = read_uvarint(request, at)
                out += uvarint(size)
                size -= 1
            name = bytes(request[at : at + size])
            partitions, at = read_uvarint(request, at + size)
            out += name + uvarint(partitions)
            for _ in range(partitions - 1):
                [index] = _INT32.unpack_from(request, at)
                size, at = read_uvarint(request, at + 4)
                count = _INT32.unpack_from(request, at + DELTA_OF_LAST_RECORD)[0] + 1
                at += size  # the length is one less, and an empty list of tagged fields follows
                first = self._offsets.get((name, index), 0)
                self._offsets[name, index] = first + count
                self.records += count
                out += _PARTITION.pack(index, 0, first, -1, 0, 1, 0, 0)
            at += 1
            out.append(0)
        self.requests += 1
        return bytes(out + _END)


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
