"""Growth of a process's memory while it sends more than `buffer.memory` holds: `python benchmarks/memory.py --help`.

Each case has a process of its own, and librdkafka's mock brokers, which respond late until `buffer.memory` is
used up; afterwards they respond immediately. Every record has a new `bytes` object, as in a program that reads its
records from somewhere. Tables exist before. Growth is the peak less what the process had with its table and its
producer, all plugins imported, before the first record.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click
from rich.console import Console
from rich.table import Table
from stopwatch import memory_now, peak_memory

from ottla_testkit.mock_cluster import MockCluster

MIB: Final = 1024 * 1024
ALLOWED: Final = 16 * MIB
"""What a process may grow beyond `buffer.memory`."""

READY: Final = "ready"
FULL: Final = "full"
RUN_WITHIN: Final = 300.0
TIMES_THE_BUFFER: Final = 3
RECORD_COST: Final = 20
"""At least what a record takes of the buffer besides its value; much more in pure Python."""

DISTINCT_KEYS: Final = 100_000
AWAITED: Final = 3_000
FIRST_ROWS: Final = 10
DISTINCT_VALUES: Final = 10_000


@attrs.frozen(kw_only=True)
class Case:
    """One process: the records that it sends, and the settings of its producer. *way* is `send`, `table` or `await`."""

    name: str
    way: str = "send"
    encoder: str = "native"
    value_size: int = 100
    keyed: bool = False
    callback: bool = False
    partitions: int = 4
    compression: str = "none"
    linger_ms: int = 5

    def records(self, buffer: int) -> int:
        """The number of records, enough to fill the buffer a few times."""
        if self.way == "await":
            return AWAITED
        return TIMES_THE_BUFFER * buffer // (self.value_size + RECORD_COST)


@attrs.frozen(kw_only=True)
class Growth:
    """Bytes that a process grew by: until its first record was acknowledged, and at its peak.

    `filled`: the buffer was used up.
    """

    case: str
    encoder: str
    buffer: int
    start: int
    peak: int
    filled: bool


def _cases() -> Iterator[Case]:
    for encoder in ("native", "python"):
        for compression in ("none", "lz4", "zstd"):
            yield Case(name=f"send, {compression}", encoder=encoder, compression=compression)
        yield Case(name="send, 10 B", encoder=encoder, value_size=10)
        yield Case(name="send, 100 kB", encoder=encoder, value_size=100_000)
        yield Case(name="send, a callback for each", encoder=encoder, callback=True)
        yield Case(name="send, 100,000 keys", encoder=encoder, keyed=True)
        yield Case(name="send, keys, 5,000 partitions", encoder=encoder, keyed=True, partitions=5_000)
        yield Case(name="send, keys, 5,000 partitions, lz4", encoder=encoder, keyed=True, partitions=5_000,
                   compression="lz4")  # fmt: skip
        yield Case(name="each awaited", way="await", encoder=encoder, linger_ms=0)
        for compression in ("none", "lz4", "zstd"):
            yield Case(name=f"send_table, {compression}", way="table", encoder=encoder, compression=compression)
        yield Case(name="send_table, 100,000 keys, lz4", way="table", encoder=encoder, compression="lz4", keyed=True)
        yield Case(name="send_table, keys, 5,000 partitions", way="table", encoder=encoder, keyed=True,
                   partitions=5_000)  # fmt: skip


CASES: Final[Sequence[Case]] = tuple(_cases())


def _value(case: Case, number: int, filler: bytes) -> bytes:
    return (b"%08d" % number + filler)[: case.value_size]


def _rows(case: Case, count: int) -> Any:
    """A table, made without an object for each row: what such objects leave behind would be used for the records."""
    import pyarrow as pa

    filler = _filler(case)
    values = b"".join(_value(case, number, filler) for number in range(DISTINCT_VALUES))
    keys = b"".join(b"key-%09d" % number for number in range(DISTINCT_KEYS))
    columns = {"value": _repeated(values, case.value_size, count)}
    if case.keyed:
        columns["key"] = _repeated(keys, len(keys) // DISTINCT_KEYS, count)
    return pa.table(columns)


def _repeated(items: bytes, size: int, count: int) -> Any:
    """*count* rows of *size* bytes each, from the *items* in turn."""
    import pyarrow as pa

    parts = []
    for start in range(0, count, len(items) // size):
        rows = min(len(items) // size, count - start)
        offsets = array("i", range(0, (rows + 1) * size, size))
        copied = pa.py_buffer(bytearray(items[: rows * size]))  # each part has its own, as in a table that was read
        parts.append(pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), copied]))
    return pa.chunked_array(parts)


def _filler(case: Case) -> bytes:
    """Text that compresses to about half."""
    import random

    words = [b"%08d" % number for number in random.Random(1).sample(range(10**8), 500)]
    return b" ".join(random.Random(2).choices(words, k=case.value_size // 9 + 1))


def run(case: Case, servers: str, topic: str, buffer: int) -> Growth:
    """Send a case's records in this process."""
    from ottla import Producer

    count = case.records(buffer)
    table = None
    if case.way == "table":
        table = _rows(case, count)
    producer = Producer(
        bootstrap_servers=servers,
        buffer_memory=buffer,
        record_encoder=case.encoder,
        compression_type=case.compression,
        linger_ms=case.linger_ms,
        enable_idempotence=False,
        max_block_ms=120_000,
    )
    if table is not None:
        producer.send_table(topic, table[:FIRST_ROWS]).result(30)  # this imports pyarrow's compute functions
    _forget_peak()
    before = memory_now()
    producer.send(topic, b"the first record").result(30)
    start = memory_now() - before
    print(READY, flush=True)  # for the process that holds the brokers
    sys.stdin.readline()
    threading.Thread(target=_report_full, args=(producer,), daemon=True).start()
    if table is not None:
        producer.send_table(topic, table)
    elif case.way == "await":
        filler = _filler(case)
        for number in range(count):
            producer.send(topic, _value(case, number, filler)).result(30)
    else:
        _send(producer, case, topic, count)
    producer.close()
    filled = producer.metrics("bufferpool-wait-time-ns-total") > 0
    return Growth(
        case=case.name, encoder=case.encoder, buffer=buffer, start=start, peak=peak_memory() - before, filled=filled
    )


def _report_full(producer: Any) -> None:
    """Say once that `send` waits for memory."""
    while not producer.metrics("waiting-threads"):
        time.sleep(0.02)
    print(FULL, flush=True)


def _send(producer: Any, case: Case, topic: str, count: int) -> None:
    filler, send = _filler(case), producer.send
    called_back = [0]

    def on_delivery(_delivery: object) -> None:
        called_back[0] += 1

    callback = on_delivery if case.callback else None
    for number in range(count):
        key = b"key-%09d" % (number % DISTINCT_KEYS) if case.keyed else None
        send(topic, _value(case, number, filler), key, on_delivery=callback)


def _forget_peak() -> None:
    """Return free memory to the system, and have it count this process's peak from now on."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def measured(case: Case, buffer: int, *, stall: float) -> Growth:
    """Run a case in a process of its own, with brokers that respond *stall* seconds late until its buffer is full."""
    with MockCluster() as brokers:
        brokers.create_topic("memory", partitions=case.partitions)
        work = json.dumps([attrs.asdict(case), brokers.bootstrap_servers, "memory", buffer])
        child = subprocess.Popen(
            [sys.executable, __file__, "--work", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child:
            try:
                child.stdout.readline()
                brokers.set_rtt(1, 0.0 if case.way == "await" else stall)
                child.stdin.write("\n")
                child.stdin.flush()
                said = child.stdout.readline()
                brokers.set_rtt(1, 0.0)
                if said.strip() == FULL:
                    said = child.stdout.readline()
                child.wait(RUN_WITHIN)
            except BaseException:
                child.kill()
                raise
    if child.returncode:
        raise click.ClickException(f"{case} failed with exit code {child.returncode}")
    return Growth(**json.loads(said))


@click.command(context_settings={"show_default": True})
@click.option("--buffers", default="32,128", help="buffer.memory in MiB, by commas.")
@click.option("--only", multiple=True, help="Cases whose name or encoder contains this; more than once for fewer.")
@click.option("--stall", default=3.0, help="Seconds by which responses are late until the buffer is full.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
@click.option("--work", hidden=True)
def main(buffers: str, only: Sequence[str], stall: float, file: Path | None, work: str | None) -> None:
    """Measure by how much a process grows beyond `buffer.memory`."""
    if work is not None:
        case, servers, topic, buffer = json.loads(work)
        click.echo(json.dumps(attrs.asdict(run(Case(**case), servers, topic, buffer))))
        return
    chosen = [case for case in CASES if all(word in f"{case.name}, {case.encoder}" for word in only)]
    found = []
    shown = Table("case", "encoder", "buffer.memory", "used up", "at the start", "growth", "beyond it", "")
    for buffer in (int(mib) * MIB for mib in buffers.split(",")):
        for case in chosen:
            growth = measured(case, buffer, stall=stall)
            beyond = growth.peak - buffer
            figures = (f"{figure / MIB:,.1f} MiB" for figure in (buffer, growth.start, growth.peak, beyond))
            shown.add_row(
                case.name,
                case.encoder,
                next(figures),
                "yes" if growth.filled else "no",
                *figures,
                "" if beyond <= ALLOWED else "too much",
            )
            click.echo(f"{case.name}, {case.encoder}: {growth.peak / MIB:,.1f} MiB", err=True)
            found.append(growth)
    console = Console()
    console.width = max(console.width, 110)
    console.print(shown)
    if file is not None:
        file.write_text(json.dumps([attrs.asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
