"""Shrinking of a history that fails: fewer faults, calls and records, as long as it breaks the same promise."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs

import histories
from history_plans import Call, Plan, Send, Transaction
from ottla_testkit.simulation.planned_faults import FaultyRequests
from ottla_testkit.simulation.planned_network import PlannedRequestFault

T = TypeVar("T")

MAX_RUNS: Final = 600
"""Histories that one shrinking runs at most."""

_NUMBERS: Final = re.compile(r"[\d.:]+")


def failure(plan: Plan, *, encoder: str = "python") -> str | None:
    """Run a history in a forked process; return the first line of its error, without numbers. None: it passes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            histories.run("shrunk", plan.seed, encoder=encoder, planned=plan)
        except Exception as error:
            os.write(writing, f"{type(error).__name__}: {error}".splitlines()[0].encode()[:4_000])
        finally:
            os._exit(0)  # threads of a failed history wait forever
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    os.waitpid(child, 0)
    return _NUMBERS.sub("#", text.split(" (a round failed")[0]) or None


def shrunk(plan: Plan, *, encoder: str = "python", fails: Callable[[Plan], str | None] | None = None) -> Plan:
    """Return a smaller plan that fails in the same way; the plan itself if it does not fail."""
    run = fails or (lambda smaller: failure(smaller, encoder=encoder))
    wanted = run(plan)
    if wanted is None:
        return plan
    runs = 0

    def still_fails(smaller: Plan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= MAX_RUNS and run(smaller) == wanted

    before = None
    while plan != before and runs < MAX_RUNS:
        before = plan
        for smaller in _simpler(plan):
            if still_fails(smaller):
                plan = smaller
        plan = _fewer_faults(plan, still_fails)
        plan = _fewer_calls(plan, still_fails)
    return plan


def fewest(items: Sequence[T], enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return few of these items that are *enough*, by leaving out ever smaller parts of them."""
    part = max(1, len(items) // 2)
    while items:
        start = 0
        while start < len(items):
            rest = [*items[:start], *items[start + part :]]
            if enough(rest):
                items = rest
            else:
                start += part
        if part == 1:
            break
        part //= 2
    return items


def _simpler(plan: Plan) -> Iterator[Plan]:
    """Yield plans of which one thing is simpler."""
    yield attrs.evolve(plan, switching=0.0)
    yield attrs.evolve(plan, versions=[{} for _ in plan.versions])
    yield attrs.evolve(plan, hints=[False for _ in plan.hints])
    yield attrs.evolve(plan, min_insync=None)
    yield attrs.evolve(plan, close_timeout=None)
    if len(plan.programs) > 1:
        for left_out in range(len(plan.programs)):
            programs = [calls for number, calls in enumerate(plan.programs) if number != left_out]
            yield attrs.evolve(plan, programs=programs)


def _fewer_faults(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    plan = attrs.evolve(plan, faults=fewest(plan.faults, lambda some: still_fails(attrs.evolve(plan, faults=some))))
    for place, fault in enumerate(plan.faults):
        if isinstance(fault, FaultyRequests):
            plan = _fewer(fault.request_faults, partial(_with_request_faults, plan, place), still_fails)
    return plan


def _fewer_calls(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    for number, calls in enumerate(plan.programs):
        plan = _fewer(calls, partial(_with_calls, plan, number), still_fails)
        for place, call in enumerate(plan.programs[number]):
            if isinstance(call, Transaction):
                plan = _fewer(call.sends, partial(_with_sends, plan, number, place), still_fails)
    return plan


def _fewer(items: Sequence[T], made: Callable[[Sequence[T]], Plan], still_fails: Callable[[Plan], bool]) -> Plan:
    """Return the plan that is *made* of the fewest items that still fail."""
    return made(fewest(items, lambda some: still_fails(made(some))))


def _with_request_faults(plan: Plan, place: int, request_faults: Sequence[PlannedRequestFault]) -> Plan:
    fault = attrs.evolve(plan.faults[place], request_faults=tuple(request_faults))  # type: ignore[call-arg]
    return attrs.evolve(plan, faults=_replaced(plan.faults, place, fault))


def _with_calls(plan: Plan, number: int, calls: Sequence[Call]) -> Plan:
    return attrs.evolve(plan, programs=_replaced(plan.programs, number, calls))


def _with_sends(plan: Plan, number: int, place: int, sends: Sequence[Send]) -> Plan:
    calls = plan.programs[number]
    call = attrs.evolve(calls[place], sends=sends)  # type: ignore[call-arg]
    return _with_calls(plan, number, _replaced(calls, place, call))


def _replaced(items: Sequence[T], place: int, item: T) -> Sequence[T]:
    return [*items[:place], item, *items[place + 1 :]]
