"""One asynchronous client in a process of its own: `python asynchronous_client.py CLIENT LOOP SERVERS`.

Each line on its stdin is one work (`Work.line`); it answers each with a line of JSON, a `Took`. All works use one
producer, so connections and metadata are ready after the first.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import attrs
from asynchronous_bare import BareClient
from stopwatch import Stopwatch

LINGER_MS: Final = 5
"""For sends that are not awaited. Awaited ones linger 0 ms, because a task waits for each."""

VALUE: Final = b"v" * 100


@attrs.frozen(kw_only=True)
class Work:
    """Records for a topic. *tasks* tasks send and await one after the other; with 0, one task sends and awaits none."""

    topic: str
    records: int
    tasks: int

    @property
    def line(self) -> str:
        """The work as a line for a client."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, line: str) -> Work:
        """Parse the result of `line`."""
        return cls(**json.loads(line))


@attrs.frozen(kw_only=True)
class Took:
    """Microseconds for each record: of the clock, and of the processor in all threads of the process."""

    wall: float
    cpu: float


class Client(Protocol):
    """A producer under test."""

    async def start(self) -> None:
        """Get ready for records."""

    @property
    def send(self) -> Callable[[str, bytes], Awaitable[Awaitable[object]]]:
        """Queue a record; await the result of that for its acknowledgement."""

    async def flush(self) -> None:
        """Wait for all records."""

    async def close(self) -> None:
        """End the producer."""


class OttlaClient:
    """Client with `AsyncProducer`."""

    def __init__(self, servers: str, linger_ms: int, encoder: str) -> None:
        from ottla.aio import AsyncProducer

        self._producer = AsyncProducer(bootstrap_servers=servers, linger_ms=linger_ms, record_encoder=encoder)
        self.send = self._producer.send

    async def start(self) -> None:
        """Do nothing: it connects in the background."""

    async def flush(self) -> None:
        """Wait for all records. Raises when one failed."""
        await self._producer.flush()

    async def close(self) -> None:
        """End the producer."""
        await self._producer.close()


class AiokafkaClient:
    """Client with `AIOKafkaProducer`, idempotent as the others."""

    def __init__(self, servers: str, linger_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, acks="all", linger_ms=linger_ms
        )
        self.send: Callable[[str, bytes], Awaitable[Awaitable[object]]] = self._producer.send

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def flush(self) -> None:
        """Wait for all records."""
        await self._producer.flush()

    async def close(self) -> None:
        """End the producer."""
        await self._producer.stop()


class ConfluentClient:
    """Client with `AIOProducer` and its own defaults of batching."""

    def __init__(self, servers: str, linger_ms: int) -> None:
        from confluent_kafka.aio import AIOProducer

        self._producer = AIOProducer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "log_level": 0,
            }
        )

    async def start(self) -> None:
        """Do nothing: it connects in the background."""

    async def send(self, topic: str, value: bytes) -> Awaitable[object]:
        """Queue a record."""
        sent: Awaitable[object] = await self._producer.produce(topic, value)
        return sent

    async def flush(self) -> None:
        """Wait for all records."""
        await self._producer.flush()

    async def close(self) -> None:
        """End the producer."""
        await self._producer.close()


CLIENTS: Final[Mapping[str, Callable[[str, int], Client]]] = {
    "ottla": lambda servers, linger_ms: OttlaClient(servers, linger_ms, "native"),
    "ottla-python": lambda servers, linger_ms: OttlaClient(servers, linger_ms, "python"),
    "aiokafka": AiokafkaClient,
    "confluent-aio": ConfluentClient,
    "bare": lambda servers, _linger_ms: BareClient(servers),
}


async def run(client: Client, work: Work) -> Took:
    """Send the records and wait for all of them. Raises when one failed."""
    with Stopwatch() as watch:
        if work.tasks:
            each = work.records // work.tasks
            await asyncio.gather(*(_send_and_wait(client, work.topic, each) for _ in range(work.tasks)))
        else:
            send, topic = client.send, work.topic
            for _ in range(work.records):
                await send(topic, VALUE)
            await client.flush()
    return Took(wall=watch.seconds / work.records * 1e6, cpu=watch.cpu_seconds / work.records * 1e6)


async def _send_and_wait(client: Client, topic: str, records: int) -> None:
    for _ in range(records):
        await (await client.send(topic, VALUE))


async def serve(name: str, servers: str) -> None:
    """Run the works from stdin."""
    clients: dict[bool, Client] = {}
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        work = Work.read(line)
        awaited = work.tasks > 0
        if awaited not in clients:
            clients[awaited] = CLIENTS[name](servers, 0 if awaited else LINGER_MS)
            await clients[awaited].start()
        print(json.dumps(attrs.asdict(await run(clients[awaited], work))), flush=True)
    for client in clients.values():
        await client.close()


def runner(loop: str) -> asyncio.Runner:
    """Return what runs coroutines on this kind of event loop."""
    if loop == "uvloop":
        import uvloop

        factory: Any = uvloop.new_event_loop
        return asyncio.Runner(loop_factory=factory)
    return asyncio.Runner()


def main(name: str, loop: str, servers: str) -> None:
    """Serve on an event loop of this kind."""
    with runner(loop) as running:
        running.run(serve(name, servers))


if __name__ == "__main__":
    main(*sys.argv[1:])
