"""Memory of many concurrent awaited sends: `asynchronous_memory.py --help`.

So many tasks each await one record, in a process of its own. Its peak memory is compared with that of a process in
which as many tasks await bare futures. Both have a connected producer and the records' values.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs
import click
from rich.console import Console
from rich.table import Table

from ottla.aio import AsyncProducer
from ottla_testkit.kafka_cluster import KafkaCluster

MIB: Final = 1024 * 1024
BUFFER_MEMORY: Final = 32 * MIB
ALLOWED: Final = 60_000_000
"""Bytes over `buffer.memory` that the tasks' records may take."""

WAYS: Final = ("bare", "native", "python")


@attrs.frozen(kw_only=True)
class Work:
    """What one process does: *way* is an encoder, or `bare` for futures without records."""

    way: str
    servers: str
    topic: str
    tasks: int
    size: int


async def _run(work: Work) -> int:
    """Run the tasks; returns the peak memory of the process in bytes."""
    settings = {
        "bootstrap.servers": work.servers,
        "buffer.memory": BUFFER_MEMORY,
        "record.encoder": "native" if work.way == "bare" else work.way,
    }
    async with AsyncProducer(settings) as producer:
        await producer.send_and_wait(work.topic, b"the first record")
        value = bytes(work.size)

        async def send() -> None:
            await producer.send_and_wait(work.topic, value)

        if work.way == "bare":
            futures = [asyncio.get_running_loop().create_future() for _ in range(work.tasks)]

            async def wait(number: int) -> None:
                await futures[number]

            tasks = [asyncio.create_task(wait(number)) for number in range(work.tasks)]
            await asyncio.sleep(0)
            for future in futures:
                future.set_result(None)
        else:
            tasks = [asyncio.create_task(send()) for _ in range(work.tasks)]
        await asyncio.gather(*tasks)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak(work: Work) -> int:
    """Run one work in a process of its own."""
    line = json.dumps(attrs.asdict(work))
    done = subprocess.run([sys.executable, __file__, "--work", line], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{work.way} failed with exit code {done.returncode}")
    return int(done.stdout)


@click.command(context_settings={"show_default": True})
@click.option("--tasks", default=100_000, help="Concurrent sends.")
@click.option("--sizes", default="100,1000", help="Bytes of a value, by commas.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
@click.option("--work", hidden=True)
def main(tasks: int, sizes: str, file: Path | None, work: str | None) -> None:
    """Measure what the records of many waiting tasks take."""
    if work is not None:
        click.echo(asyncio.run(_run(Work(**json.loads(work)))))
        return
    table = Table("bytes of a value", "encoder", "peak", "of bare futures", "over them", "allowed")
    rows = []
    with KafkaCluster(sustained=True) as kafka:
        for size in map(int, sizes.split(",")):
            topic = f"memory-{size}"
            kafka.create_topic(topic, partitions=4)
            peaks = {
                way: peak(Work(way=way, servers=kafka.bootstrap_servers, topic=topic, tasks=tasks, size=size))
                for way in WAYS
            }
            for way in WAYS[1:]:
                over = peaks[way] - peaks["bare"]
                rows.append({"tasks": tasks, "size": size, "encoder": way, "peak": peaks[way], "over": over})
                figures = (peaks[way], peaks["bare"], over, BUFFER_MEMORY + ALLOWED)
                table.add_row(str(size), way, *(f"{figure / 1e6:,.0f} MB" for figure in figures))
    Console().print(table)
    if file is not None:
        file.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
