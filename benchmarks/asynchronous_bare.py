"""The minimum of any asynchronous client: one request for the records of all tasks that are ready, and nothing else.

No plugins, limits, retries, sequences or metadata: batches are encoded before they are needed, and a response is not
read any further than its correlation id. What this takes is taken by tasks, futures, the event loop and the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import cache
from itertools import count
from typing import Final, cast

from ottla.protocol import PRODUCE, produce_request, request_header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.sealed_records import finish

VERSION: Final = 11
CLIENT_ID: Final = "bare"
SIZE_PREFIX: Final = 4
MAX_RECORDS: Final = 5_000
"""Records of one request; brokers take batches of at most a megabyte by default."""


class BareClient(asyncio.Protocol):
    """Sends records that all have the same value to partition 0 of a topic. Its flush is not needed, and does nothing.

    The connection goes to the first bootstrap server, which has to be the partition's leader.
    """

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(",")[0].rpartition(":")
        self._address = host, int(port)
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._in_flight: deque[list[asyncio.Future[None]]] = deque()
        self._received = bytearray()
        self._correlation_ids = count()

    async def start(self) -> None:
        """Connect."""
        await asyncio.get_running_loop().create_connection(lambda: self, *self._address)

    async def send(self, topic: str, value: bytes) -> asyncio.Future[None]:
        """Queue a record for the request that leaves when all tasks that are ready have run."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._leave, topic, value)
        future = loop.create_future()
        self._waiting.append(future)
        return future

    async def flush(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Complete the records of a request for each whole response."""
        self._received += data
        while len(self._received) >= SIZE_PREFIX:
            end = SIZE_PREFIX + int.from_bytes(self._received[:SIZE_PREFIX], "big")
            if len(self._received) < end:
                return
            del self._received[:end]
            for future in self._in_flight.popleft():
                if not future.done():
                    future.set_result(None)

    def _leave(self, topic: str, value: bytes) -> None:
        assert self._transport is not None, "started first"
        futures, self._waiting = self._waiting, []
        for first in range(0, len(futures), MAX_RECORDS):
            part = futures[first : first + MAX_RECORDS]
            self._in_flight.append(part)
            header = request_header(PRODUCE, VERSION, next(self._correlation_ids), CLIENT_ID)
            body = _body(topic, value, len(part))
            size = len(header) + len(body)
            self._transport.write(size.to_bytes(SIZE_PREFIX, "big") + header + body)


@cache
def _body(topic: str, value: bytes, records: int) -> bytes:
    """The body of a request with so many equal records."""
    columns = ObjectColumns(limit=2**40)
    now = int(time.time() * 1_000)
    for _ in range(records):
        columns.put(None, value, (), now)
    batch = finish(columns.encode(2), magic=2, compressor=None).wire_chunks()
    topics = [(topic, bytes(16), [(0, batch)])]
    return b"".join(produce_request(VERSION, transactional_id=None, acks=-1, timeout_ms=30_000, topics=topics))
