"""The shortcut for a lone batch decides as the general way does, in random histories with faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from long_forms import LONG

import histories
import history_plans
from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.lone_batch import LoneBatch
from ottla.network.client import NetworkClient
from ottla.network.cluster import Cluster

SEEDS = range(1, 201 if LONG else 4)


class Compared:
    """Calls of the shortcut; each that takes a batch is compared with what `ready` finds in the same state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        self._accumulator: RecordAccumulator
        self._drain_lone, self._take, self._takes = RecordAccumulator.drain_lone, LoneBatch.take, NetworkClient.takes
        monkeypatch.setattr(RecordAccumulator, "drain_lone", lambda *args, **kwargs: self.drain(*args, **kwargs))
        monkeypatch.setattr(LoneBatch, "take", lambda *args, **kwargs: self.take(*args, **kwargs))
        monkeypatch.setattr(NetworkClient, "takes", lambda *args: self.takes(*args))

    def drain(self, accumulator: RecordAccumulator, cluster: Cluster, **others: Any) -> Any:
        self._accumulator = accumulator
        return self._drain_lone(accumulator, cluster, **others)

    def take(self, lone: LoneBatch, cluster: Cluster, *, takes: Callable[[int], bool], now: float) -> Any:
        batches, accumulator = lone.batches, self._accumulator
        with batches.lock:  # so that no other thread changes the queues between the two
            expires_at = batches.oldest + lone.delivery_timeout
            ready = None if accumulator.keyed_appender._failed else accumulator.ready(cluster, now)
            found = self._take(lone, cluster, takes=takes, now=now)
            if found is not None:
                assert ready is not None
                assert ready.nodes == {found[0]}
                assert not ready.soon | ready.leaderless
                assert now < expires_at
                assert batches.next_check_at == ready.next_check_at
                assert not batches.waiting
                self.taken += 1
        return found

    def takes(self, client: NetworkClient, node: int, now: float) -> bool:
        takes = self._takes(client, node, now)
        assert not takes or client.ready(node, now), "the general way would not send to this broker"
        return takes


@pytest.mark.parametrize("kind", sorted(history_plans.KINDS))
def test_a_lone_batch_is_sent_where_the_search_would_send_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)

    for seed in SEEDS:
        histories.run(kind, seed)

    assert compared.taken or history_plans.KINDS[kind].transactional
