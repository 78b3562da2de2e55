"""State of all transactional ids with one prefix: open or ended transactions, and committed offsets of their groups.

For an operator who investigates a writer; changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError
from ottla.protocol.messages.describe_transactions import TransactionState
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, BlockingClient, blocking_client
from ottla.transactions.admin.descriptions import described_everywhere, partitions_of
from ottla.transactions.admin.found_transactions import FoundTransactions, log_missing
from ottla.transactions.admin.group_offsets import GroupOffset, committed_by_group


@attrs.frozen(kw_only=True)
class TransactionListing:
    """The state of one transactional id. `state` is Kafka's name for it, such as `Ongoing`.

    Times are milliseconds since 1970, or durations in milliseconds.

    `partitions` are those that the open transaction has written to; `offsets` are those that the group of the same name
    has committed, where writers such as Spark's keep their markers.
    With `offsets_denied`, the user may not describe the group, and `offsets` is empty.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    started_ms: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    offsets: tuple[GroupOffset, ...]
    offsets_denied: bool = False

    @property
    def open(self) -> bool:
        """Return whether an open transaction blocks readers of committed records."""
        return self.state == "Ongoing" or self.state.startswith("Prepare")

    def next_event(self, *, now_ms: int) -> str:
        """The transaction's next event, as a short phrase."""
        match self.state:
            case "Ongoing":
                remaining = (self.started_ms + self.timeout_ms - now_ms) / 1000
                late = f"in {remaining:.0f} s" if remaining > 0 else "any moment"
                return f"its writer or the writer's successor ends it; else its coordinator aborts it {late}"
            case "PrepareCommit":
                return "it is being committed"
            case "PrepareAbort" | "PrepareEpochFence":
                return "it is being aborted"
            case "CompleteCommit":
                return "the last one was committed"
            case "CompleteAbort":
                return "the last one was aborted"
            case _:
                return "nothing is open"


def list_transactions(
    config: Mapping[str, Any], /, prefix: str, *, timeout: float = DEFAULT_TIMEOUT
) -> FoundTransactions[TransactionListing]:
    """Every id that begins with *prefix*, as its coordinator describes it; those with an open transaction first.

    Every broker is asked; all have to be 3.0 or later. Those that do not answer in half of the time are in `missing`
    of the result, and in the log. Raises UnsupportedVersionError, TransactionTimeoutError if no broker answers, or
    TransactionError when the cluster refuses.
    """
    with blocking_client(config, timeout=timeout) as client:
        return log_missing(list_transactions_with(client, prefix))


def list_transactions_with(client: BlockingClient, prefix: str) -> FoundTransactions[TransactionListing]:
    """`list_transactions` over existing connections."""
    described = described_everywhere(client, prefix, only_open=False)
    found = [_inspected(client, state, described.missing) for state in described.states]
    return FoundTransactions(sorted(found, key=lambda each: not each.open), described.missing)


def _inspected(client: BlockingClient, state: TransactionState, missing: Collection[int]) -> TransactionListing:
    offsets = _offsets(client, state.transactional_id, missing)
    return TransactionListing(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        started_ms=state.transaction_start_time_ms,
        timeout_ms=state.transaction_timeout_ms,
        partitions=partitions_of(state),
        offsets=offsets or (),
        offsets_denied=offsets is None,
    )


def _offsets(client: BlockingClient, group: str, missing: Collection[int]) -> tuple[GroupOffset, ...] | None:
    """The offsets of a group, none if its coordinator is *missing*; None if the user may not describe the group."""
    try:
        known = client.coordinator(group, group=True) not in missing
        return tuple(committed_by_group(client, group)) if known else ()
    except TransactionError as error:
        cause = error.__cause__
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return None
        raise
