"""The shortcut for a lone batch decides as the general way does, in random histories with faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from long_forms import LONG

import histories
import history_plans
from machine import Machine, Queues, cluster_of
from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.lone_batch import LoneBatch
from ottla.accumulator.partition_queue import LONG_AGO
from ottla.accumulator.sequences import Sequences
from ottla.network.client import NetworkClient
from ottla.network.cluster import Cluster
from ottla.sender.sender import Sender
from ottla_testkit.simulation import SimulatedCluster

SEEDS = range(1, 201 if LONG else 4)


class Compared:
    """Calls of the shortcut; each that takes a batch is compared with what `ready` finds in the same state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        self._accumulator: RecordAccumulator
        self._drain_lone, self._take, self._takes = (
            RecordAccumulator.drain_lone,
            LoneBatch.take,
            NetworkClient.takes_records,
        )
        monkeypatch.setattr(RecordAccumulator, "drain_lone", lambda *args, **kwargs: self.drain(*args, **kwargs))
        monkeypatch.setattr(LoneBatch, "take", lambda *args, **kwargs: self.take(*args, **kwargs))
        monkeypatch.setattr(NetworkClient, "takes_records", lambda *args: self.takes(*args))

    def drain(self, accumulator: RecordAccumulator, cluster: Cluster, **others: Any) -> Any:
        self._accumulator = accumulator
        return self._drain_lone(accumulator, cluster, **others)

    def take(self, lone: LoneBatch, cluster: Cluster, *, takes: Callable[[int], bool], now: float) -> Any:
        batches, accumulator = lone.batches, self._accumulator
        with batches.lock:  # so that no other thread changes the queues between the two
            oldest = batches.oldest
            ready = None if accumulator.keyed_appender._failed else accumulator.ready(cluster, now)
            batches.oldest, batches.next_check_at = oldest, LONG_AGO
            found = self._take(lone, cluster, takes=takes, now=now)
            if found is not None:
                assert ready is not None
                assert ready.nodes == (found[0],)
                assert not ready.soon
                assert not ready.leaderless
                assert now < found[1].created_at + lone.times.delivery_timeout
                assert list(batches.all) == [found[1]]
                assert batches.next_check_at == ready.next_check_at
                assert not batches.waiting
                self.taken += 1
        return found

    def takes(self, client: NetworkClient, node: int, now: float) -> bool:
        takes = self._takes(client, node, now)
        assert not takes or client.ready(node, now, for_records=True), "the general way would not send to this broker"
        return takes


@pytest.mark.parametrize("kind", sorted(history_plans.KINDS))
def test_a_lone_batch_is_sent_where_the_search_would_send_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)

    for seed in SEEDS:
        histories.run(kind, seed)

    assert compared.taken or history_plans.KINDS[kind].transactional


@pytest.mark.parametrize("kind", sorted(history_plans.KINDS))
def test_while_all_batches_are_in_flight_a_search_would_find_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    shortcut = Sender._send_lone_batch

    def send(sender: Sender, now: float) -> float | None:
        nonlocal compared
        accumulator = sender._accumulator
        batches = accumulator._batches
        all_in_flight = len(sender._in_flight) == accumulator.incomplete > 0
        found = shortcut(sender, now)
        with batches.lock:  # so that no other thread changes the queues meanwhile
            if all_in_flight and found is not None and not batches.has_unchecked:
                before = batches.oldest, batches.next_check_at
                ready = accumulator.ready(sender._metadata.cluster, now)
                assert (ready.nodes, ready.soon, ready.leaderless) == ((), (), ())
                incomplete = accumulator.incomplete
                accumulator.expire(now)
                assert accumulator.incomplete == incomplete
                assert found == min(before[1], sender._in_flight.next_expiry)
                assert found <= ready.next_check_at
                batches.oldest, batches.next_check_at = before
                compared += 1
        return found

    monkeypatch.setattr(Sender, "_send_lone_batch", send)

    for seed in SEEDS:
        histories.run(kind, seed)

    assert compared or history_plans.KINDS[kind].transactional


def lone(queues: Queues, cluster: Cluster) -> list[ProducerBatch]:
    """The batch that the shortcut takes, in a list; empty: it leaves everything to the general way."""
    drained = queues.accumulator.drain_lone(cluster, takes=lambda _node: True, now=queues.clock())
    return [] if drained is None else [*drained[1]]


def test_only_a_batch_that_is_the_only_one_is_lone() -> None:
    queues, cluster = Queues(linger=0.0), cluster_of(1, 1)
    assert lone(queues, cluster) == []

    queues.append(partition=0)
    queues.append(partition=1)
    assert lone(queues, cluster) == []

    [first, second] = queues.accumulator.drain(cluster, [1], max_size=1_000, now=queues.clock())[1]
    queues.append(partition=0)
    assert lone(queues, cluster) == []

    for batch in [first, second]:
        queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    [third] = lone(queues, cluster)
    assert (third.partition, third.closed) == (0, True)


def test_a_lone_batch_that_has_expired_is_not_sent() -> None:
    queues, cluster = Queues(linger=0.0), cluster_of(1)
    delivery = queues.append()

    queues.clock.advance(queues.accumulator._delivery_timeout)

    assert lone(queues, cluster) == []
    queues.accumulator.expire(queues.clock())
    assert delivery.done()


def test_after_a_lone_batch_the_next_check_is_at_its_time_out() -> None:
    queues = Queues(linger=0.0, delivery_timeout=120.0)
    delivery = queues.append()

    assert lone(queues, cluster_of(1)) == [delivery._batch]
    assert queues.accumulator.queue_checks.next_check_at == delivery._batch.created_at + 120.0


def test_a_lone_batch_that_cannot_be_encoded_fails_in_the_shortcut() -> None:
    queues = Queues(linger=0.0)
    delivery = queues.append()

    def fail(*_arguments: object) -> None:
        raise ValueError("no")

    queues.accumulator._drained.seal = fail  # type: ignore[assignment]

    assert queues.accumulator.drain_lone(cluster_of(1), takes=lambda _node: True, now=queues.clock()) == (1, ())
    assert "could not be encoded" in str(delivery.exception())


def test_a_lone_batch_without_a_producer_id_or_a_leader_is_not_sent() -> None:
    sequences = Sequences(off=True)
    queues = Queues(linger=0.0, sequences=sequences)
    queues.append()

    assert lone(queues, Cluster(brokers={})) == []
    sequences.off = False
    assert lone(queues, cluster_of(1)) == []
    sequences.off = True
    assert len(lone(queues, cluster_of(1))) == 1


def test_an_awaited_record_is_lone_after_each_metadata_response() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    machine = Machine(cluster)
    taken: list[bool] = []
    take = LoneBatch.take

    def noted(lone: LoneBatch, *arguments: Any, **keywords: Any) -> Any:
        found = take(lone, *arguments, **keywords)
        taken.append(found is not None)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoneBatch, "take", noted)
        for _ in range(4):
            machine.metadata.request_update()
            for _ in range(3):
                machine.send(b"value")
                machine.run_until_idle()
                machine.clock.advance(1.0)

    assert sum(taken) >= 8


def test_a_record_queued_while_a_lone_batch_leaves_goes_in_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1, 1)
    machine = Machine(cluster)
    machine.send(b"connects to the broker")
    machine.run_until_idle()
    drain_lone, poll = RecordAccumulator.drain_lone, NetworkClient.poll
    in_flight_at_polls: list[int] = []

    def drain(accumulator: RecordAccumulator, *arguments: Any, **keywords: Any) -> Any:
        found = drain_lone(accumulator, *arguments, **keywords)
        if found is not None:
            machine.send(b"of another thread", partition=1)
        return found

    def note(client: NetworkClient, *arguments: Any) -> Any:
        in_flight_at_polls.append(len(machine.sender._in_flight))
        return poll(client, *arguments)

    monkeypatch.setattr(RecordAccumulator, "drain_lone", drain)
    monkeypatch.setattr(NetworkClient, "poll", note)
    machine.send(b"lone")
    machine.round()

    assert in_flight_at_polls == [2]
