"""Slow brokers: those that left batches waiting for too long."""

from __future__ import annotations

import pytest

from ottla.sender.node_latency import NodeLatencyStats


class Stats:
    """Delays of one second, and the number of reported changes."""

    def __init__(self, timeout: float = 1.0) -> None:
        self.stats = NodeLatencyStats(timeout)
        self.changes = 0
        self.stats.on_change = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def note(self, *, wanted: str, served: str = "", now: float) -> set[int]:
        """Note brokers, one digit each; the slow ones."""
        self.stats.note(wanted=map(int, wanted), served={int(node) for node in served}, now=now)
        return set(self.stats.slow)


@pytest.mark.rule("partitioner.slow")
def test_a_broker_that_takes_nothing_for_the_timeout_is_slow() -> None:
    stats = Stats()

    assert stats.note(wanted="12", served="2", now=10.0) == set()
    assert stats.note(wanted="12", served="2", now=11.0) == set()
    assert stats.note(wanted="12", served="2", now=11.1) == {1}


@pytest.mark.rule("partitioner.slow.over")
def test_a_broker_that_takes_a_batch_is_not_slow_and_starts_over() -> None:
    stats = Stats()
    stats.note(wanted="1", now=0.0)
    assert stats.note(wanted="1", now=5.0) == {1}

    assert stats.note(wanted="1", served="1", now=5.1) == set()
    assert stats.note(wanted="1", now=5.2) == set()
    assert stats.note(wanted="1", now=6.2) == set()
    assert stats.note(wanted="1", now=6.3) == {1}


@pytest.mark.rule("partitioner.slow.over")
def test_a_broker_without_waiting_batches_is_not_slow() -> None:
    stats = Stats()
    stats.note(wanted="1", now=0.0)
    assert stats.note(wanted="1", now=5.0) == {1}

    assert stats.note(wanted="", now=5.1) == set()
    assert stats.note(wanted="1", now=5.2) == set()


@pytest.mark.rule("partitioner.slow.over")
def test_a_timeout_of_zero_makes_no_broker_slow() -> None:
    stats = Stats(0.0)
    stats.note(wanted="1", now=0.0)

    assert stats.note(wanted="1", now=1e6) == set()
    assert stats.changes == 0


@pytest.mark.rule("partitioner.news")
def test_only_changes_are_counted() -> None:
    stats = Stats()
    stats.note(wanted="12", served="2", now=0.0)
    assert stats.changes == 0
    for now in (2.0, 3.0, 4.0):
        stats.note(wanted="12", served="2", now=now)
    assert stats.changes == 1

    stats.note(wanted="12", served="12", now=5.0)
    assert stats.changes == 2


def test_the_slow_brokers_are_known_when_a_change_is_reported() -> None:
    stats = NodeLatencyStats(1.0)
    seen: list[frozenset[int]] = []
    stats.on_change = lambda: seen.append(stats.slow)
    stats.note(wanted=[1], served=(), now=0.0)
    stats.note(wanted=[1], served=(), now=2.0)

    assert seen == [{1}]
