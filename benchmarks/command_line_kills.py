"""`ottla send --resume` of a large NDJSON file that is killed again and again: each record arrives once.

`python benchmarks/command_line_kills.py --help`. The command runs on a real broker and is killed (SIGKILL) at moments
that a seed decides: at the beginning or the end of a step, or some time later. The steps are those of a transaction,
so kills fall between its preparation, the writing of STATE and the commit, too. After the last kill the command runs
to its end. Then confluent-kafka's consumer reads the committed records: each line must be there once, unchanged, and
in the order of the file within its partition.

The peak memory is that of each killed process, and of the last one. The rate is compared with `send_table` of the same
records from Parquet, in runs without kills.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
import psutil
from command_line import COMMAND, FLOOR, MEBIBYTE, SEND_TABLE, SENDS, Outcome, run, write
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from rounds import Broker
from send import CODECS

from ottla.cli.send.inputs import BLOCK_BYTES
from ottla.cli.send.resumable import TRANSACTION_BYTES
from ottla_testkit.kafka_cluster import KafkaCluster

RESUMED: Final = "ottla send, NDJSON, --resume"
TRANSACTIONS_FOR_A_KILL: Final = 1.4
"""Killed runs commit one or two transactions, or none; the file must outlast them."""
READ_SECONDS: Final = 120.0
KEPT: Final = 20  # examples

START: Final = "start"
CALLS: Final = (
    "complete",  # in a run after a kill, the transaction that STATE has as prepared
    "init_transactions",
    "begin_transaction",
    "send_block",
    "prepare_transaction",
    "save prepared",
    "fsync",
    "replace",
    "commit_transaction",
    "save position",
)
STEPS: Final = (START, *(f"{call} {moment}" for call in CALLS for moment in ("begins", "ended")))

# Writes a line to a pipe when a step begins, and when it has ended; stops at the chosen one, until it is killed.
CHILD: Final = """
import functools, os, signal, sys
from pathlib import Path
from ottla import Producer
from ottla.cli import main
from ottla.cli.send import inputs, resumable
from ottla.cli.send.state import State

pipe, resumable.TRANSACTION_BYTES, inputs.BLOCK_BYTES, left = map(int, sys.argv[1:5])
chosen = sys.argv[5]

def reach(step):
    global left
    os.write(pipe, f"{step}\\n".encode())
    left -= step == chosen
    if step == chosen and left == 0:
        os.kill(os.getpid(), signal.SIGSTOP)

def report(owner, name):
    original = getattr(owner, name)

    @functools.wraps(original)
    def reported(*args, **options):
        step = name if name != "save" else "save prepared" if args[0].prepared else "save position"
        reach(f"{step} begins")
        result = original(*args, **options)
        reach(f"{step} ended")
        return result

    setattr(owner, name, reported)

for name in ("init_transactions", "begin_transaction", "prepare_transaction", "commit_transaction"):
    report(Producer, name)
report(resumable, "complete")
report(resumable, "send_block")
report(State, "save")
report(os, "fsync")
report(Path, "replace")
sys.argv = ["ottla", *sys.argv[6:]]
main()
"""


@attrs.frozen(kw_only=True)
class Sizes:
    """Bytes of a transaction and of a block: the command's own, or less if the file is small for the kills."""

    transaction: int
    block: int

    @classmethod
    def of(cls, megabytes: float, kills: int) -> Sizes:
        """Return sizes with which the file has enough transactions."""
        transaction = min(TRANSACTION_BYTES, int(megabytes * 1_000_000 / (TRANSACTIONS_FOR_A_KILL * kills + 1)))
        return cls(transaction=transaction, block=min(BLOCK_BYTES, transaction // 4))


@attrs.frozen(kw_only=True)
class Kill:
    """The chosen step and the time after it, the last step that the process reported, and its peak memory."""

    chosen: str
    delay: float
    last: str
    peak_memory: int


@attrs.define
class Readback:
    """The records that a consumer of committed records reads, compared with the lines of a file."""

    lost: int = 0
    repeated: int = 0
    changed: int = 0
    out_of_order: int = 0
    examples: list[str] = attrs.Factory(list)

    @property
    def ok(self) -> bool:
        """Whether each line is there once, unchanged and in order."""
        return not (self.lost or self.repeated or self.changed or self.out_of_order)

    def note(self, example: str) -> None:
        """Keep the first examples."""
        if len(self.examples) < KEPT:
            self.examples.append(example)


def checksums(file: Path) -> array[int]:
    """Return the checksum of each line."""
    found = array("L")
    with open(file, "rb") as lines:
        found.extend(zlib.crc32(line[:-1]) for line in lines)
    return found


def kill_once(arguments: Sequence[str], sizes: Sizes, chance: random.Random) -> Kill | None:
    """Run the command and kill it at a step that *chance* chooses, or after it. None: it ended before.

    It is killed after its second commit in any case, because not every run has each step.
    """
    chosen, times = chance.choice(STEPS), chance.choice((1, 1, 2, 3))
    delay = chance.uniform(0.0, 2.0) if chosen == START else chance.choice((0.0, 0.0, 10 ** chance.uniform(-4, 0)))
    stops = 0 if delay else times
    reading, writing = os.pipe()
    command = [sys.executable, "-c", CHILD, *map(str, (writing, sizes.transaction, sizes.block, stops)), chosen]
    with (
        open(reading, encoding="ascii") as steps,
        subprocess.Popen(
            [*command, *arguments], pass_fds=[writing], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        os.close(writing)
        last = _wait(steps, chosen, times)
        time.sleep(delay)
        peak = _peak_memory(process.pid)
        process.kill()
        output, _none = process.communicate()
        for step in steps:
            last = step.strip()
    if process.returncode == -signal.SIGKILL:
        return Kill(chosen=chosen, delay=delay, last=last, peak_memory=peak)
    if process.returncode:
        raise click.ClickException(f"the command ended after {last!r}: {output.decode(errors='replace')}")
    return None


def _wait(steps: Iterator[str], chosen: str, times: int) -> str:
    """Return the chosen step, or the last one before the process has to be killed, when it has been reported."""
    last, commits = START, 0
    if chosen == START:
        return last
    for line in steps:
        last = line.strip()
        commits += last == "commit_transaction ended"
        times -= last == chosen
        if times == 0 or commits == 2:
            break
    return last


def _peak_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return int(psutil.Process(pid).memory_info().rss)
    peaks = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(next(peaks, 0)) * 1024


def read_committed(servers: str, topic: str, partitions: int, expected: Sequence[int]) -> Readback:
    """Read the topic to its end, and compare it with the checksums of the lines."""
    found = Readback()
    times, newest = bytearray(len(expected)), dict.fromkeys(range(partitions), -1)
    for partition, value in _records(servers, topic, partitions):
        number = int(json.loads(value)["id"])
        times[number] = min(times[number] + 1, 255)
        if zlib.crc32(value) != expected[number]:
            found.changed += 1
            found.note(f"line {number} was changed")
        if number < newest[partition]:
            found.out_of_order += 1
            found.note(f"line {number} stands after line {newest[partition]} in partition {partition}")
        newest[partition] = max(number, newest[partition])
    for number, each in enumerate(times):
        if each != 1:
            found.lost += each == 0
            found.repeated += each > 1
            found.note(f"line {number} was read {each} times")
    return found


def _records(servers: str, topic: str, partitions: int) -> Iterator[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "command-line-kills",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        heard = time.monotonic()
        while len(ended) < partitions:
            messages = consumer.consume(10_000, timeout=1.0)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > READ_SECONDS:
                raise click.ClickException(f"no record and no end of a partition came within {READ_SECONDS:g} s")
            for message in messages:
                partition, error, value = message.partition(), message.error(), message.value()
                assert partition is not None
                if error is None:
                    assert value is not None
                    yield partition, value
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


@click.command(context_settings={"show_default": True})
@click.option("--megabytes", default=100.0, help="The size of the NDJSON file.")
@click.option("--kills", default=20)
@click.option("--seed", default=1, help="Decides when the processes are killed.")
@click.option("--partitions", default=4)
@click.option("--compression", type=click.Choice(CODECS), default="none")
@click.option("--rounds", default=3, help="Runs without kills of each way, for the rate; 0 leaves them out.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(
    megabytes: float, kills: int, seed: int, partitions: int, compression: str, rounds: int, file: Path | None
) -> None:
    """Kill the command KILLS times, finish it, and read back what it sent; then compare rates."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-kills-")))
        records = write(folder, megabytes)
        servers = stack.enter_context(KafkaCluster(sustained=True)).bootstrap_servers
        broker = Broker(servers, {})
        topic = broker.create_topic(partitions)
        killed, last = _killed_and_finished(
            folder, topic, servers, compression, Sizes.of(megabytes, kills), kills, seed
        )
        click.echo(f"{len(killed)} kills with seed {seed}, after these steps:")
        for step, times in Counter(each.last for each in killed).most_common():
            click.echo(f"  {times:>3} {step}")
        peak = max(last.peak_memory, *(each.peak_memory for each in killed))
        click.echo(f"peak memory of a process: {peak / MEBIBYTE:,.0f} MiB")
        found = read_committed(servers, topic, partitions, checksums(folder / "lines.ndjson"))
        click.echo(
            f"{records:,} lines: {found.lost} lost, {found.repeated} repeated, {found.changed} changed, "
            f"{found.out_of_order} out of order"
        )
        broker.delete_topic(topic)
        rates = _rates(folder, broker, partitions, compression, rounds, records)
    if file is not None:
        document = {
            "kills": [attrs.asdict(each) for each in killed],
            "readback": attrs.asdict(found),
            "runs": [attrs.asdict(each) for each in rates],
        }
        file.write_text(json.dumps(document))
    if not found.ok:
        raise click.ClickException("\n".join(found.examples))


def _killed_and_finished(
    folder: Path, topic: str, servers: str, compression: str, sizes: Sizes, kills: int, seed: int
) -> tuple[list[Kill], Outcome]:
    chance = random.Random(seed)
    settings = ["--bootstrap-servers", servers, "-c", f"compression.type={compression}", "--json"]
    arguments = ["send", topic, *settings, str(folder / "lines.ndjson"), "--resume", str(folder / "STATE")]
    killed: list[Kill] = []
    while len(killed) < kills:
        found = kill_once(arguments, sizes, chance)
        if found is None:
            raise click.ClickException(f"the file was sent after {len(killed)} kills; take a larger one")
        click.echo(f"  killed {found.delay:.4f} s after {found.chosen!r}, last: {found.last!r}", err=True)
        killed.append(found)
    last = run(RESUMED, [COMMAND, *arguments], folder)
    (folder / "STATE").unlink()
    return killed, last


def _rates(
    folder: Path, broker: Broker, partitions: int, compression: str, rounds: int, records: int
) -> Sequence[Outcome]:
    """Run both ways in turns without kills, and print their rates and the ratio."""
    outcomes: list[Outcome] = []
    settings = ["--bootstrap-servers", broker.servers, "-c", f"compression.type={compression}", "--json"]
    for _round in range(rounds):
        for way in (FLOOR, RESUMED):
            topic = broker.create_topic(partitions)
            ways: Mapping[str, list[str]] = {
                FLOOR: [SEND_TABLE, topic, broker.servers, compression, "lines.parquet"],
                RESUMED: [COMMAND, "send", topic, *settings, *SENDS[RESUMED]],
            }
            outcome = run(way, ways[way], folder)
            (folder / "STATE").unlink(missing_ok=True)
            broker.delete_topic(topic)
            if outcome.records != records:
                raise click.ClickException(f"{way}: {outcome.records} of {records} records were acknowledged")
            outcomes.append(outcome)
    if rounds:
        floor, resumed = ([each for each in outcomes if each.way == way] for way in (FLOOR, RESUMED))
        ratio = median(one.seconds / other.seconds for one, other in zip(floor, resumed, strict=True))
        for each in (floor, resumed):
            rate, peak = median(one.records / one.seconds for one in each), max(one.peak_memory for one in each)
            click.echo(f"{each[0].way}: {rate:,.0f} records/s, peak {peak / MEBIBYTE:,.0f} MiB")
        click.echo(f"ratio of the rates: {ratio:.2f}")
    return outcomes


if __name__ == "__main__":
    main()
