"""Random histories of a whole producer with its threads, in a simulated cluster: every promise holds in each.

`histories.py` plans and runs them, and `invariants.py` has the promises. `tox run -e simulate` runs as many as wanted.
"""

from __future__ import annotations

from importlib.util import find_spec

import attrs
import pytest
from long_forms import LONG

import histories
import history_plans
from invariants import Violation
from ottla_testkit.simulation.topics import SimulatedTopic

pytestmark = pytest.mark.unmeasured

SEEDS = 2_000 if LONG else 8
ENCODERS = ["python", "native"] if find_spec("ottla_accel") is not None else ["python"]
STEP = 1 if LONG else len(ENCODERS)
"""In the short form the encoders share the seeds: every history has one of them."""


@pytest.mark.rule("sender.retry.corrects", "sender.retry.sequence", "batch.possibly")
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", history_plans.KINDS)
def test_every_promise_holds_in_random_histories(kind: str, encoder: str) -> None:
    for seed in range(1 + ENCODERS.index(encoder) * (STEP > 1), SEEDS + 1, STEP):
        histories.run(kind, seed, encoder=encoder)


def test_a_producer_may_wait_as_long_as_a_quota_that_has_ended_asked() -> None:
    histories.run("throttled", 20_033)


@pytest.mark.rule("metadata.again.unused")
def test_a_cluster_set_up_again_before_the_first_record_gets_it() -> None:
    histories.run("replaced", 128_528)


@pytest.mark.rule("metadata.again.only-new")
def test_a_cluster_set_up_again_with_only_new_topics_gets_their_records() -> None:
    histories.run("replaced", 136_106)


@pytest.mark.rule("metadata.again.topics")
def test_a_topic_created_again_while_another_is_new_is_no_other_cluster() -> None:
    histories.run("reshaped", 137_700)


@pytest.mark.rule("metadata.again.topics")
def test_an_id_requested_after_a_topic_was_seen_last_is_kept() -> None:
    histories.run("reshaped", 149_816)


@pytest.mark.rule("metadata.again.topics")
def test_batches_with_an_id_of_before_get_that_of_the_new_cluster() -> None:
    histories.run("replaced", 152_584)


def test_a_batch_that_may_be_written_and_deleted_is_not_called_unwritten() -> None:
    histories.run("trimmed", 128_358)


@pytest.mark.rule("sender.answer.doubt")
def test_a_broker_that_was_replaced_unnoticed_does_not_double_a_record() -> None:
    histories.run("replicated", 131_430)


@pytest.mark.rule("producer.transactions.protocol")
def test_a_transaction_that_may_have_begun_keeps_its_protocol() -> None:
    histories.run("upgraded", 134_493)


def test_an_internal_error_of_a_coordinator_excuses_records() -> None:
    histories.run("marked", 132_228)


def test_a_call_of_a_task_may_wait_while_its_process_is_stopped() -> None:
    histories.run("cancelled", 900_007)


def test_a_producer_is_initialized_again_after_the_end_of_a_denial() -> None:
    histories.run("unaware", 141_369)


def test_the_error_of_a_failed_history_has_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SimulatedTopic.append
    monkeypatch.setattr(SimulatedTopic, "append", lambda *given: (append(*given)[0], 77))  # a false offset

    with pytest.raises(Violation, match="number 0 of epoch 0 was used for other records") as raised:
        histories.run("patient", 3)

    story = str(raised.value)
    assert "configuration: {" in story
    assert "record 0:0 for" in story


def test_all_that_happens_is_planned() -> None:
    plan = history_plans.plan("patient", 1)

    assert plan == history_plans.plan("patient", 1)
    assert plan != history_plans.plan("patient", 2)
    plans = [history_plans.plan("patient", seed) for seed in range(1, 6)]
    without = [histories.run("patient", plan.seed, planned=attrs.evolve(plan, faults=())) for plan in plans]
    assert without != [histories.run("patient", plan.seed, planned=plan) for plan in plans]
