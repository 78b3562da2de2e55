"""The partitions of a ledger topic in which a name's entries may be. No broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, TransactionError
from ottla.protocol import Message
from ottla.protocol.messages.fetch import FETCH, PartitionData
from ottla.protocol.messages.list_offsets import LATEST, ListOffsetsPartitionResponse
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.ledger.partition import LedgerPartition
from ottla_spark.exactly_once.ledger.places import partition_of, partitions_of
from ottla_spark.exactly_once.ledger.reader import LedgerReader

names = st.text(min_size=1, max_size=20)


@given(names, st.integers(1, 60), st.integers(0, 60))
def test_the_partitions_of_a_name_include_those_of_every_smaller_topic(name: str, count: int, more: int) -> None:
    found = partitions_of(name, count + more)

    assert set(partitions_of(name, count)) <= set(found)
    assert found[0] == partition_of(name, count + more)
    assert len(set(found)) == len(found) <= count + more


@given(names)
def test_a_topic_of_one_partition_has_one_place(name: str) -> None:
    assert partitions_of(name, 1) == [0]


class CreatedAgain(LedgerPartition):
    """A partition with ten records, which is empty as soon as its offsets have been read."""

    ends = 10

    def ask(
        self,
        client: BlockingClient,
        message: Message[Any, Any],
        content: Callable[[int], Any],
        **_versions: Any,
    ) -> tuple[Any, ErrorCode]:
        if message is FETCH:
            self.ends = 0
            return PartitionData(), ErrorCode.NONE
        [topic] = content(message.max_version).topics
        latest = topic.partitions[0].timestamp == LATEST
        return ListOffsetsPartitionResponse(offset=self.ends if latest else 0), ErrorCode.NONE


def test_a_read_of_a_topic_that_is_created_again_meanwhile_ends() -> None:
    reader, place = LedgerReader("orders"), CreatedAgain(topic="ledger", partition=0, lease="orders/lease")
    client: Any = None  # the partition needs none

    with pytest.raises(TransactionError, match="ended at offset 10, and now at 0"):
        reader.read(client, place, lease_ids=None)
    assert reader.read(client, place, lease_ids=None).last is None
