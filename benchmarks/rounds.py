"""Rounds of runs with one broker: a fresh process and a fresh topic for each, and a check of the records that arrived.

Topics with very many partitions are used again.

In every round each peer runs once, in rotating order, so that a temporary disturbance of the machine affects all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import attrs
import click
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # not in its __all__
from confluent_kafka.cimpl import NewTopic
from stopwatch import Measurement
from workload import Workload

ANSWER_SECONDS: Final = 30.0
REMOVED_IN_A_SECOND: Final = 1_000
"""Maximum partitions: each has three open files until the broker has removed it, which takes a while."""

USED_AGAIN_FROM: Final = 1_000
"""Topics with more partitions are used for all runs: a broker takes a minute and a half to create the files of 5,000
partitions, whatever client wants it to, and the next topic competes with the deletion of the last one."""

PEERS_SCRIPT: Final = Path(__file__).with_name("peers.py")


@attrs.frozen(kw_only=True)
class Run:
    """One run. A run with a `problem` is invalid."""

    peer: str
    round: int
    records: int
    measurement: Measurement | None = None
    problem: str | None = None

    @property
    def rate(self) -> float:
        """Records per second."""
        assert self.measurement is not None
        return self.records / self.measurement.seconds

    @property
    def cpu_per_million(self) -> float:
        """Seconds of processor time for a million records."""
        assert self.measurement is not None
        return self.measurement.cpu_seconds * 1e6 / self.records


class Broker:
    """The benchmark's own requests to the cluster."""

    def __init__(self, servers: str, security: Mapping[str, Any]) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0, **security})

    def create_topic(self, partitions: int) -> str:
        """Create an empty topic; return its name once it has leaders."""
        topic = f"ottla-bench-{uuid.uuid4().hex[:12]}"
        created = self._admin.create_topics(
            [NewTopic(topic, num_partitions=partitions)], operation_timeout=ANSWER_SECONDS
        )
        created[topic].result(ANSWER_SECONDS)
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self._led(topic, partitions):
            if time.monotonic() > deadline:
                raise click.ClickException(f"the new topic {topic} has no leaders after {ANSWER_SECONDS:g} s")
            time.sleep(0.1)
        return topic

    def delete_topic(self, topic: str) -> None:
        """Remove a topic, so that runs do not fill the disk."""
        self._admin.delete_topics([topic])[topic].result(ANSWER_SECONDS)

    def held(self, topic: str, partitions: int) -> int:
        """Return how many records the topic holds, by its end offsets."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, partition): latest for partition in range(partitions)}
        answers = self._admin.list_offsets(asked, request_timeout=ANSWER_SECONDS)
        return sum(answer.result(ANSWER_SECONDS).offset for answer in answers.values())

    def _led(self, topic: str, partitions: int) -> bool:
        # Not by a request for offsets: librdkafka caches a missing leader for half a minute.
        known = self._admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions
        return len(known) == partitions and all(partition.leader >= 0 for partition in known.values())


def run_rounds(
    broker: Broker,
    workloads: Mapping[str, Workload],
    *,
    rounds: int,
    timeout: float,
    report: Callable[[Run], object],
) -> Sequence[Run]:
    """Run every peer's workload *rounds* times, after one round that only warms the broker up.

    A run may take *timeout* seconds.
    """
    partitions = max(workload.partitions for workload in workloads.values())
    with _topic(broker, partitions) if partitions > USED_AGAIN_FROM else nullcontext() as shared:
        runs: list[Run] = []
        before = 0
        for number, peer in _order(list(workloads), rounds):
            with _topic(broker, partitions) if shared is None else nullcontext(shared) as topic:
                run = run_once(
                    broker, peer, workloads[peer], topic=topic, before=before, number=number, timeout=timeout
                )
                before = 0 if shared is None else broker.held(shared, partitions)
            report(run)
            if number:
                runs.append(run)
        return runs


@contextmanager
def _topic(broker: Broker, partitions: int) -> Iterator[str]:
    topic = broker.create_topic(partitions)
    try:
        yield topic
    finally:
        broker.delete_topic(topic)
        time.sleep(partitions / REMOVED_IN_A_SECOND)


def run_once(
    broker: Broker, peer: str, workload: Workload, *, topic: str, before: int, number: int, timeout: float
) -> Run:
    """Run one workload, with a topic that holds so many records *before*."""
    run = Run(peer=peer, round=number, records=workload.records)
    try:
        measurement = _measure(broker.servers, peer, topic, workload, timeout)
        problem = _mismatch(broker, topic, workload, measurement, before=before)
        return attrs.evolve(run, measurement=measurement, problem=problem)
    except (subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return attrs.evolve(run, problem=(said if isinstance(said, str) else said.decode()).strip()[-1_000:])


def _order(peers: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    for number in range(rounds + 1):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            yield number, peer


def _measure(servers: str, peer: str, topic: str, workload: Workload, timeout: float) -> Measurement:
    command = [sys.executable, str(PEERS_SCRIPT), peer, servers, topic, json.dumps(attrs.asdict(workload))]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=True
    )
    return Measurement(**json.loads(ended.stdout))


def _mismatch(broker: Broker, topic: str, workload: Workload, measurement: Measurement, *, before: int) -> str | None:
    """Return why a run is invalid: the numbers of records sent, held by the broker and called back differ.

    The topic held so many records *before*.
    """
    sent, called_back = measurement.sent, measurement.called_back
    deadline = time.monotonic() + (ANSWER_SECONDS if workload.acks == "0" else 0.0)  # the client did not wait for it
    while (held := broker.held(topic, workload.partitions) - before) < sent and time.monotonic() < deadline:
        time.sleep(0.1)
    if held != sent:
        return f"{sent} records were sent, the topic got {held}"
    if called_back is not None and called_back != sent:
        return f"{sent} records were sent, {called_back} callbacks ran"
    return None
