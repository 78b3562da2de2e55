"""The consequences of a response for a producer's transaction, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ottla.errors import BrokerError, OttlaError
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.results.value_methods import ValueMethods
from ottla.transactions.transaction_error_actions import TransactionErrorAction

if TYPE_CHECKING:
    from ottla.transactions.offsets import TopicPartition


@attrs.frozen(eq=False, repr=False)
class RequestFailed(ValueMethods):
    """The request failed; *action* determines whether it is sent again."""

    action: TransactionErrorAction
    error: OttlaError


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProducerIdAssigned(ValueMethods):
    """The coordinator assigned an id and epoch; `transaction_open`: it has kept a prepared transaction (KIP-939)."""

    producer_id_and_epoch: ProducerIdAndEpoch
    transaction_open: bool


@attrs.frozen(eq=False, repr=False)
class CoordinatorFound(ValueMethods):
    """The coordinator was found: it is the broker *node*."""

    node: int


@attrs.frozen(eq=False, repr=False)
class PartitionsAdded(ValueMethods):
    """The coordinator has added these partitions to the transaction."""

    partitions: Sequence[TopicPartition]


@attrs.frozen(eq=False, repr=False)
class GroupAdded(ValueMethods):
    """The coordinator has added the group's offsets to the transaction."""


@attrs.frozen(eq=False, repr=False)
class OffsetsWritten(ValueMethods):
    """The offsets of these partitions are written; with a *failure*, those of others are not."""

    partitions: Sequence[TopicPartition]
    failure: RequestFailed | None


@attrs.frozen(eq=False, repr=False)
class TransactionEnded(ValueMethods):
    """The transaction is committed or aborted; with KIP-890, *next_producer_id_and_epoch* is that of the next one.

    *refusal*: the coordinator has refused the abort with it, because it has no such transaction. The next transaction
    begins in another epoch, or with another producer id.
    """

    next_producer_id_and_epoch: ProducerIdAndEpoch | None
    refusal: BrokerError | None = None


ResponseAction: TypeAlias = (
    RequestFailed
    | ProducerIdAssigned
    | CoordinatorFound
    | PartitionsAdded
    | GroupAdded
    | OffsetsWritten
    | TransactionEnded
)
