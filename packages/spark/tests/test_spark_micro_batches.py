"""Two calls for one micro-batch: the second one would be skipped as written already, so it is refused."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from ottla_spark.sink.micro_batches import MicroBatch, Name, cluster_name, only_call

BATCH = MicroBatch(query="q", run="r", batch=7)


class Refused(Exception):
    """The caller's error."""


class Frame:
    """A frame of Spark."""


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Name:
    return "ledger", "cluster", request.node.name


def written(name: Name, batch: MicroBatch = BATCH, source: Sequence[object] = ()) -> bool:
    """Whether a call may write, and ends well then."""
    try:
        with only_call(name, batch, refusal=Refused(), source=source):
            return True
    except Refused:
        return False


RUN_ID, JOB_GROUP = "sql.streaming.runId", "spark.jobGroup.id"


@pytest.mark.parametrize(
    ("properties", "run"),
    [
        ({RUN_ID: "r", JOB_GROUP: "set by the function"}, "r"),
        ({JOB_GROUP: "r"}, "r"),  # Spark sets no other then
        ({}, None),
    ],
)
def test_the_run_of_a_query_is_known_though_a_function_has_a_job_group(
    properties: dict[str, str], run: str | None
) -> None:
    properties = {"sql.streaming.queryId": "q", **properties}
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=properties.get))

    assert MicroBatch.of_this_thread(session, 7) == MicroBatch(query="q", run=run, batch=7)


def test_a_second_call_for_a_micro_batch_is_refused_however_often(name: Name) -> None:
    assert [written(name) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("changed", [{"batch": 8}, {"run": "started again"}, {"query": "another"}])
def test_the_next_batch_or_run_or_query_is_not_a_second_call(name: Name, changed: dict[str, Any]) -> None:
    other = attrs.evolve(BATCH, **changed)

    assert [written(name), written(name, other), written(name, other)] == [True, True, False]


def test_calls_with_other_names_or_clusters_are_not_affected(name: Name) -> None:
    others: list[Name] = [("marker", *name[1:]), ("ledger", "another cluster", name[2]), (*name[:2], f"{name[2]}-2")]

    assert all(written(each) for each in [name, *others])


def test_a_call_that_failed_may_be_repeated(name: Name) -> None:
    with contextlib.suppress(ZeroDivisionError), only_call(name, BATCH, refusal=Refused()):
        raise ZeroDivisionError

    assert [written(name), written(name)] == [True, False]


def test_a_call_is_refused_while_another_one_writes(name: Name) -> None:
    sink, frame = Frame(), Frame()
    with only_call(name, BATCH, refusal=Refused(), source=(sink, frame)):
        during = written(name, source=(sink, frame))
        another_run = written(name, attrs.evolve(BATCH, run="started again"))

    assert (during, another_run) == (False, True)


def test_a_run_that_ends_late_does_not_forget_the_calls_of_the_next(name: Name) -> None:
    with contextlib.suppress(ZeroDivisionError), only_call(name, attrs.evolve(BATCH, run="stopped"), refusal=Refused()):
        written(name)
        raise ZeroDivisionError

    assert not written(name)


def test_the_same_frame_in_the_same_sink_may_be_written_again(name: Name) -> None:
    """Its rows are those that are in Kafka; a function may repeat the call after what follows it has failed."""
    sink, frame = Frame(), Frame()
    with contextlib.suppress(ZeroDivisionError), only_call(name, BATCH, refusal=Refused(), source=(sink, frame)):
        written(name, source=(sink, frame))
        raise ZeroDivisionError
    again = [written(name, source=(sink, frame)) for _ in range(3)]
    others = [written(name, source=source) for source in ((sink, Frame()), (Frame(), frame), ())]
    with contextlib.suppress(ZeroDivisionError), only_call(name, BATCH, refusal=Refused(), source=(sink, frame)):
        raise ZeroDivisionError

    assert again == [True, True, True]
    assert others == [False, False, False]
    assert not written(name, source=(sink, Frame())), "a repetition that fails leaves the first call written"


def test_a_written_frame_is_not_kept_alive(name: Name) -> None:
    sink, frame = Frame(), Frame()
    written(name, source=(sink, frame))
    gone = weakref.ref(frame)
    del frame
    gc.collect()

    assert gone() is None
    assert not written(name, source=(sink, Frame()))


def test_a_cluster_is_known_by_its_id_or_by_its_servers_in_any_order() -> None:
    servers = [{"bootstrap.servers": text} for text in ("a:1,b:2", "b:2, a:1", "a:1")]

    assert {cluster_name("x", each) for each in servers} == {"x"}
    assert len({cluster_name(None, each) for each in servers}) == 2
