"""The tasks of a failed job that still run. Spark reports a failure first, and then kills the other tasks of the job.

A task in Python ends two to four seconds later: Spark looks every two seconds for workers whose task it has killed, and
ends them after `spark.python.task.killTimeout`.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from typing import Any, Final, Self

from pyspark import SparkContext
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 0.05

_EVENTS_WITHIN: Final = 5.0
"""Seconds for Spark to handle its events, from which it knows which tasks run."""


class RunningTasks:
    """The tasks of the jobs that this thread starts in the `with` block. A client of Spark Connect knows none."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext if hasattr(session, "_jsparkSession") else None
        self._tag = f"ottla-{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        if self._context is not None:
            self._context.addJobTag(self._tag)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self._context is None:
            return
        with contextlib.suppress(Exception) if kind is not None else contextlib.nullcontext():  # the JVM may be gone
            self._context.removeJobTag(self._tag)

    def count(self) -> int:
        """Return how many tasks of the jobs run; 0 if Spark does not say.

        Jobs that were not ended, as when Ctrl-C has ended the call, are cancelled.
        """
        if self._context is None:
            return 0
        with contextlib.suppress(Exception):  # py4j's, and whatever a context that was stopped raises
            self._context.cancelJobsWithTag(self._tag)
        for _ in range(2):  # an interrupt of this thread, by `stop()` of its query, ends the first wait
            with contextlib.suppress(Exception):
                java: Any = self._context._jsc.sc()
                java.listenerBus().waitUntilEmpty(round(_EVENTS_WITHIN * 1_000))
                break
        return self._active(self._context)

    def await_end(self, within: float) -> int:
        """Wait until Spark says that no task runs, *within* so many seconds; return how many still do."""
        end, running = time.monotonic() + within, 0
        while self._context is not None and (running := self._active(self._context)) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY)
        return running

    def _active(self, context: SparkContext) -> int:
        try:
            java: Any = context._jsc.sc()
            tracker = context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in map(int, java.statusTracker().getJobIdsForTag(self._tag))]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            return sum(stage.numActiveTasks for stage in stages if stage is not None)
        except Exception as error:
            _log.debug("Spark does not say which tasks still run: %s", error)
            return 0
