"""Report of a write, as a table for users and as values for a program.

With a data source, Spark's commit creates it on the driver, but in a separate Python process. So it reaches the
program through a file, in the folder that Spark creates for one application and removes with it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from ottla import OttlaError
from ottla.errors import counted
from ottla_spark.options.shipped_files import application_folder
from ottla_spark.sink.task_written import TaskWritten
from ottla_spark.worker.garbage_collection import reduce_collection

_log = logging.getLogger(__name__)

FILE: Final = "ottla-last-report.json"
MAX_LINES: Final = 20
"""Maximum number of partitions in the printed table; the values have all of them."""


def publish_report(what: str, messages: Sequence[object], *, wanted: bool) -> None:
    """Log the results of a write's tasks, and publish the report if it is requested."""
    reduce_collection()
    report = WriteReport.of(what, messages)
    _log.info("records were written: %s", report.line())
    if wanted:
        report.publish()


@attrs.frozen(kw_only=True)
class WriteReport:
    """Records that all tasks of a write, or of one micro-batch, sent and brokers acknowledged.

    `partitions` counts the records by topic and partition, dead letters included; `refused` counts the rows that could
    not be sent. The seconds are sums over all tasks: waiting for Spark's rows, making batches of them, waiting for the
    last acknowledgements.
    """

    what: str
    tasks: int
    records: int
    bytes: int
    partitions: Mapping[tuple[str, int], int]
    reading: float
    sending: float
    waiting: float
    refused: int = 0

    @classmethod
    def of(cls, what: str, messages: Sequence[object]) -> WriteReport:
        """Return the sum of the tasks' results."""
        written = [message for message in messages if isinstance(message, TaskWritten)]
        partitions: Counter[tuple[str, int]] = Counter()
        for message in written:
            partitions.update(message.partitions)
        return cls(
            what=what,
            tasks=len(written),
            records=sum(message.records for message in written),
            bytes=sum(message.bytes for message in written),
            partitions=dict(sorted(partitions.items())),
            refused=sum(message.refused for message in written),
            reading=sum(message.reading for message in written),
            sending=sum(message.sending for message in written),
            waiting=sum(message.waiting for message in written),
        )

    def line(self) -> str:
        """Return one line for a log."""
        refused = f", {counted(self.refused, 'row')} refused" if self.refused else ""
        return f"{self.what}: {self.records} records, {self.bytes} bytes, acknowledged in {self.tasks} tasks{refused}"

    def __str__(self) -> str:
        rows = [(f"{topic} [{partition}]", f"{count:,}") for (topic, partition), count in self.partitions.items()]
        if len(rows) > MAX_LINES:
            rows = [*rows[:MAX_LINES], (f"and {len(rows) - MAX_LINES} more", "")]
        rows += [
            ("records", f"{self.records:,}"),
            *([("refused rows", f"{self.refused:,}")] if self.refused else []),
            ("bytes of keys and values", f"{self.bytes:,}"),
            ("tasks", f"{self.tasks:,}"),
            ("seconds waiting for rows", f"{self.reading:.3f}"),
            ("seconds making batches", f"{self.sending:.3f}"),
            ("seconds waiting for brokers", f"{self.waiting:.3f}"),
        ]
        wide, numbers = (max(len(row[at]) for row in rows) for at in (0, 1))
        return "\n".join([f"ottla: {self.what}", *(f"  {name:<{wide}}  {value:>{numbers}}" for name, value in rows)])

    def publish(self) -> None:
        """Print the report, and store it for `last_report`. Called on the driver, in Spark's process for commits.

        If it cannot be printed or stored, that is only logged: the rows are in Kafka, and Spark would write them again.
        """
        try:
            print(self, file=sys.stderr, flush=True)
        except (OSError, ValueError) as error:  # its terminal or its reader has gone, or the stream is closed
            _log.warning("could not print the report of %s: %s", self.what, error)
        folder = application_folder()
        if folder is None:
            return
        try:
            _store(self, Path(folder))
        except OSError as error:
            _log.warning(
                "could not store the report of %s, so last_report returns no or an older one: %s", self.what, error
            )


def last_report() -> WriteReport | None:
    """Return the report of this application's last write with `report=true`, micro-batches included, or None.

    Raises OttlaError outside the driver's process. Under Spark Connect, read the table in the driver's output.
    """
    folder = application_folder()
    if folder is None:
        raise OttlaError(
            "last_report needs Spark's driver in this process, but there is no SparkContext, or Spark Connect is used; "
            "read the table in the driver's output"
        )
    try:
        found = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    partitions = {(topic, partition): count for topic, partition, count in found.pop("partitions")}
    return WriteReport(partitions=partitions, **found)


def _store(report: WriteReport, folder: Path) -> None:
    """Write the report's file atomically: commits of other threads and processes do so too, while programs read it."""
    values = attrs.asdict(report, recurse=False)
    values["partitions"] = [[*place, count] for place, count in report.partitions.items()]
    draft = folder / f".{FILE}.{os.getpid()}.{threading.get_ident()}"
    draft.write_text(json.dumps(values), encoding="utf-8")
    draft.replace(folder / FILE)
