"""Which coordinators have confirmed the parts of an open transaction, before KIP-890.

A coordinator that was replaced, and has not noticed it, may take an EndTxn request for one that it has carried out: it
only knows the transaction before, which has the same epoch. It then answers without an error, and nothing is committed.
(Kafka 4.3 does so for 0.15 s after it was frozen; see `TransactionCoordinator.endTransactionWithTV1`.) But it can
confirm no partition that it does not have, because other brokers no longer take what it writes. So a transaction is
ended only where its partitions and groups are confirmed; elsewhere they are added once more before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import BrokerError, ErrorCode, OttlaError
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.offsets import TopicPartition
from ottla.transactions.response_actions import (
    GroupAdded,
    PartitionsAdded,
    ProducerIdAssigned,
    RequestFailed,
    ResponseAction,
    TransactionEnded,
)
from ottla.transactions.transaction_error_actions import TransactionErrorAction
from ottla.transactions.transaction_requests import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn

BELIEVED_AFTER: Final = 3.0
"""Seconds after which a coordinator that refuses to add something once more, or to commit, is believed.

One that was replaced, and has not noticed it, does not know topics and rights that are as new as the transaction.
"""


@attrs.define(eq=False)
class Confirmations:
    """The partitions and groups of the open transaction, with the broker that has confirmed each last."""

    _confirmed_by: dict[TopicPartition | str, int] = attrs.field(factory=dict, init=False)
    _refused_at: float | None = attrs.field(default=None, init=False)

    def note(
        self, request: CoordinatorRequest, action: ResponseAction, node: int | None, now: float
    ) -> ResponseAction | None:
        """Note the response of a broker, which is the coordinator as far as is known; return the action to apply.

        It is None if something cannot be added once more. The transaction is then ended without it, as it may have
        ended already. But first the coordinator is looked up again, and asked for a while.
        """
        again = [part for part in _parts(request) if part in self._confirmed_by]
        match action:
            case PartitionsAdded(partitions=partitions) if node is not None:
                self._confirmed_by.update(dict.fromkeys(partitions, node))
            case GroupAdded() if node is not None:
                self._confirmed_by.update(dict.fromkeys(_parts(request), node))
            case TransactionEnded(refusal=None) | ProducerIdAssigned():  # which follows an end with a refusal
                self._confirmed_by.clear()
                self._refused_at = None
            case RequestFailed(error=error) if again and _is_refused(action):
                if self._refused_at is None:
                    self._refused_at = now
                if now < self._refused_at + BELIEVED_AFTER and not _is_forgotten(error):
                    return RequestFailed(TransactionErrorAction.REFIND, error)
                for part in again:
                    del self._confirmed_by[part]
                return None
            case _:
                pass
        return action

    def elsewhere(self, node: int | None) -> tuple[Sequence[TopicPartition], Sequence[str]]:
        """Return the partitions and groups that another broker than this one has confirmed; none if it is not known."""
        if node is None:
            return (), ()
        parts = [part for part, by in self._confirmed_by.items() if by != node]
        return [part for part in parts if not isinstance(part, str)], [part for part in parts if isinstance(part, str)]

    def before(self, end: EndTxn, node: int | None) -> CoordinatorRequest:
        """Return the request that ends the transaction at a broker, or one that has to come before it."""
        partitions, groups = self.elsewhere(node)
        who = end.transactional_id, end.producer_id_and_epoch
        if partitions:
            return AddPartitionsToTxn(*who, partitions)
        return AddOffsetsToTxn(*who, groups[0]) if groups else end


def _parts(request: CoordinatorRequest) -> Sequence[TopicPartition | str]:
    """The partitions that a request adds to a transaction, or its group."""
    if isinstance(request, AddPartitionsToTxn):
        return request.partitions
    return (request.key,) if isinstance(request, AddOffsetsToTxn) else ()


def _is_forgotten(error: OttlaError) -> bool:
    """Return whether the coordinator does not know the transaction, whose end it then refuses, too."""
    return isinstance(error, BrokerError) and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _is_refused(failure: RequestFailed) -> bool:
    """Return whether what a request adds does not exist any more, or may not be used."""
    error = failure.error
    unknown = isinstance(error, BrokerError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return unknown or _is_forgotten(error) or failure.action is TransactionErrorAction.ABORTABLE
