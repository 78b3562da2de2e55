"""Simulated histories: whatever the faults, each record is written once and in order, or reported as failed.

A history is one seed. `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs so many of each kind, `OTTLA_SOAK` 20,000
in all. A failure says how to run its history again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import random_faults

from simulated_producer import Simulated

pytestmark = pytest.mark.unmeasured


def check(simulation: Simulated, sent: Sequence[random_faults.Sent]) -> None:
    random_faults.check_logs(simulation, sent, once=True, in_order=True)


def history(seed: int, delivery_timeout_ms: int) -> str:
    """One history; its trace."""
    scenario = random_faults.Scenario(settings={"delivery.timeout.ms": delivery_timeout_ms})
    return random_faults.records(seed, scenario=scenario, check=lambda simulation, sent: check(simulation, sent))


@pytest.mark.rule("sender.retry.corrects", "sender.retry.sequence", "batch.possibly")
@pytest.mark.parametrize("seeds", random_faults.blocks(16, soak=4_000), ids=str)
@pytest.mark.parametrize("kind", ["patient", "expiring", "refused", "split"])
def test_records_are_written_once_and_in_order_under_any_faults(kind: str, seeds: range) -> None:
    random_faults.run(kind, seeds)


@pytest.mark.parametrize("seeds", random_faults.blocks(16, soak=4_000), ids=str)
def test_without_idempotence_no_acknowledged_record_is_missing(seeds: range) -> None:
    random_faults.run("unnumbered", seeds)
