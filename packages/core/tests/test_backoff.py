"""Backoff grows, stays within its bounds, and scatters."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.network.backoff import Backoff, RetrySchedule
from simulated_producer import simulated


def test_the_wait_doubles_up_to_its_maximum() -> None:
    backoff = Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5)

    assert [round(backoff.delay(n), 6) for n in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_largest_count_of_the_causes_decides_the_next_attempt() -> None:
    schedule = RetrySchedule(Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5))
    assert schedule.allows(0.0)
    for cause in ("failed", "moved", "moved"):
        schedule.count(cause)

    schedule.wait(10.0)
    assert schedule.next_at == pytest.approx(10.4)
    schedule.wait(10.0, "failed")
    assert schedule.next_at == pytest.approx(10.2)
    schedule.reset("moved", "failed")
    schedule.wait(10.0)
    assert (schedule.allows(10.09), schedule.allows(10.11)) == (False, True)
    schedule.allow_now()
    assert schedule.allows(0.0)


@pytest.mark.rule("accumulator.ready.backoff.grows")
@given(st.integers(min_value=0, max_value=10_000))
def test_jitter_is_at_most_20_percent_either_way(failures: int) -> None:
    low = Backoff(initial=0.1, maximum=1.0, random=lambda: 0.0).delay(failures)
    middle = Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5).delay(failures)
    high = Backoff(initial=0.1, maximum=1.0, random=lambda: 1.0).delay(failures)

    assert abs(low - middle * 0.8) < 1e-9
    assert abs(high - middle * 1.2) < 1e-9


def test_a_seeded_program_draws_the_same_numbers_next_to_a_producer() -> None:
    random.seed(7)
    before = random.getstate()
    with simulated(1, 2) as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert delivery.result()
        assert random.getstate() == before
