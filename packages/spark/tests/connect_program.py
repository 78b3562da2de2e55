"""A program that reaches Spark by Spark Connect only: does one thing after the other, and prints what became of each.

Run by test_spark_connect.py in a process of its own, because a process is of one kind or the other. What is printed
last is one line of JSON: by name what a step returned, or the words of its error.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

OURS = ("ottla", "ottla_spark")
WITHIN = 120  # seconds
ROWS = 20
BATCHES = 2
SECRET = "hunter2"
STARTS = 5
LATE_WORKER = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start, in which a busy machine may not do it; the step is repeated."""


class Program:
    """The steps. Each begins in a state that those before may have left."""

    def __init__(self, remote: str, *, folder: Path, options: dict[str, str], topics: dict[str, str]) -> None:
        self.spark = SparkSession.builder.remote(remote).getOrCreate()
        assert "connect" in type(self.spark).__module__
        self.folder = folder
        self.options = options
        self.topics = topics
        self.reported: dict[str, Any] = {}
        self.rows = self.spark.range(0, ROWS, 1, 2).selectExpr(
            "cast(id as string) as value", "cast(id as string) as key"
        )

    def run(self, step: Callable[[], Any]) -> None:
        name, began = step.__name__, time.perf_counter()
        for _ in range(STARTS):
            try:
                self.reported[name] = step()
            except Exception as error:
                self.reported[name] = f"{type(error).__name__}: {error}"
            if LATE_WORKER not in str(self.reported[name]):
                break
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)

    def to(self, name: str, **more: str) -> dict[str, str]:
        return {**self.options, "topic": self.topics[name], **{key.replace("_", "."): more[key] for key in more}}

    def write(self, frame: DataFrame, name: str, **more: str) -> None:
        frame.write.format("ottla").options(**self.to(name, **more)).mode("append").save()

    def stream(self, name: str, **more: str) -> int:
        """Write what there is as micro-batches; returns how many are committed, those of before included."""
        source = self.spark.readStream.schema("value string, key string").option("maxFilesPerTrigger", 1)
        writer = source.parquet(str(self.folder / "in")).writeStream.format("ottla").options(**self.to(name, **more))
        query = writer.option("checkpointLocation", str(self.folder / name)).trigger(availableNow=True).start()
        assert query.awaitTermination(WITHIN)
        return len(list((self.folder / name / "commits").glob("[0-9]*")))

    # The client's Python need not have Ottla for these.

    def batch(self) -> None:
        self.write(self.rows, "batch")

    def batch_of_a_thread(self) -> None:
        failed: list[BaseException] = []

        def write() -> None:
            try:
                self.write(self.rows, "thread")
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(WITHIN)
        for error in failed:
            raise error

    def micro_batches(self) -> int:
        self.rows.repartition(BATCHES).write.parquet(str(self.folder / "in"))
        return self.stream("stream")

    def wrong_columns_and_options(self) -> None:
        self.write(
            self.spark.sql("select 1 as value, 'k' as key, 1L as partition"), "batch", kafka_lingerms="1", nonsense="x"
        )

    def wrong_row(self) -> None:
        self.write(self.spark.sql("select 'a' as value, -7 as partition"), "batch")

    def secret(self) -> None:
        secret = {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "PLAIN"}
        self.write(
            self.rows,
            "batch",
            **secret,
            kafka_sasl_username="alice",
            kafka_sasl_password="hunter2",
            kafka_max_block_ms="0",
        )

    def exactly_once(self) -> int:
        return self.stream(
            "exactly-once", guarantee="exactly-once", transactional_id_prefix=self.topics["exactly-once"]
        )

    def exactly_once_after_a_lost_commit(self) -> int:
        """As if the driver had died before Spark itself wrote down that the last micro-batch is over."""
        commits = self.folder / "exactly-once/commits"
        for path in (commits / f"{BATCHES - 1}", commits / f".{BATCHES - 1}.crc"):
            path.unlink()
        return self.exactly_once()

    # The client calls Ottla for these.

    def once(self) -> list[Any]:
        from ottla_spark import write_once

        options = self.to("once", transactional_id_prefix=self.topics["once"])
        outcomes = [write_once(self.rows, options, job_id="monday") for _ in range(2)]
        return [[outcome.written, outcome.records] for outcome in outcomes]

    def called(self) -> int:
        import ottla_spark

        return ottla_spark.write(self.rows, self.to("called")).records

    def micro_batches_by_call(self) -> None:
        import ottla_spark

        self.for_each_batch(ottla_spark.foreach_batch(self.to("by-call")), "by-call")

    def exactly_once_by_call(self) -> None:
        import ottla_spark

        options = self.to("once", guarantee="exactly-once", transactional_id_prefix="connect-by-call")
        self.for_each_batch(ottla_spark.foreach_batch(options), "once-by-call")

    def for_each_batch(self, function: Callable[[DataFrame, int], None], checkpoint: str) -> None:
        """Call a function for each micro-batch of what is there."""
        stream = self.spark.readStream.schema("value string, key string").parquet(str(self.folder / "in"))
        writer = stream.writeStream.foreachBatch(function).option("checkpointLocation", str(self.folder / checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(WITHIN)

    def all_or_nothing(self) -> None:
        from ottla_spark.atomic import atomically

        sink = atomically(self.to("batch"), transactional_id="connect")
        stream = self.spark.readStream.schema("value string, key string").parquet(str(self.folder / "in"))
        query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.folder / "all")).start()
        query.awaitTermination(WITHIN)

    def each_batch_as_a_frame(self) -> None:
        options = self.to("each")

        def write(frame: DataFrame, batch: int) -> None:
            frame.write.format("ottla").options(**options).mode("append").save()

        self.for_each_batch(write, "each")

    def report(self) -> None:
        from ottla_spark import last_report

        last_report()

    def registered(self) -> None:
        import ottla_spark

        ottla_spark.register(self.spark)
        self.write(self.rows, "registered")


def main() -> None:
    given = json.loads(sys.stdin.read())
    program = Program(given["remote"], folder=Path(given["folder"]), options=given["options"], topics=given["topics"])
    for name in OURS:
        sys.modules[name] = None  # type: ignore[assignment] # as where they are not installed: an import fails
    of_pyspark: list[Callable[[], Any]] = [
        program.batch,
        program.batch_of_a_thread,
        program.micro_batches,
        program.wrong_columns_and_options,
        program.wrong_row,
        program.secret,
        program.exactly_once,
        program.exactly_once_after_a_lost_commit,
        program.each_batch_as_a_frame,
    ]
    for step in of_pyspark:
        program.run(step)
    for name in OURS:
        del sys.modules[name]
    of_ottla: list[Callable[[], Any]] = [
        program.once,
        program.called,
        program.micro_batches_by_call,
        program.exactly_once_by_call,
        program.all_or_nothing,
        program.report,
        program.registered,
    ]
    for step in of_ottla:
        program.run(step)
    program.spark.stop()
    print(json.dumps(program.reported))


if __name__ == "__main__":
    main()
