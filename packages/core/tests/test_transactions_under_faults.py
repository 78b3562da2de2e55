"""Simulated histories of transactions: whatever the faults, each is there wholly or not at all, as was reported.

A history is one seed. `OTTLA_SEED` begins elsewhere, `OTTLA_HISTORIES` runs so many of each kind, `OTTLA_SOAK` 5,000 in
all. A failure says how to run its history again.
"""

from __future__ import annotations

import pytest
import random_faults

pytestmark = pytest.mark.unmeasured


@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("seeds", random_faults.blocks(4, soak=500), ids=str)
@pytest.mark.parametrize("scenario", random_faults.TRANSACTION_SCENARIOS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_transactions_are_visible_completely_or_not_at_all(version: int, scenario: str, seeds: range) -> None:
    random_faults.run(f"transactions-{version}-{scenario}", seeds)


@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("seeds", random_faults.blocks(4, soak=500), ids=str)
def test_a_producer_that_fails_fatally_leaves_no_partial_transaction(seeds: range) -> None:
    random_faults.run("transactions-old", seeds)
