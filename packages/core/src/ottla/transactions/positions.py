"""Offsets that brokers tell: what a group has committed, and where partitions end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code
from ottla.protocol.messages.list_offsets import (
    LATEST,
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.transaction_manager import OffsetAndMetadata
from ottla.transactions.asking import DEFAULT_TIMEOUT, Asking, asking

_FIRST_WITH_AN_ERROR = 2
_FIRST_STABLE = 7
_FIRST_WITH_GROUPS = 8
_LAST_WITH_NAMES = 9
_A_CLIENT = -1

Partitions = Mapping[str, Sequence[int]]


def committed_offset(
    config: Mapping[str, Any], group: str, topic: str, partition: int, *, timeout: float = DEFAULT_TIMEOUT
) -> OffsetAndMetadata | None:
    """What a group has committed for a partition, None: nothing.

    Waits while a transaction is about to change it (brokers of 2.5 or later).
    """
    with asking(config, timeout=timeout) as asked:
        return committed(asked, group, topic, partition)


def end_offsets(
    config: Mapping[str, Any], partitions: Partitions, *, timeout: float = DEFAULT_TIMEOUT
) -> Mapping[tuple[str, int], int]:
    """Where partitions end at the moment, what is not committed yet included."""
    with asking(config, timeout=timeout) as asked:
        return ends(asked, partitions)


def partition_counts(
    config: Mapping[str, Any], topics: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT
) -> Mapping[str, int]:
    """How many partitions topics have. Waits for one that does not exist, until time is up."""
    with asking(config, timeout=timeout) as asked:
        return {topic: len(asked.topic(topic).leaders) for topic in topics}


def committed(asked: Asking, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
    """What a group has committed for a partition."""

    def content(version: int) -> OffsetFetchRequest:
        if version >= _FIRST_WITH_GROUPS:
            topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
            return OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
            )
        return OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
            require_stable=version >= _FIRST_STABLE,
        )

    def one() -> OffsetFetchResponse:
        answer: OffsetFetchResponse = asked.ask(
            asked.coordinator(group, group=True),
            OFFSET_FETCH,
            content,
            floor=_FIRST_WITH_AN_ERROR,
            ceiling=_LAST_WITH_NAMES,
        )
        return answer

    answer = asked.until_answered(group, one, _code_of_fetch)
    _check(_code_of_fetch(answer), f"read the offset of group {group!r} for {topic!r}")
    topics: Sequence[Any] = answer.groups[0].topics if answer.groups else answer.topics
    found = next((each for each in topics for each in each.partitions), None)
    if found is None or found.committed_offset < 0:
        return None
    return OffsetAndMetadata(found.committed_offset, found.metadata or "", found.committed_leader_epoch)


def ends(asked: Asking, partitions: Partitions) -> Mapping[tuple[str, int], int]:
    """Where partitions end; their leaders are asked, one after the other."""
    found: dict[tuple[str, int], int] = {}

    def one() -> ErrorCode:
        code = ErrorCode.NONE
        for node, missing in _by_leader(asked, partitions, found).items():
            answer: ListOffsetsResponse = asked.ask(node, LIST_OFFSETS, partial(_latest, missing), floor=1)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code:
                        code = error_code(each.error_code)
                        asked.refresh()
                    else:
                        found[topic.name, each.partition_index] = each.offset
        return code

    code = asked.until_answered("", one, lambda code: code)
    _check(code, f"read where {', '.join(partitions)} end")
    return found


def _by_leader(
    asked: Asking, partitions: Partitions, found: Mapping[tuple[str, int], int]
) -> Mapping[int, Sequence[tuple[str, int]]]:
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for topic, numbers in partitions.items():
        leaders = asked.topic(topic).leaders
        for number in numbers:
            if (topic, number) not in found:
                by_leader.setdefault(leaders[number], []).append((topic, number))
    return by_leader


def _latest(partitions: Iterable[tuple[str, int]], _version: int) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=number, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=_A_CLIENT,
        topics=[ListOffsetsTopic(name=topic, partitions=numbers) for topic, numbers in by_topic.items()],
    )


def _code_of_fetch(answer: OffsetFetchResponse) -> ErrorCode:
    codes = [answer.error_code, *(group.error_code for group in answer.groups)]
    topics: list[Any] = [*answer.topics, *(topic for group in answer.groups for topic in group.topics)]
    codes += [each.error_code for topic in topics for each in topic.partitions]
    return error_code(next((code for code in codes if code), 0))


def _check(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        raise TransactionError(f"cannot {what}: {error}") from error
