"""The fixed part of a write: imports of each of Spark's Python processes, the first write, and writes of ten rows.

`python benchmarks/spark_start.py --help`. The first table has seconds of processor time, of processes as Spark starts
them, without Spark. The second has what users wait for: seconds of the first write of a fresh application, and of the
median write after it, by Ottla and by what does nothing in its place: a sink in Python that only reads, for `format`,
and a function that only reads, for `mapInArrow`. Every round is a fresh application of each way, in rotating order. The
third has what a write of ten rows takes more than that: one application writes with both in turn, so that other work of
the machine slows both alike, and the median is that of the differences.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import click

from ottla_testkit.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC: Final = "fixed-part"
ROWS: Final = 10
WARM_UP: Final = 30  # writes of each way before the pairs: the JVM compiles what they run
WITHIN: Final = 300.0  # seconds for one process

DRIVER: Final = """
from ottla_spark.options.options import read_options
from ottla_spark.sink.writer import OttlaWriter
options = read_options({"kafka.bootstrap.servers": sys.argv[1], "topic": "fixed-part"}, problems=[])
"""

STEPS: Final[Mapping[str, str]] = {
    "look up": "import pyspark_ottla\nstep('imports')",
    "plan": f"""
import ottla_spark.planned_writers
step('imports')
{DRIVER}
step('options')
OttlaWriter(options, {{'value': 0}}).plan()
step('topics')
""",
    "task": """
writer, _ = pickle.loads(bytes.fromhex(input()))
writer.write(iter(()))
step('imports')
writer.write(iter([rows]))
step('first ten rows')
writer.write(iter([rows]))
step('next ten rows')
""",
    "commit": """
writer, message = pickle.loads(bytes.fromhex(input()))
step('imports')
writer.commit([message])
step('commit')
""",
}

PROCESS: Final = """
import json, pickle, sys, time
import pyspark.worker, pyspark.sql.types, pyspark.sql.datasource, pyarrow, pyarrow.compute
rows = pyarrow.RecordBatch.from_pylist([{"value": "x"}] * 10)
spent, last = {}, time.process_time()
def step(name):
    global last
    now = time.process_time()
    spent[name], last = now - last, now
"""

PICKLED: Final = f"""
import pickle, sys
{DRIVER}
from ottla_spark.sink.task_written import TaskWritten
print(pickle.dumps((OttlaWriter(options, {{'value': 0}}), TaskWritten(records=10))).hex())
"""


@click.command(context_settings={"show_default": True})
@click.option("--processes", default=9, help="Processes of each kind for the first table; 0: none.")
@click.option("--rounds", default=5, help="Fresh applications of each way; 0: none.")
@click.option("--writes", default=30, help="After the first write of an application.")
@click.option("--pairs", default=200, help="Writes of each way for the third table; 0: none.")
def main(processes: int, rounds: int, writes: int, pairs: int) -> None:
    """Measure the fixed part of a write of ten rows."""
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster())
        cluster.create_topic(TOPIC, partitions=2)
        if processes:
            click.echo("\n".join(_table_of_processes(cluster.bootstrap_servers, processes)))
        if rounds:
            click.echo("\n".join(_table_of_applications(cluster.bootstrap_servers, rounds, writes)))
        if pairs:
            click.echo("\n".join(_table_of_pairs(cluster.bootstrap_servers, max(rounds, 1), pairs)))


def _table_of_processes(servers: str, count: int) -> Iterator[str]:
    """Yield the lines of the first table: median and smallest milliseconds of processor time."""
    pickled = _output("-c", PICKLED, servers)
    yield "| process | step | median, ms of CPU | smallest |"
    yield "|---|---|---|---|"
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(count):
        for name, work in STEPS.items():
            program = f"{PROCESS}{work}\nprint(json.dumps(spent))"
            for step, seconds in json.loads(_output("-c", program, servers, given=pickled)).items():
                spent[name, step].append(seconds * 1000)
    for (name, step), each in spent.items():
        yield f"| {name} | {step} | {median(each):.1f} | {min(each):.1f} |"


def _table_of_applications(servers: str, rounds: int, writes: int) -> Iterator[str]:
    """Yield the lines of the second table: medians of the rounds."""
    ways = list(WAYS)
    found: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for number in range(rounds):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            found[way].append(json.loads(_output(__file__, "application", way, servers, str(writes))))
            click.echo(f"round {number + 1}, {way}: {found[way][-1]}", err=True)
    figures = list(found[ways[0]][0])
    yield f"| way | {' | '.join(figures)} |"
    yield "|---|" + "---|" * len(figures)
    for way in ways:
        each = [median(run[figure] for run in found[way]) for figure in figures]
        yield f"| {way} | {' | '.join(f'{value:.3f}' for value in each)} |"


def _table_of_pairs(servers: str, rounds: int, pairs: int) -> Iterator[str]:
    """Yield the lines of the third table: milliseconds, the median of the rounds and all of them."""
    yield "| way | more than | a write takes, ms | more by, ms | in each application |"
    yield "|---|---|---|---|---|"
    for way, nothing in PAIRS.items():
        runs = [json.loads(_output(__file__, "pairs", way, servers, str(pairs))) for _ in range(rounds)]
        more = [1000 * median(one - other for one, other in run) for run in runs]
        whole = 1000 * median(one for run in runs for one, _ in run)
        each = ", ".join(f"{value:.1f}" for value in more)
        yield f"| {way} | {nothing} | {whole:.0f} | {median(more):.1f} | {each} |"


def _output(*arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments], input=given, capture_output=True, text=True, timeout=WITHIN, check=False
    )
    if done.returncode:
        raise click.ClickException(done.stderr)
    return done.stdout.strip().splitlines()[-1]


def _by_format(name: str) -> Callable[[DataFrame, Mapping[str, str]], object]:
    def write(frame: DataFrame, options: Mapping[str, str]) -> None:
        frame.write.format(name).mode("append").options(**options).save()

    return write


def _by_call(frame: DataFrame, options: Mapping[str, str]) -> object:
    import ottla_spark

    return ottla_spark.write(frame, options)


def _only_reads(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pylist([{"message": "{}"}])


def _by_nothing(frame: DataFrame, options: Mapping[str, str]) -> object:
    return frame.mapInArrow(_only_reads, "message string").collect()


WAYS: Final[Mapping[str, Callable[[DataFrame, Mapping[str, str]], object]]] = {
    "format, only reads": _by_format("only-reads"),
    "format, ottla": _by_format("ottla"),
    "mapInArrow, only reads": _by_nothing,
    "ottla_spark.write": _by_call,
}


def application(way: str, servers: str, writes: str) -> None:
    """Run a fresh application, which prints its figures."""
    from spark_session import cpu_seconds, spark_session, spent

    write = WAYS[way]
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    with spark_session(2, "1g") as spark:
        frame = spark.range(0, ROWS, 1, 1).selectExpr("cast(id as string) as value")
        frame.collect()  # the JVM's own start
        figures = {}
        before, started = cpu_seconds([]), time.perf_counter()
        write(frame, options)
        figures["first write, s"] = time.perf_counter() - started
        figures["its CPU, s"] = spent(before, cpu_seconds([]))
        before = cpu_seconds([])
        figures["median of the next, s"] = median(_seconds(lambda: write(frame, options)) for _ in range(int(writes)))
        figures["CPU of each, s"] = spent(before, cpu_seconds([])) / int(writes)
    print(json.dumps(figures))


PAIRS: Final = {"format, ottla": "format, only reads", "ottla_spark.write": "mapInArrow, only reads"}


def pairs_of_writes(way: str, servers: str, pairs: str) -> None:
    """Run an application that writes by Ottla and by what does nothing in turn, and prints the seconds of both."""
    from spark_session import spark_session

    write, nothing = WAYS[way], WAYS[PAIRS[way]]
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    with spark_session(2, "1g") as spark:
        frame = spark.range(0, ROWS, 1, 1).selectExpr("cast(id as string) as value")
        for _ in range(WARM_UP):
            write(frame, options)
            nothing(frame, options)
        found = []
        for number in range(int(pairs)):
            # Which of them is first alternates: a write may pay for what the one before it left to do.
            if number % 2:
                other = _seconds(lambda: nothing(frame, options))
                found.append((_seconds(lambda: write(frame, options)), other))
            else:
                one = _seconds(lambda: write(frame, options))
                found.append((one, _seconds(lambda: nothing(frame, options))))
    print(json.dumps(found))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    if sys.argv[1:2] == ["application"]:
        application(*sys.argv[2:])
    elif sys.argv[1:2] == ["pairs"]:
        pairs_of_writes(*sys.argv[2:])
    else:
        main()
