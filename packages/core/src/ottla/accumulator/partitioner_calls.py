"""Checked calls of partitioners: a fault of a partitioner is reported with its plugin and package.

An OttlaError that a partitioner raises passes unchanged, except IllegalStateError: it has called a producer where none
can be called.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.errors import IllegalStateError, InvalidPluginError, OttlaError, counted
from ottla.errors.plugin_origin import described, faults, origin_of_method
from ottla.interfaces import RecordView, TopicView


class Partition(Protocol):
    """The method `partition` of a partitioner."""

    def __call__(self, topic: str, key: bytes | None, view: TopicView) -> int: ...


class PartitionRecord(Protocol):
    """The method `partition_record` of a partitioner."""

    def __call__(self, record: RecordView, view: TopicView) -> int: ...


class PartitionColumn(Protocol):
    """The method `partition_column` of a partitioner, for many keys in one call."""

    def __call__(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]: ...


def partition_of(ask: Partition, topic: str, key: bytes | None, view: TopicView) -> int:
    """The partition that a partitioner chooses. Raises InvalidPluginError."""
    chosen = ask_partitioner(ask, topic, key, view)
    if type(chosen) is int and 0 <= chosen < view.partitions:
        return chosen
    return _checked(ask, topic, chosen, view)


def partition_of_record(ask: PartitionRecord, record: RecordView, view: TopicView) -> int:
    """The partition that a partitioner chooses for a record. Raises InvalidPluginError."""
    try:
        chosen = ask(record, view)
    except faults() as cause:
        if not _is_fault(cause):
            raise
        raise _failed(ask, record.topic, cause) from cause
    return _checked(ask, record.topic, chosen, view)


def _checked(ask: object, topic: str, chosen: Any, view: TopicView) -> int:
    try:
        number = operator.index(chosen)
    except faults():
        raise _no_partition(ask, topic, chosen) from None
    if 0 <= number < view.partitions:
        return number
    has = f"which has {view.partitions}, counted from 0"
    raise _fault(ask, f"chose partition {number} for topic {topic!r}, {has}")


def partitions_of(ask: PartitionColumn, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
    """The partitions that a partitioner chooses for *keys*, at least one. Raises InvalidPluginError."""
    made: Sequence[int] = ask_partitioner(ask, topic, keys, view)
    try:
        len(made)  # a generator is refused
        # Read once, so that what is checked is what is used. The sum of numpy's small integers would overflow.
        chosen = made if type(made) is list else list(map(operator.index, made))
        count, lowest, highest = len(chosen), min(chosen, default=0), max(chosen, default=0)
        operator.index(sum(chosen))  # quicker than a check of each
    except faults():
        raise _no_partition(ask, topic, made) from None
    if count != len(keys):
        raise _fault(ask, f"returned {counted(count, 'partition')} for {counted(len(keys), 'key')} of topic {topic!r}")
    if lowest < 0 or highest >= view.partitions:
        has = f"which has {view.partitions}, counted from 0"
        raise _fault(ask, f"chose partitions from {lowest} to {highest} for topic {topic!r}, {has}")
    return chosen


def ask_partitioner(ask: Callable[..., Any], topic: str, *rest: object) -> Any:
    """Call a method of a partitioner. Raises InvalidPluginError for its exceptions."""
    try:
        return ask(topic, *rest)
    except faults() as cause:
        if not _is_fault(cause):
            raise
        raise _failed(ask, topic, cause) from cause


def _is_fault(cause: BaseException) -> bool:
    """Return whether the partitioner is at fault: neither a lack of memory nor what it says of the record."""
    return isinstance(cause, IllegalStateError) or not isinstance(cause, OttlaError | MemoryError)


def _failed(ask: object, topic: str, cause: BaseException) -> InvalidPluginError:
    method = getattr(ask, "__name__", "a call")
    return _fault(ask, f"failed in {method} for topic {topic!r}: {described(cause)}")


def _no_partition(ask: object, topic: str, chosen: object) -> InvalidPluginError:
    shown = type(chosen).__name__
    if isinstance(chosen, list | tuple):
        shown += " of " + " and ".join(dict.fromkeys(type(each).__name__ for each in chosen))
    return _fault(ask, f"chose {shown} for topic {topic!r}, but a partition is an int")


def _fault(ask: object, what: str) -> InvalidPluginError:
    origin = origin_of_method("partitioner", ask)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
