"""A partition of the ledger topic, and its current leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code
from ottla.protocol import METADATA, Message, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.acl_hints import lacking

_FIRST_WITHOUT_CREATION: Final = 4


@attrs.define(kw_only=True)
class LedgerPartition:
    """One partition. It requests its leader at first, and again after each missing response or error."""

    topic: str
    partition: int
    _leader: int = attrs.field(default=-1, init=False)

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

        found = client.until_answered("", one, lambda found: error_code(found.error_code))
        return found, error_code(found.error_code)

    def refused(self, code: ErrorCode, what: str, *, right: str) -> TransactionError:
        """Return the error for a request that the leader refused; *right* is the one it needs, Read for instance."""
        error = BrokerError(code)
        response = f"partition {self.partition} of the ledger topic {self.topic!r}: {what}: {error}"
        refusal = TransactionError(response + lacking(code, f"{right} for topic {self.topic!r}"))
        refusal.__cause__ = error
        return refusal

    def _known(self, client: BlockingClient) -> int:
        if self._leader >= 0:
            return self._leader
        partitions = existing(client, self.topic).topics[0].partitions
        return next(each.leader_id for each in partitions if each.partition_index == self.partition)


def described(client: BlockingClient, topic: str) -> MetadataResponse:
    """Return a broker's metadata of a topic without creating the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer: MetadataResponse = client.ask(None, METADATA, lambda _version: request, floor=_FIRST_WITHOUT_CREATION)
    return answer


def existing(client: BlockingClient, topic: str) -> MetadataResponse:
    """Return a topic's metadata once the topic exists and every partition has a leader."""
    found = client.until_answered("", lambda: described(client, topic), _code_of)
    code = _code_of(found)
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        raise TransactionError(
            f"the ledger topic {topic!r} cannot be used: {error}" + lacking(code, f"Describe for topic {topic!r}")
        ) from error
    return found


def _code_of(found: MetadataResponse) -> ErrorCode:
    [topic] = found.topics
    code = error_code(topic.error_code)
    if code is ErrorCode.NONE and any(each.leader_id < 0 for each in topic.partitions):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code
