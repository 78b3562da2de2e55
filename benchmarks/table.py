"""`send_table` compared with confluent-kafka's produce loop, and with the minimum work of any program.

`python benchmarks/table.py --help`. The minimum is lz4 and CRC-32C of encoded records, batch by batch, and one copy of
the result: no code of Ottla, no broker, one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs
import click
import lz4.frame
import pyarrow as pa
from crc32c import crc32c
from figures import figures, table
from rich.console import Console
from rounds import Broker, Run, run_rounds
from send import CODECS, TABLE_WIDTH, environment, report
from workload import DISTINCT_KEYS, Workload

from ottla.interfaces import TableRows
from ottla.recordbatch.arrow import cut_rows
from ottla.tables.sending import BATCH_BYTES
from ottla_testkit.kafka_cluster import KafkaCluster

PEERS: Final = ("ottla-table", "ottla-table-python", "confluent-kafka")
FLOOR_RECORDS: Final = 200_000


def encoded(workload: Workload) -> Sequence[bytes]:
    """Return batches of such records before compression."""
    rows = TableRows(count=FLOOR_RECORDS, now_ms=0, values=pa.array(workload.values(FLOOR_RECORDS), pa.binary()))
    if workload.keyed:
        rows = attrs.evolve(rows, keys=pa.array(workload.keys(FLOOR_RECORDS), pa.binary()))
    return [
        bytes(chunk) for cut in cut_rows(rows, None, max_bytes=BATCH_BYTES) for chunk in cut.columns.encode(2).chunks
    ]


def floor(batches: Sequence[bytes]) -> float:
    """Return the records per second of the minimum work."""
    started = time.perf_counter()
    for batch in batches:
        packed = lz4.frame.compress(batch, block_linked=False)
        crc32c(packed)
        bytearray(packed)
    return FLOOR_RECORDS / (time.perf_counter() - started)


@click.command(context_settings={"show_default": True})
@click.option("--bootstrap-servers", help="A cluster that runs already; default: one is started for the benchmark.")
@click.option("--records", default=1_000_000, help="Rows in a run.")
@click.option("--value-size", default=100, help="Bytes of a value.")
@click.option("--partitions", default=4)
@click.option("--keyed", is_flag=True, help="Give records keys.")
@click.option("--compression", type=click.Choice(CODECS), default="lz4")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all")
@click.option("--batch-size", default=16_384)
@click.option("--rounds", default=5, help="Rounds that count; one more goes before them.")
@click.option("--peers", "names", default=",".join(PEERS), help="Who runs, by commas.")
@click.option("--timeout", default=300.0, help="Seconds that one run may take.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(
    bootstrap_servers: str | None, rounds: int, names: str, timeout: float, file: Path | None, **settings: Any
) -> None:
    """Send the same rows with every peer, in rounds, and measure the floor after each round's runs."""
    workload = Workload(headers=False, callback=False, distinct_keys=DISTINCT_KEYS, **settings)
    peers = [name.strip() for name in names.split(",")]
    before, batches, floors = environment(), encoded(workload), list[float]()

    def report_run(run: Run) -> None:
        report(run)
        floors.append(floor(batches))

    with contextlib.ExitStack() as stack:
        servers = bootstrap_servers or stack.enter_context(KafkaCluster(sustained=True)).bootstrap_servers
        broker = Broker(servers, workload.librdkafka_security)
        runs = run_rounds(broker, dict.fromkeys(peers, workload), rounds=rounds, timeout=timeout, report=report_run)
    rows = [row for peer in peers if (row := figures(runs, peer, ours=PEERS[0]))]
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    keys = "keyed" if workload.keyed else "no keys"
    title = (
        f"{workload.value_size}-byte values, {keys}, compression {workload.compression}, load {os.getloadavg()[0]:.1f}"
    )
    console.print(table(rows, title=title))
    console.print(f"the floor: {median(floors):,.0f} records/s ({min(floors):,.0f} - {max(floors):,.0f})")
    for row in rows:
        console.print(f"{row.peer}: {median(floors) / row.rate:.2f} times the floor's time")
    if file is not None:
        content = {
            "environment": before,
            "workload": attrs.asdict(workload),
            "floors": floors,
            "runs": [attrs.asdict(run) for run in runs],
        }
        file.write_text(json.dumps(content, indent=2) + "\n")
    if any(run.problem for run in runs):
        sys.exit("some runs are invalid; they count for nothing")


if __name__ == "__main__":
    main()
