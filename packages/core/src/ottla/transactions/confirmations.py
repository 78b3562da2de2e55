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

from ottla.errors import BrokerError, ErrorCode
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

_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""Codes of a coordinator that does not know a topic, or has forgotten the whole transaction."""


@attrs.define(eq=False)
class Confirmations:
    """The partitions and groups of the open transaction, with the broker that has confirmed each last."""

    _partitions: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _groups: dict[str, int] = attrs.field(factory=dict, init=False)

    def note(self, request: CoordinatorRequest, action: ResponseAction, node: int | None) -> bool:
        """Note the response of a broker, which is the coordinator as far as is known.

        Return False if something cannot be added once more. The transaction is then ended without it, as it may have
        ended already.
        """
        match action:
            case PartitionsAdded(partitions=partitions) if node is not None:
                self._partitions.update(dict.fromkeys(partitions, node))
            case GroupAdded() if node is not None and isinstance(request, AddOffsetsToTxn):
                self._groups[request.key] = node
            case TransactionEnded() | ProducerIdAssigned():
                self._partitions.clear()
                self._groups.clear()
            case RequestFailed() if _is_refused(action):
                return not self._forget(request)
            case _:
                pass
        return True

    def elsewhere(self, node: int | None) -> tuple[Sequence[TopicPartition], Sequence[str]]:
        """Return the partitions and groups that another broker than this one has confirmed; none if it is not known."""
        if node is None:
            return (), ()
        partitions = [partition for partition, by in self._partitions.items() if by != node]
        return partitions, [group for group, by in self._groups.items() if by != node]

    def before(self, end: EndTxn, node: int | None) -> CoordinatorRequest:
        """Return the request that ends the transaction at a broker, or one that has to come before it."""
        partitions, groups = self.elsewhere(node)
        who = end.transactional_id, end.producer_id_and_epoch
        if partitions:
            return AddPartitionsToTxn(*who, partitions)
        return AddOffsetsToTxn(*who, groups[0]) if groups else end

    def _forget(self, request: CoordinatorRequest) -> bool:
        """Forget what a request was to add, and return whether it was confirmed before."""
        if isinstance(request, AddPartitionsToTxn):
            return any([self._partitions.pop(partition, None) is not None for partition in request.partitions])
        return isinstance(request, AddOffsetsToTxn) and self._groups.pop(request.key, None) is not None


def _is_refused(failure: RequestFailed) -> bool:
    """Return whether what a request adds does not exist any more, or may not be used."""
    error = failure.error
    unknown = isinstance(error, BrokerError) and error.code in _UNKNOWN
    return unknown or failure.action is TransactionErrorAction.ABORTABLE
