"""Offsets from brokers: a group's committed offsets, and the end offsets of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs

from ottla.errors import BrokerError, ErrorCode, TransactionError, error_code, quoted
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
from ottla.transactions.acl_hints import needed
from ottla.transactions.admin.blocking_client import DEFAULT_TIMEOUT, BlockingClient, blocking_client
from ottla.transactions.offsets import OffsetAndMetadata

_FIRST_WITH_AN_ERROR = 2
_FIRST_STABLE = 7
_FIRST_WITH_GROUPS = 8
_LAST_WITH_NAMES = 9
_A_CLIENT = -1

T = TypeVar("T")

Partitions = Mapping[str, Sequence[int]]


def committed_offset(
    config: Mapping[str, Any], /, group: str, topic: str, partition: int, *, timeout: float = DEFAULT_TIMEOUT
) -> OffsetAndMetadata | None:
    """The offset that a group has committed for a partition; None if there is none.

    Waits while an open transaction may still change it (brokers of 2.5 or later).
    """
    with blocking_client(config, timeout=timeout) as client:
        return committed(client, group, topic, partition)


def end_offsets(
    config: Mapping[str, Any], /, partitions: Partitions, *, timeout: float = DEFAULT_TIMEOUT
) -> Mapping[tuple[str, int], int]:
    """The current end offsets of partitions, including uncommitted records."""
    with blocking_client(config, timeout=timeout) as client:
        return ends(client, partitions)


def partition_counts(
    config: Mapping[str, Any], /, topics: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT
) -> Mapping[str, int]:
    """The number of partitions of each topic. While a topic does not exist, asks again until the timeout."""
    with blocking_client(config, timeout=timeout) as client:
        return {topic: len(client.topic(topic).leaders) for topic in topics}


def committed(client: BlockingClient, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
    """The offset that a group has committed for a partition; None if there is none."""
    for found in _fetched(client, group, {topic: [partition]}):
        if found.offset >= 0:
            return OffsetAndMetadata(found.offset, found.metadata)
    return None


@attrs.frozen(kw_only=True)
class GroupOffset:
    """One committed offset of a group, with its metadata string."""

    topic: str
    partition: int
    offset: int
    metadata: str


def committed_by_group(client: BlockingClient, group: str) -> Sequence[GroupOffset]:
    """All committed offsets of a group."""
    return [found for found in _fetched(client, group, None) if found.offset >= 0]


def _fetched(client: BlockingClient, group: str, partitions: Partitions | None) -> Sequence[GroupOffset]:
    """Committed offsets of these partitions, or of all.

    With partitions it waits until no open transaction may change one of them.
    """

    def one() -> OffsetFetchResponse:
        response: OffsetFetchResponse = client.ask(
            client.coordinator(group, group=True),
            OFFSET_FETCH,
            partial(_offsets_request, group, partitions),
            floor=_FIRST_WITH_AN_ERROR,
            ceiling=_LAST_WITH_NAMES,
        )
        return response

    response = client.until_answered(group, one, _code_of_fetch)
    code = _code_of_fetch(response)
    _check(code, f"read the offsets of group {quoted(group)}", right=needed(code, group=group))
    topics: Sequence[Any] = response.groups[0].topics if response.groups else response.topics
    return [
        GroupOffset(
            topic=topic.name,
            partition=each.partition_index,
            offset=each.committed_offset,
            metadata=each.metadata or "",
        )
        for topic in topics
        for each in topic.partitions
    ]


def _offsets_request(group: str, partitions: Partitions | None, version: int) -> OffsetFetchRequest:
    """The request for the committed offsets of these partitions, or of all."""
    stable = partitions is not None
    if version >= _FIRST_WITH_GROUPS:
        wanted = OffsetFetchRequestGroup(group_id=group, topics=_topics(OffsetFetchRequestTopics, partitions))
        return OffsetFetchRequest(groups=[wanted], require_stable=stable)
    topics = _topics(OffsetFetchRequestTopic, partitions)
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable and version >= _FIRST_STABLE)


def _topics(kind: Callable[..., T], partitions: Partitions | None) -> list[T] | None:
    if partitions is None:
        return None
    return [kind(name=topic, partition_indexes=[*indexes]) for topic, indexes in partitions.items()]


def ends(client: BlockingClient, partitions: Partitions) -> Mapping[tuple[str, int], int]:
    """End offsets of partitions; asks their leaders one after the other."""
    found: dict[tuple[str, int], int] = {}

    def one() -> ErrorCode:
        code = ErrorCode.NONE
        for node, missing in _by_leader(client, partitions, found).items():
            response: ListOffsetsResponse = client.ask(node, LIST_OFFSETS, partial(_latest, missing), floor=1)
            for topic in response.topics:
                for each in topic.partitions:
                    if each.error_code:
                        code = error_code(each.error_code)
                        client.refresh()
                    else:
                        found[topic.name, each.partition_index] = each.offset
        return code

    code = client.until_answered("", one, lambda code: code)
    _check(code, f"read the end offsets of {', '.join(partitions)}")
    return found


def _by_leader(
    client: BlockingClient, partitions: Partitions, found: Mapping[tuple[str, int], int]
) -> Mapping[int, Sequence[tuple[str, int]]]:
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for topic, numbers in partitions.items():
        leaders = client.topic(topic).leaders
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


def _code_of_fetch(response: OffsetFetchResponse) -> ErrorCode:
    codes = [response.error_code, *(group.error_code for group in response.groups)]
    topics: list[Any] = [*response.topics, *(topic for group in response.groups for topic in group.topics)]
    codes += [each.error_code for topic in topics for each in topic.partitions]
    return error_code(next((code for code in codes if code), 0))


def _check(code: ErrorCode, what: str, *, right: str = "") -> None:
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        raise TransactionError(f"cannot {what}: {error}{right}") from error
