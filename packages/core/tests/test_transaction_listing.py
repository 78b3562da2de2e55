"""What the state of a transactional id means: whether readers wait for it, and what happens next."""

from __future__ import annotations

import json

import attrs
import pytest

from ottla.cli.transactions import show_transactions, transactions_document
from ottla.transactions import FoundTransactions, TransactionListing

BEGUN = 1_000_000
LASTS = 60_000


def listing(state: str) -> TransactionListing:
    return TransactionListing(
        transactional_id="orders-1",
        state=state,
        producer_id=7,
        epoch=0,
        started_ms=BEGUN,
        timeout_ms=LASTS,
        partitions=(),
        offsets=(),
    )


@pytest.mark.parametrize(
    ("state", "is_open", "event"),
    [
        ("Empty", False, "nothing is open"),
        ("PrepareCommit", True, "it is being committed"),
        ("PrepareAbort", True, "it is being aborted"),
        ("PrepareEpochFence", True, "it is being aborted"),
        ("CompleteCommit", False, "the last one was committed"),
        ("CompleteAbort", False, "the last one was aborted"),
        ("Dead", False, "nothing is open"),
        ("a state of a later Kafka", False, "nothing is open"),
    ],
)
def test_readers_wait_for_a_transaction_until_its_markers_are_written(state: str, is_open: bool, event: str) -> None:
    assert listing(state).open is is_open
    assert listing(state).next_event(now_ms=BEGUN) == event


@pytest.mark.parametrize(
    ("passed_ms", "event"), [(0, "in 60 s"), (59_000, "in 1 s"), (LASTS, "any moment"), (LASTS + 5_000, "any moment")]
)
def test_an_ongoing_transaction_ends_by_its_writer_or_its_timeout(passed_ms: int, event: str) -> None:
    ongoing = listing("Ongoing")

    assert ongoing.open
    assert ongoing.next_event(now_ms=BEGUN + passed_ms).endswith(f"else its coordinator aborts it {event}")


def test_a_group_that_the_user_may_not_describe_is_shown_as_that(capsys: pytest.CaptureFixture[str]) -> None:
    found = FoundTransactions([attrs.evolve(listing("Empty"), offsets_denied=True)], {})
    show_transactions(found, "orders")

    assert "this user may not describe the group" in capsys.readouterr().out
    [entry] = json.loads(transactions_document(found))["transactional_ids"]
    assert entry["offsets_denied"] is True
