"""A partition of the ledger topic, and its current leader.

A broker that was paused or cut off may still take itself for the leader, and does not have the newest entries. So the
lease's coordinator is asked for the leader: it could not have given the lease if another broker had taken its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, TransactionTimeoutError, error_code
from ottla.protocol import METADATA, Message, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.metadata import MetadataResponsePartition
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.acl_hints import naming_right

MISSING_FOR: Final = 20.0
"""Seconds for a topic to exist: a broker learns of a new topic with a delay."""

_FIRST_WITHOUT_CREATION: Final = 4


@attrs.define(kw_only=True)
class LedgerPartition:
    """One partition. It requests its leader at first, and again after each missing response or error.

    `lease` is the transactional id whose coordinator it asks. `epoch` is that of the leader that is asked now: a broker
    that does not know yet that this epoch has begun refuses the request.
    """

    topic: str
    partition: int
    lease: str
    epoch: int = attrs.field(default=-1, init=False)
    _leader: int = attrs.field(default=-1, init=False)

    def led(self, partitions: Sequence[MetadataResponsePartition]) -> None:
        """Learn the leader from the topic's metadata. Raises TransactionError if the partition is not in it."""
        for each in partitions:
            if each.partition_index == self.partition:
                self._leader, self.epoch = each.leader_id, each.leader_epoch
                return
        raise TransactionError(
            f"the ledger topic {self.topic!r} has {len(partitions)} partitions, but partition {self.partition} of it "
            "was in use: the topic was created again. Start the query again"
        )

    def ask(
        self,
        client: BlockingClient,
        message: Message[Any, Any],
        content: Callable[[int], Any],
        *,
        of: Callable[[Any], Any],
        floor: int = 0,
        ceiling: int | None = None,
    ) -> tuple[Any, ErrorCode]:
        """Return the leader's result for the partition, and the error code after retries.

        *of* finds the result in the response.
        """

        def one() -> Any:
            node, self._leader = self._known(client), -1
            found = of(client.ask(node, message, content, floor=floor, ceiling=ceiling))
            if error_code(found.error_code) is ErrorCode.NONE:
                self._leader = node
            return found

        try:
            found = client.until_answered(self.lease, one, lambda found: error_code(found.error_code))
        except TransactionTimeoutError as error:
            raise TransactionTimeoutError(
                f"partition {self.partition} of the ledger topic {self.topic!r}: {error}"
            ) from error
        return found, error_code(found.error_code)

    def refused(self, code: ErrorCode, what: str, *, right: str) -> TransactionError:
        """Return the error for a request that the leader refused; *right* is the one it needs, Read for instance."""
        error = BrokerError(code)
        message = f"partition {self.partition} of the ledger topic {self.topic!r}: {what}: {error}"
        refusal = TransactionError(naming_right(message, code, f"{right} for topic {self.topic!r}"))
        refusal.__cause__ = error
        return refusal

    def _known(self, client: BlockingClient) -> int:
        if self._leader < 0:
            self.led(existing(client, self.topic, lease=self.lease).topics[0].partitions)
        return self._leader


def described(client: BlockingClient, topic: str, *, lease: str = "") -> MetadataResponse:
    """Return metadata of a topic without creating the topic: that of any broker, or of the *lease*'s coordinator."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer: MetadataResponse = client.ask(
        client.coordinator(lease) if lease else None,
        METADATA,
        lambda _version: request,
        floor=_FIRST_WITHOUT_CREATION,
    )
    return answer


def existing(client: BlockingClient, topic: str, *, lease: str = "") -> MetadataResponse:
    """Return a topic's metadata, as `described` does, once the topic exists and every partition has a leader.

    Raises TransactionError if the topic does not exist for `MISSING_FOR` seconds.
    """
    asked_since = time.monotonic()

    def code_of(found: MetadataResponse) -> ErrorCode:
        code = _code_of(found)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() - asked_since > MISSING_FOR:
            raise TransactionError(
                f"the ledger topic {topic!r} does not exist: it was deleted, and the entries of its queries and jobs "
                "with it. Restore the topic, or start the query again, which creates an empty one. Without its entry, "
                "a batch that is in Kafka is written again if Spark repeats it, and so is a job"
            ) from BrokerError(code)
        return code

    found = client.until_answered(lease, lambda: described(client, topic, lease=lease), code_of)
    code = _code_of(found)
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        message = f"the ledger topic {topic!r} cannot be used: {error}"
        raise TransactionError(naming_right(message, code, f"Describe for topic {topic!r}")) from error
    return found


def _code_of(found: MetadataResponse) -> ErrorCode:
    [topic] = found.topics
    code = error_code(topic.error_code)
    if code is ErrorCode.NONE and any(each.leader_id < 0 for each in topic.partitions):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code
