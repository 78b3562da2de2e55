"""The check that Spark ran no stage of an atomic batch twice, from what Spark still knows. No Spark runs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkJobInfo, SparkStageInfo

from ottla_spark.atomic.errors import TaskRefusedError
from ottla_spark.atomic.sink import OneStageAttempt


def session(
    jobs: Mapping[int, Sequence[int]],
    attempts: Mapping[int, int],
    handle: Callable[[int], object] = lambda _within: None,
) -> Any:
    """A session that knows these jobs of a block with their stages, and the last attempt of these stages."""

    def job_info(job: int) -> SparkJobInfo | None:
        return SparkJobInfo(job, list(jobs[job]), "SUCCEEDED") if job in jobs else None

    def stage_info(stage: int) -> SparkStageInfo | None:
        return SparkStageInfo(stage, attempts[stage], "s", 2, 0, 2, 0) if stage in attempts else None

    scala = SimpleNamespace(
        listenerBus=lambda: SimpleNamespace(waitUntilEmpty=handle),
        statusTracker=lambda: SimpleNamespace(getJobIdsForTag=lambda _tag: list(jobs)),
    )
    context = SimpleNamespace(
        addJobTag=lambda _tag: None,
        removeJobTag=lambda _tag: None,
        _jsc=SimpleNamespace(sc=lambda: scala),
        statusTracker=lambda: SimpleNamespace(getJobInfo=job_info, getStageInfo=stage_info),
    )
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    ("jobs", "attempts"),
    [
        ({7: [10, 11]}, {10: 0, 11: 0}),
        ({8: [12, 11], 7: [10]}, {10: 0, 11: 0, 12: 0}),
        ({8: [12, 11]}, {12: 0}),  # what ended first is forgotten first
    ],
)
def test_a_block_whose_writing_stage_ran_once_is_good(
    jobs: Mapping[int, Sequence[int]], attempts: Mapping[int, int]
) -> None:
    with OneStageAttempt(session(jobs, attempts), within=1.5):
        pass


@pytest.mark.parametrize("repeated", [10, 11])
def test_a_stage_that_ran_twice_refuses_the_batch(repeated: int) -> None:
    with (
        pytest.raises(TaskRefusedError, match=f"Spark ran stage {repeated} 2 times"),
        OneStageAttempt(session({7: [10, 11]}, {10: 0, 11: 0, repeated: 1}), within=1.5),
    ):
        pass


@pytest.mark.parametrize(
    ("jobs", "attempts"),
    [({}, {}), ({7: [10, 11]}, {10: 0}), ({8: [11, 12], 7: [10]}, {10: 0, 11: 0})],
)
def test_a_batch_is_refused_if_spark_has_forgotten_the_stage_that_wrote(
    jobs: Mapping[int, Sequence[int]], attempts: Mapping[int, int]
) -> None:
    with (
        pytest.raises(TaskRefusedError, match=r"has forgotten .* raise spark\.ui\.retainedJobs and"),
        OneStageAttempt(session(jobs, attempts), within=1.5),
    ):
        pass


@pytest.mark.parametrize(
    ("thrown", "raised"),
    [
        ("java.util.concurrent.TimeoutException: The event queue is not empty", TaskRefusedError),
        ("java.lang.IllegalStateException: stopped", Py4JJavaError),
    ],
)
def test_a_batch_is_refused_if_the_events_of_its_stages_come_too_late(thrown: str, raised: type[Exception]) -> None:
    waits: list[int] = []

    def wait(milliseconds: int) -> None:
        waits.append(milliseconds)
        raise java_error(thrown)

    with pytest.raises(raised), OneStageAttempt(session({7: [10]}, {10: 0}, wait), within=1.5):
        pass
    assert waits == [1_500]


def java_error(text: str) -> Any:
    """An exception of Spark, without a JVM."""
    error: Any = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = text
    return error


def test_an_error_of_the_block_passes_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), OneStageAttempt(session({}, {}), within=1.5):
        raise ZeroDivisionError
