"""Simulated histories: whatever the weather, each record is written once and in order, or reported as failed.

A history is one seed. `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs so many of each kind, `OTTLA_SOAK` 20,000
in all. A failure says how to run its history again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import storms

from simulated_producer import Simulated

pytestmark = pytest.mark.unmeasured


def judge(world: Simulated, sent: Sequence[storms.Sent]) -> None:
    storms.judge_logs(world, sent, once=True, in_order=True)


def history(seed: int, delivery_timeout_ms: int) -> str:
    """One history; its trace."""
    story = storms.Story(settings={"delivery.timeout.ms": delivery_timeout_ms})
    return storms.records(seed, story=story, judge=lambda world, sent: judge(world, sent))


@pytest.mark.rule("sender.retry.corrects", "sender.retry.sequence", "batch.possibly")
@pytest.mark.parametrize("seeds", storms.blocks(40, soak=4_000), ids=str)
@pytest.mark.parametrize("kind", ["patient", "expiring", "refused", "split"])
def test_records_are_written_once_and_in_order_under_any_faults(kind: str, seeds: range) -> None:
    storms.run(kind, seeds)


@pytest.mark.parametrize("seeds", storms.blocks(40, soak=4_000), ids=str)
def test_without_idempotence_no_acknowledged_record_is_missing(seeds: range) -> None:
    storms.run("unnumbered", seeds)
