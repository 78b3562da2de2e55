"""A program for the simulated systems of `other_systems`: sends records, handles a signal, and prints what it found."""

import asyncio
import os
import signal
import sys

import other_systems  # from here on this process is another system
from broker_on_a_socket import SocketBroker

from ottla import Producer, TopicUnavailableError
from ottla.aio import AsyncProducer
from ottla.concurrency import signals
from ottla.errors import files_remedy
from ottla_testkit.simulation import SimulatedCluster

LARGE = b"x" * 200_000
LONG_TIME = 1e12  # more than the waits of any system take


async def send_and_await(address: str, encoder: str) -> None:
    """Print the partitions of records that a task awaits one after the other."""
    async with AsyncProducer(bootstrap_servers=address, record_encoder=encoder) as producer:
        print(*[(await producer.send_and_wait("t", b"value")).partition for _ in range(5)])


print(sys.platform, other_systems.SYSTEM, hasattr(os, "register_at_fork"))
cluster = SimulatedCluster.of(1)
cluster.create("t", 1)
broker = SocketBroker(cluster.brokers[1])
with broker.serving() as address:
    for encoder in sys.argv[1:]:
        with Producer(bootstrap_servers=address, record_encoder=encoder) as producer:
            print(producer.send("t", b"value", key=b"key").result(LONG_TIME).partition)
            for _ in range(10):  # more than a socket takes at once
                producer.send("t", LARGE)
            print(producer.flush(LONG_TIME))
            print(producer.close(LONG_TIME))
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # Python 3.14 asks for the system here
            runner.run(send_and_await(address, encoder))
with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=2_000) as producer:
    try:
        producer.send("t", b"value")
    except TopicUnavailableError as error:
        print("ECONNREFUSED" in str(error))

handled: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _frame: handled.append(number))
with signals.Deferred():
    signal.raise_signal(signal.SIGTERM)
    print(handled)
print(handled == [signal.SIGTERM])
print(bool(files_remedy(OSError(10024, "too many sockets"))), sys.platform)
