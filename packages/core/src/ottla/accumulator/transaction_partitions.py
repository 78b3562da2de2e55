"""The partitions of the open transaction of a producer: its members, and those that batches wait to be added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of its partition."""


class TransactionPartitions:
    """The partitions of one transaction after the other. For the I/O thread."""

    __slots__ = ("_added_by_writing", "_members", "_wanted")

    def __init__(self) -> None:
        self._members: set[Partition] = set()
        self._wanted: dict[Partition, None] = {}
        self._added_by_writing = False  # KIP-890

    @property
    def wanted(self) -> Collection[Partition]:
        """The partitions to add, in the order in which batches began to wait for them."""
        return self._wanted

    def admits(self, partition: Partition) -> bool:
        """Return whether batches may be written to a partition; if not, it is wanted from now on."""
        if partition in self._members:
            return True
        if self._added_by_writing:
            self._members.add(partition)
            return True
        self._wanted[partition] = None
        return False

    def add(self, partitions: Iterable[Partition]) -> None:
        """Note that the brokers have added these partitions."""
        for partition in partitions:
            self._wanted.pop(partition, None)
            self._members.add(partition)

    def add_by_writing(self) -> None:
        """Note that writing to a partition adds it, until the transaction ends."""
        self._members.update(self._wanted)
        self._wanted.clear()
        self._added_by_writing = True

    def clear(self) -> None:
        """Begin with no partition, for the next transaction."""
        self._members.clear()
        self._wanted.clear()
        self._added_by_writing = False
