"""Writer of ledger entries. Each is written in a transaction of the lease's producer id and epoch.

Any process that holds the lease can write them.

Brokers refuse an entry once another driver has the lease. Each request may be repeated: its sequence number makes the
record idempotent, and its epoch makes EndTxn idempotent.
"""

from __future__ import annotations

import time
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, TransactionTimeoutError, error_code
from ottla.protocol import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.recordbatch.header_v2 import batch_header
from ottla.recordbatch.number_columns import Timestamps
from ottla.recordbatch.records_v2 import encode_records
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.current_transaction import TXN_V2
from ottla.transactions.transaction_requests import AddPartitionsToTxn, EndTxn
from ottla_spark.exactly_once.acl_hints import naming_right, transactions_right
from ottla_spark.exactly_once.errors import EntryNotWrittenError, LeaseLostError
from ottla_spark.exactly_once.ledger.batches import COMPRESSORS, GZIP, LARGEST_ENTRY
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.ledger.partition import LedgerPartition

_TIMEOUT_MS: Final = 30_000
_ALL_REPLICAS: Final = -1
_FIRST_WITH_TRANSACTIONS: Final = 3
_LAST_PRODUCE_OF_V1: Final = 11
_LAST_WITH_NAMES: Final = 12
_RESERVED_FOR_KEY: Final = 64 * 1024
_LOST: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
_EXPIRED: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


_HELP: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: " The batch has too many tasks for the max.message.bytes of the ledger topic: use "
    f"fewer tasks, for example with coalesce, or raise this setting of the topic, up to {LARGEST_ENTRY}"
}


def write_entry(client: BlockingClient, place: LedgerPartition, lease: Lease, value: bytes | None) -> Lease:
    """Write an entry, committed; return the lease to use next.

    Raises EntryNotWrittenError if it is not written. After LeaseLostError the entry may be written or not, unless the
    error says that it was refused.
    """
    if value is not None and len(value) > LARGEST_ENTRY - _RESERVED_FOR_KEY:
        raise EntryNotWrittenError(
            f"an entry of {lease.name!r} has {len(value)} bytes, more than the {LARGEST_ENTRY - _RESERVED_FOR_KEY} "
            "that drivers read: the batch has too many tasks. Use fewer tasks, for example with coalesce; nothing was "
            "recorded"
        )
    txn_v2 = lease.level >= TXN_V2
    try:
        if not txn_v2:
            code = _join(client, place, lease)
            _check(lease, code, "join its transaction", right=transactions_right(lease.name), refused=True)
        code = _append(client, place, lease, value, txn_v2=txn_v2)
    except TransactionTimeoutError as error:
        # A record that was appended all the same is in an open transaction of the lease, which only we would commit.
        raise EntryNotWrittenError(
            f"an entry of the ledger of {lease.name!r} could not be written in time: {error}. With fewer replicas in "
            f"sync than min.insync.replicas, the ledger topic {place.topic!r} takes no entry"
        ) from error
    if code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # written by an attempt whose response was lost
        _check(lease, code, "be written", right=f"Write for topic {place.topic!r}", refused=True)
    end = EndTxn(
        transactional_id=lease.transactional_id, producer_id_and_epoch=_producer(lease), commit=True, txn_v2=txn_v2
    )
    last = client.run(end, lease.transactional_id)
    _check(lease, last.code, "be committed", right=transactions_right(lease.name))
    following = last.response
    if following.producer_id >= 0:
        return attrs.evolve(lease, producer_id=following.producer_id, epoch=following.producer_epoch, sequence=0)
    return attrs.evolve(lease, sequence=lease.sequence + 1)


def _join(client: BlockingClient, place: LedgerPartition, lease: Lease) -> ErrorCode:
    """Add the partition to the transaction and return the error code."""
    request = AddPartitionsToTxn(lease.transactional_id, _producer(lease), [(place.topic, place.partition)])

    def one() -> Any:
        return client.send(client.coordinator(lease.transactional_id), request)

    def code(answer: Any) -> ErrorCode:
        return error_code(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    return code(client.until_answered(lease.transactional_id, one, code))


def _append(
    client: BlockingClient, place: LedgerPartition, lease: Lease, value: bytes | None, *, txn_v2: bool
) -> ErrorCode:
    """Append the entry, which is not committed yet, and return the error code."""
    partition = PartitionProduceData(index=place.partition, records=_batch(lease, value))
    request = ProduceRequest(
        transactional_id=lease.transactional_id,
        acks=_ALL_REPLICAS,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[TopicProduceData(name=place.topic, partition_data=[partition])],
    )
    _found, code = place.ask(
        client,
        PRODUCE,
        lambda _version: request,
        of=lambda answer: answer.responses[0].partition_responses[0],
        floor=_LAST_WITH_NAMES if txn_v2 else _FIRST_WITH_TRANSACTIONS,
        ceiling=_LAST_WITH_NAMES if txn_v2 else _LAST_PRODUCE_OF_V1,
    )
    return code


def _producer(lease: Lease) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(id=lease.producer_id, epoch=lease.epoch)


def _check(lease: Lease, code: ErrorCode, what: str, *, right: str, refused: bool = False) -> None:
    """Raise the error for a code. *refused*: no request that commits the entry has been sent."""
    if code in _LOST:
        cause = (
            "its lease expired, as the batch took longer than transactional.id.expiration.ms of the brokers"
            if code in _EXPIRED
            else "this driver paused for too long"
        )
        lost = LeaseLostError(
            f"an entry of {lease.name!r} could not {what} ({code.name}): another driver has taken the ledger over, or "
            f"{cause}. The next driver reads what was written; if two drivers run, stop this one"
        )
        lost.refused = refused
        raise lost
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        message = f"an entry of the ledger of {lease.name!r} could not {what}: {error}"
        kind = EntryNotWrittenError if refused else TransactionError
        raise kind(naming_right(message, code, right) + _HELP.get(code, "")) from error


def _batch(lease: Lease, value: bytes | None) -> bytes:
    key = lease.name.encode()
    now = time.time_ns() // 1_000_000
    section = COMPRESSORS[GZIP].compress(
        [
            encode_records(
                keys=[key],
                values=[value],
                headers=None,
                timestamps=Timestamps.of([now]),
                key_sizes=[len(key)],
                value_sizes=[-1 if value is None else len(value)],
                nulls=value is None,
            )
        ]
    )
    header = batch_header(
        [section],
        codec_id=GZIP,
        first_timestamp=now,
        max_timestamp=now,
        count=1,
        producer_id=lease.producer_id,
        epoch=lease.epoch,
        sequence=lease.sequence,
        transactional=True,
    )
    return header + section
