"""Stalls of an event loop whose tasks send: `asynchronous_stalls.py --help`.

Tasks send records through a small `buffer.memory`, so that they wait most of the time, while a heartbeat on the same
loop sleeps again and again. A stall is the time by which a sleep is too long. A second process has an idle loop with
the same heartbeat at the same time: its stalls are those of the machine under this load. With fewer than 1,000 beats
the 99.9th percentile is the longest stall: use more `--records`, and an otherwise idle machine.

In the other cases more tasks call `send` without success: for a topic that does not exist, for a broker that is down,
and for a name that takes seconds to be resolved.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import attrs
import click
from asynchronous_client import VALUE, runner
from rich.console import Console
from rich.table import Table

from ottla import OttlaError
from ottla.aio import AsyncProducer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports

TASKS: Final = 16
BEAT: Final = 0.005
BUFFER_MEMORY: Final = 1024 * 1024
SLOW_NAME: Final = "slow.invalid"
RESOLVING_SECONDS: Final = 3.0
TIMEOUT: Final = 0.25
"""Seconds that a `send` without success may wait."""

CASES: Final = ("full buffer", "unknown topic", "broker down", "slow name", "all")
ALLOWED_MS: Final = 10.0
"""How much longer the stalls may be than those of the idle loop, at the 99.9th percentile."""


@attrs.frozen(kw_only=True)
class Work:
    """What one process does."""

    case: str
    loop: str
    encoder: str
    servers: str
    topic: str
    closed_port: int
    records: int


class Heartbeat:
    """Sleeps on the loop, and notes by how many milliseconds each sleep was too long."""

    def __init__(self) -> None:
        self.stalls: list[float] = []

    async def run(self) -> None:
        """Beat until this is cancelled."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT)
            self.stalls.append((time.monotonic() - before - BEAT) * 1e3)


@contextlib.asynccontextmanager
async def beating(heartbeat: Heartbeat) -> Any:
    """Let it beat in an `async with` block."""
    task = asyncio.create_task(heartbeat.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def idle() -> Heartbeat:
    """Beat until stdin ends."""
    heartbeat = Heartbeat()
    async with beating(heartbeat):
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    return heartbeat


async def send(work: Work) -> Heartbeat:
    """Beat while tasks send."""
    heartbeat = Heartbeat()
    settings = {"record.encoder": work.encoder, "buffer.memory": BUFFER_MEMORY}
    async with contextlib.AsyncExitStack() as stack:
        producer = await stack.enter_async_context(AsyncProducer(settings, bootstrap_servers=work.servers))
        failing = [
            (await stack.enter_async_context(AsyncProducer(settings, bootstrap_servers=servers)), topic)
            for case, servers, topic in (
                ("unknown topic", work.servers, "no-such-topic"),
                ("broker down", f"127.0.0.1:{work.closed_port}", work.topic),
                ("slow name", f"{SLOW_NAME}:9092", work.topic),
            )
            if work.case in (case, "all")
        ]
        await producer.send_and_wait(work.topic, VALUE)
        async with beating(heartbeat):
            others = [
                asyncio.create_task(_send_failing(other, topic)) for other, topic in failing for _ in range(TASKS)
            ]
            await asyncio.gather(*(_send_all(producer, work) for _ in range(TASKS)))
            await producer.flush()
            for task in others:
                task.cancel()
            for ended in await asyncio.gather(*others, return_exceptions=True):
                if not isinstance(ended, asyncio.CancelledError):
                    raise click.ClickException(f"a record that cannot be sent was queued: {ended!r}")
    return heartbeat


async def _send_all(producer: AsyncProducer, work: Work) -> None:
    for _ in range(work.records // TASKS):
        await producer.send(work.topic, VALUE)


async def _send_failing(producer: AsyncProducer, topic: str) -> None:
    while True:
        with contextlib.suppress(OttlaError):
            await producer.send(topic, VALUE, timeout=TIMEOUT)
            return  # it was queued, which `send` reports


def resolve_slowly() -> None:
    """Have one name take seconds to be resolved, as with a name server that does not answer."""
    getaddrinfo = socket.getaddrinfo

    def slow(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == SLOW_NAME:
            time.sleep(RESOLVING_SECONDS)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return getaddrinfo(host, *arguments, **options)

    socket.getaddrinfo = slow


def start(work: Work | None, loop: str) -> subprocess.Popen[str]:
    """Start a process for this work; None: the idle loop."""
    line = "idle" if work is None else json.dumps(attrs.asdict(work))
    return subprocess.Popen(
        [sys.executable, __file__, "--loop", loop, "--work", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def stalls_of(process: subprocess.Popen[str]) -> list[float]:
    """Wait for a process; returns its stalls in milliseconds."""
    out, _ = process.communicate()
    if process.returncode:
        raise click.ClickException(f"a process ended with exit code {process.returncode}")
    stalls: list[float] = json.loads(out)
    return stalls


def summary(stalls: Sequence[float]) -> Mapping[str, float]:
    """The figures of one loop's stalls, in milliseconds."""
    return {"beats": len(stalls), "p999": percentile(stalls, 0.999), "longest": max(stalls)}


@click.command(context_settings={"show_default": True})
@click.option("--records", default=500_000, help="Records that the tasks send altogether.")
@click.option("--cases", default=",".join(CASES), help="What the tasks meet, by commas.")
@click.option("--encoders", default="native,python", help="Encoders, by commas.")
@click.option("--loop", default="asyncio", help="Event loop: asyncio or uvloop.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
@click.option("--work", hidden=True)
def main(records: int, cases: str, encoders: str, loop: str, file: Path | None, work: str | None) -> None:
    """Measure by how much sending delays other tasks of a loop."""
    if work is not None:
        resolve_slowly()
        with runner(loop) as running:
            done = running.run(idle() if work == "idle" else send(Work(**json.loads(work))))
        click.echo(json.dumps(done.stalls))
        return
    title = f"stalls in ms, 99.9th percentile / longest; at most {ALLOWED_MS:g} ms more than the idle loop"
    table = Table("case", "encoder", "beats", "sending loop", "idle loop", "more", title=title)
    rows = []
    with KafkaCluster(sustained=True) as kafka:
        for number, (case, encoder) in enumerate(product(cases.split(","), encoders.split(","))):
            topic = f"stalls-{number}"
            kafka.create_topic(topic, partitions=4)
            own = Work(
                case=case.strip(),
                loop=loop,
                encoder=encoder.strip(),
                servers=kafka.bootstrap_servers,
                topic=topic,
                closed_port=free_ports(1)[0],
                records=records,
            )
            idling = start(None, loop)
            sending = stalls_of(start(own, loop))
            others = stalls_of(idling)
            high, reference = percentile(sending, 0.999), percentile(others, 0.999)
            row = {"case": own.case, "loop": loop, "encoder": own.encoder, "records": records}
            rows.append({**row, "sending": summary(sending), "idle": summary(others)})
            table.add_row(
                own.case,
                own.encoder,
                str(len(sending)),
                f"{high:.1f} / {max(sending):.1f}",
                f"{reference:.1f} / {max(others):.1f}",
                f"{high - reference:.1f}",
            )
    Console().print(table)
    if file is not None:
        file.write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
