"""Entries of the ledger that are not written: what the error says, and whether they can still get there. No broker."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ottla.errors import ErrorCode, TransactionTimeoutError
from ottla_spark.exactly_once.errors import EntryNotWrittenError, LeaseLostError
from ottla_spark.exactly_once.ledger.batches import LARGEST_ENTRY
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.ledger.writer import write_entry

LEASE = Lease(name="orders", producer_id=1, epoch=5, level=2)


@attrs.define
class Partition:
    """The ledger's partition, which takes no entry."""

    code: ErrorCode | None
    topic: str = "ledger"
    partition: int = 0

    def ask(self, *_: object, **__: object) -> tuple[None, ErrorCode]:
        """See `LedgerPartition`."""
        if self.code is None:
            raise TransactionTimeoutError("broker 1 did not answer Produce")
        return None, self.code


def refusal(kind: type[Exception], code: ErrorCode | None, value: bytes = b"{}") -> Exception:
    nobody: Any = None  # no request is sent to another place
    partition: Any = Partition(code)
    with pytest.raises(kind) as caught:
        write_entry(nobody, partition, LEASE, value)
    return caught.value


def test_an_entry_without_a_response_names_the_topic_and_the_replicas() -> None:
    said = str(refusal(EntryNotWrittenError, None))

    assert "of 'orders' could not be written in time: broker 1 did not answer Produce" in said
    assert "min.insync.replicas, the ledger topic 'ledger' takes no entry" in said


def test_a_refused_entry_names_the_missing_right_in_a_sentence() -> None:
    said = str(refusal(EntryNotWrittenError, ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert said.endswith("it needs Write. The user needs the right Write for topic 'ledger'")


def test_an_entry_of_too_many_tasks_is_not_sent() -> None:
    assert "Use fewer tasks" in str(refusal(EntryNotWrittenError, ErrorCode.NONE, bytes(LARGEST_ENTRY)))


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "or its lease expired, as the batch took longer than transactional.id.expiration.ms",
        ),
        (ErrorCode.INVALID_PRODUCER_EPOCH, "or this driver paused for too long"),
    ],
)
def test_a_lease_that_does_not_count_any_more_says_what_can_be_the_reason(code: ErrorCode, cause: str) -> None:
    lost = refusal(LeaseLostError, code)

    assert isinstance(lost, LeaseLostError)
    assert lost.refused
    assert cause in str(lost)
