"""A history that fails is shrunk to the few faults and calls that break the promise."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import shrinking

import history_plans
from history_plans import Plan, Send
from ottla_testkit.simulation.planned_faults import CutConnections

pytestmark = pytest.mark.unmeasured


def test_only_what_is_needed_is_left() -> None:
    def enough(some: Sequence[int]) -> bool:
        return {3, 17, 18} <= set(some)

    assert shrinking.fewest(list(range(40)), enough) == [3, 17, 18]
    assert shrinking.fewest(list(range(40)), lambda _some: True) == []


def test_a_plan_is_shrunk_to_the_fault_and_the_call_that_fail() -> None:
    plan = history_plans.plan("patient", 2)
    cut = CutConnections(at=1.0, broker=2)
    plan = attrs.evolve(plan, faults=[*plan.faults, cut])

    def fails(some: Plan) -> str | None:
        large = any(isinstance(call, Send) and call.size > 50 for calls in some.programs for call in calls)
        return "wrong" if large and cut in some.faults else None

    shrunk = shrinking.shrunk(plan, fails=fails)

    assert shrunk.faults == [cut]
    assert shrunk.events == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # since Python 3.12
def test_a_plan_that_does_not_fail_stays_as_it_is() -> None:
    plan = history_plans.plan("faultless", 1)

    assert shrinking.shrunk(plan) is plan
