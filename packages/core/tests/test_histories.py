"""Random histories of a whole producer with its threads, in a simulated cluster: every promise holds in each.

`histories.py` plans and runs them, and `invariants.py` has the promises. `tox run -e simulate` runs as many as wanted.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import attrs
import pytest

import histories
from invariants import Violation
from ottla_testkit.simulation.brokers import SimulatedTopic

pytestmark = pytest.mark.unmeasured

SEEDS = 2_000 if os.environ.get("OTTLA_SOAK", "") not in ("", "0") else 20
ENCODERS = ["python", "native"] if find_spec("ottla_accel") is not None else ["python"]


@pytest.mark.rule("sender.retry.corrects", "sender.retry.sequence", "batch.possibly")
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", histories.KINDS)
def test_every_promise_holds_in_random_histories(kind: str, encoder: str) -> None:
    for seed in range(1, SEEDS + 1):
        histories.run(kind, seed, encoder=encoder)


def test_the_error_of_a_failed_history_has_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SimulatedTopic.append
    monkeypatch.setattr(SimulatedTopic, "append", lambda *given: (append(*given)[0], 77))  # a false offset

    with pytest.raises(Violation, match="number 0 of epoch 0 was used for other records") as raised:
        histories.run("patient", 3)

    story = str(raised.value)
    assert "configuration: {" in story
    assert "record 0:0 for" in story


def test_all_that_happens_is_planned() -> None:
    plan = histories.plan("patient", 1)

    assert plan == histories.plan("patient", 1)
    assert plan != histories.plan("patient", 2)
    calm = attrs.evolve(plan, faults=())
    assert histories.run("patient", 1, planned=calm) != histories.run("patient", 1)
