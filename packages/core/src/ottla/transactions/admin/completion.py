"""Ending a prepared transaction, from any process; repeatable, and returns the outcome each time."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import BrokerError, ErrorCode, TransactionError
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, BlockingClient, LastResponse, blocking_client
from ottla.transactions.admin.descriptions import ONGOING, described
from ottla.transactions.current_transaction import TXN_V2
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla.transactions.transaction_requests import EndTxn

FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Codes of EndTxn if the transactional id has a later epoch or another producer id."""


class Outcome(enum.Enum):
    """The outcome of a transaction.

    FENCED: the transactional id was taken over or is in use again, or the transaction timed out under
    `transaction.version` 0 or 1. Then the transaction was aborted, unless an earlier `complete` committed it: brokers
    no longer know which.

    UNKNOWN: no coordinator remembers the transactional id (`transactional.id.expiration.ms`); or the response to a
    commit was lost, and the transactional id has been taken over since.
    """

    COMMITTED = "committed"
    ABORTED = "aborted"
    ALREADY_COMMITTED = "already committed"
    ALREADY_ABORTED = "already aborted"
    FENCED = "fenced"
    UNKNOWN = "unknown"

    @property
    def committed(self) -> bool:
        """Return whether the records of the transaction are visible."""
        return self in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)


def complete(
    config: Mapping[str, Any], /, prepared: PreparedTransaction, *, commit: bool, timeout: float = DEFAULT_TIMEOUT
) -> Outcome:
    """Commit or abort a prepared transaction; *config*, a producer's configuration, says how to connect.

    Safe to repeat, also concurrently from elsewhere. Raises TransactionTimeoutError when no response came in time,
    after which the transaction may have ended or not, and TransactionError when the cluster refuses, or is not the one
    in which the transaction was prepared.
    """
    if not prepared.written:
        return Outcome.COMMITTED if commit else Outcome.ABORTED
    with blocking_client(config, timeout=timeout) as client, client.only_in_cluster_of(prepared):
        return end_with(client, prepared, commit=commit, open_before=_is_open(client, prepared))


def end_with(client: BlockingClient, prepared: PreparedTransaction, *, commit: bool, open_before: bool) -> Outcome:
    """End a transaction with a client that is connected already. *open_before*: whether the transaction was open."""
    request = EndTxn(
        transactional_id=prepared.transactional_id,
        producer_id_and_epoch=ProducerIdAndEpoch(id=prepared.producer_id, epoch=prepared.epoch),
        commit=commit,
        txn_v2=prepared.level >= TXN_V2,
    )
    with client.only_in_cluster_of(prepared):
        last = client.run(request, prepared.transactional_id)
    return outcome_of(last, commit=commit, open_before=open_before)


def outcome_of(last: LastResponse, *, commit: bool, open_before: bool) -> Outcome:
    """The outcome for a response to EndTxn. Raises TransactionError for a code that does not determine it."""
    match last.code:
        case ErrorCode.NONE if commit:
            return Outcome.COMMITTED if open_before else Outcome.ALREADY_COMMITTED
        case ErrorCode.NONE:
            return Outcome.ABORTED if open_before else Outcome.ALREADY_ABORTED
        case ErrorCode.INVALID_TXN_STATE:  # the transaction of this epoch has ended the other way
            return Outcome.ALREADY_ABORTED if commit else Outcome.ALREADY_COMMITTED
        case code if code in FENCED:
            return Outcome.UNKNOWN if commit and open_before and last.in_doubt else Outcome.FENCED
        case ErrorCode.INVALID_PRODUCER_ID_MAPPING | ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return Outcome.UNKNOWN
        case _:
            error = BrokerError(last.code)
            now = "an earlier request may have ended it" if last.in_doubt else "it has not changed"
            reason = str(error).rstrip(".")
            raise TransactionError(f"the transaction could not be ended: {reason}; {now}") from error


def _is_open(client: BlockingClient, prepared: PreparedTransaction) -> bool:
    """Return whether a transaction is still open, by its coordinator; True for brokers before 3.0, which cannot say."""
    found = described(client, prepared.transactional_id)
    if found is None:
        return True
    state, producer_id, epoch = found.transaction_state, found.producer_id, found.producer_epoch
    return state == ONGOING and (producer_id, epoch) == (prepared.producer_id, prepared.epoch)
