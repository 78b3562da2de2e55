"""The micro-batches that this process has written, each under a name that stands for one frame of each micro-batch.

A function of `foreachBatch` may write several frames. If two of them had one name, the ledger or marker would have the
batch after the first frame, and the second one would be skipped. So the second call is refused.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "sql.streaming.runId"
_JOB_GROUP: Final = "spark.jobGroup.id"
"""Has the run's id, too, where Spark does not set `sql.streaming.runId`."""

Name: TypeAlias = tuple[str, ...]
"""What the rows of a query are written under, with the cluster."""


@attrs.frozen(kw_only=True)
class MicroBatch:
    """A micro-batch of a query; a query that is started again has another `run`."""

    query: str
    run: str | None
    batch: int

    @classmethod
    def of_this_thread(cls, session: SparkSession, batch: int) -> Self | None:
        """Return the micro-batch whose `foreachBatch` function runs in this thread, or None outside a query."""
        context = session.sparkContext
        query = context.getLocalProperty(QUERY_ID)
        if not query:
            return None
        run = context.getLocalProperty(_RUN_ID) or context.getLocalProperty(_JOB_GROUP)
        return cls(query=str(query), run=run, batch=batch)


def cluster_name(cluster_id: str | None, settings: Mapping[str, Any]) -> str:
    """Return the cluster's id, or its bootstrap servers in any order if its brokers return none."""
    servers = {each.strip() for each in str(settings.get("bootstrap.servers")).split(",")}
    return cluster_id or ",".join(sorted(servers))


@contextmanager
def only_call(
    name: Name, micro_batch: MicroBatch, *, refusal: Exception, source: Sequence[object] = ()
) -> Iterator[None]:
    """Raise *refusal* if a call in this process writes or has written the micro-batch under this name.

    A call that failed does not count, and neither does one that has ended and had the same objects as *source*.
    """
    mine = _Call(micro_batch, tuple(weakref.ref(each) for each in source))
    with _lock:
        before = _calls.get(name)
        if before is not None and before.micro_batch == micro_batch and not before.has_written(source):
            raise refusal
        _calls[name] = mine
    try:
        yield
    except BaseException:
        with _lock:
            if _calls.get(name) is mine:  # otherwise another run of the query has begun
                del _calls[name]
                if before is not None and before.micro_batch == micro_batch:
                    _calls[name] = before
        raise
    mine.done = True


@attrs.define(eq=False)
class _Call:
    """A call that writes a micro-batch, `done` once it is written; the objects of its source are not kept alive."""

    micro_batch: MicroBatch
    source: Sequence[weakref.ref[object]]
    done: bool = False

    def has_written(self, source: Sequence[object]) -> bool:
        """Return whether the call is done, and *source* are its own objects."""
        same = len(source) == len(self.source) and all(
            its() is each for its, each in zip(self.source, source, strict=True)
        )
        return self.done and bool(source) and same


_lock: Final = threading.Lock()
_calls: Final[dict[Name, _Call]] = {}
