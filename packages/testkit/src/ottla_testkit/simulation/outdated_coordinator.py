"""A coordinator of transactions that was replaced, has not noticed it, and answers from what it knew before.

Kafka's does so for a moment after its process was frozen. What it writes to its log is confirmed by no other broker, so
it carries out nothing. But it answers what needs no write: it refuses epochs that it does not know, confirms partitions
of the transaction that it knows, and takes the end of the next transaction for that of the last one. Before KIP-890,
Kafka's also confirms partitions of a later transaction if they are in the one that it takes for open. The model does
not: a batch could then become a part of the transaction before, whose markers are not written yet, and no producer can
avoid that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla_testkit.simulation.coordinator_requests import has_succeeded
from ottla_testkit.simulation.transactions import ProducerOwner, TransactionCoordinator

ADDING: Final = (ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN)
WITHOUT_A_WRITE: Final = (FIND_COORDINATOR, *ADDING, END_TXN)
"""Requests that may succeed without a write: what they ask for is known, or seems to be carried out."""


@attrs.define(eq=False, kw_only=True)
class OutdatedCoordinator:
    """The transactional ids as a coordinator knew them when it was frozen, and the *current* coordinator.

    *bumps*: as of a `TransactionCoordinator`. *on_refusal* is called when it refuses what the other may accept.
    """

    current: TransactionCoordinator
    bumps: Callable[[], bool]
    on_refusal: Callable[[], object]
    ids: dict[str, ProducerOwner] = attrs.field(
        init=False, default=attrs.Factory(lambda self: copy.deepcopy(self.current.ids), takes_self=True)
    )

    def answer(
        self,
        message: Message[Any, Any],
        transactional_id: str,
        ask: Callable[[TransactionCoordinator, ErrorCode], Any],
    ) -> Any:
        """Return the response to a request: *ask* has a coordinator answer it, or only return a code."""
        trial = TransactionCoordinator(
            lambda _partition, _id, _epoch, _committed: None,
            lambda _seconds, _action: None,
            bumps=self.bumps,
            marker_seconds=1.0,
            ids=copy.deepcopy(self.ids),
            last_epoch=self.current.last_epoch,
        )
        content = ask(trial, ErrorCode.NONE)
        written = trial.ids != self.ids or message not in WITHOUT_A_WRITE
        if not has_succeeded(content):
            self.on_refusal()
        elif written or (message in ADDING and not self._is_open(transactional_id)):
            return ask(trial, ErrorCode.NOT_COORDINATOR)
        return content

    def _is_open(self, transactional_id: str) -> bool:
        """Return whether the transaction that it knows is still the open one."""
        known, now = self.ids.get(transactional_id), self.current.ids.get(transactional_id)
        return known is not None and now is not None and now.ongoing and now.begun == known.begun
