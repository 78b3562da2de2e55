"""The report of a write at its end."""

from __future__ import annotations

import json
import logging
import sys
import threading
from pathlib import Path

import pytest
from pyspark import SparkFiles

from ottla import OttlaError
from ottla_spark.sink import report
from ottla_spark.sink.report import WriteReport, last_report, publish_report
from ottla_spark.sink.task_written import TaskWritten

TASKS = [
    TaskWritten(records=3, bytes=10, partitions={("t", 1): 2, ("t", 0): 1}, reading=0.5, sending=0.25, waiting=1.0),
    None,
    TaskWritten(records=2, bytes=4000, partitions={("t", 1): 1, ("s", 0): 1}, reading=0.5, sending=0.25, waiting=0.0),
    TaskWritten(),
]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an application, as seen by the driver and by its processes for commits."""
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    return tmp_path


def test_a_report_is_the_sum_of_its_tasks() -> None:
    found = WriteReport.of("the write", TASKS)

    assert (found.tasks, found.records, found.bytes) == (3, 5, 4010)
    assert list(found.partitions.items()) == [(("s", 0), 1), (("t", 0), 1), (("t", 1), 3)]
    assert (found.reading, found.sending, found.waiting) == (1.0, 0.5, 1.0)
    assert found.line() == "the write: 5 records, 4010 bytes, acknowledged in 3 tasks"


def test_a_result_of_a_task_is_equal_after_its_way_to_the_driver() -> None:
    for result in (TASKS[0], TaskWritten()):
        assert isinstance(result, TaskWritten)
        assert TaskWritten.from_values(json.loads(json.dumps(result.to_values()))) == result


def test_a_report_prints_as_a_table() -> None:
    assert str(WriteReport.of("micro-batch 12", TASKS)).splitlines() == [
        "ottla: micro-batch 12",
        "  s [0]                            1",
        "  t [0]                            1",
        "  t [1]                            3",
        "  records                          5",
        "  bytes of keys and values     4,010",
        "  tasks                            3",
        "  seconds waiting for rows     1.000",
        "  seconds making batches       0.500",
        "  seconds waiting for brokers  1.000",
    ]


def test_refused_rows_are_in_the_line_and_in_the_table() -> None:
    found = WriteReport.of("the write", [*TASKS, TaskWritten(refused=2), TaskWritten(refused=1)])

    assert found.refused == 3
    assert found.line().endswith("acknowledged in 5 tasks, 3 rows refused")
    assert "  refused rows                     3" in str(found).splitlines()


def test_a_table_of_very_many_partitions_is_truncated() -> None:
    partitions = {("t", partition): 1 for partition in range(report.MAX_LINES + 5)}
    lines = str(WriteReport.of("the write", [TaskWritten(partitions=partitions)])).splitlines()

    assert lines[report.MAX_LINES].startswith(f"  t [{report.MAX_LINES - 1}]")
    assert lines[report.MAX_LINES + 1].startswith("  and 5 more")


def test_the_last_report_is_printed_and_found_by_the_program(driver: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert last_report() is None
    for what in ("micro-batch 1", "micro-batch 2"):
        found = WriteReport.of(what, TASKS)
        found.publish()

    assert last_report() == found
    assert str(found) in capsys.readouterr().err
    assert [path.name for path in driver.iterdir()] == [report.FILE]


def test_two_writes_of_one_program_may_store_their_reports_at_once(
    driver: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one ends while the first has written its file, but not yet given it its name."""
    first, second = (WriteReport.of(what, TASKS) for what in ("the first", "the second"))
    meanwhile = threading.Thread(target=second.publish)
    replace = Path.replace

    def late(draft: Path, target: Path) -> Path:
        if threading.current_thread() is not meanwhile:
            meanwhile.start()
            meanwhile.join()
            assert last_report() == second
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", late)
    first.publish()

    assert last_report() == first
    assert [path.name for path in driver.iterdir()] == [report.FILE]
    assert not caplog.records


class Gone:
    """A stream whose reader has ended."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, _text: str) -> None:
        raise self.error

    def flush(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file")])
def test_a_report_that_cannot_be_printed_is_logged_and_fails_no_write(
    error: Exception, driver: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Gone(error))
        publish_report("micro-batch 12", TASKS, wanted=True)

    assert "could not print the report of micro-batch 12" in caplog.text
    assert last_report() == WriteReport.of("micro-batch 12", TASKS)


def test_a_report_that_cannot_be_stored_is_logged_and_fails_no_write(
    driver: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver.rmdir()
    with caplog.at_level(logging.WARNING):
        WriteReport.of("micro-batch 12", TASKS).publish()

    assert "could not store the report of micro-batch 12" in caplog.text


def test_without_a_driver_the_error_says_where_the_report_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", False)
    monkeypatch.setattr(SparkFiles, "_root_directory", None)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)

    with pytest.raises(OttlaError, match="read the table in the driver's output"):
        last_report()
