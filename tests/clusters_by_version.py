"""Brokers of several versions, each closed after the last test that uses it: ten idle ones use a fifth of a core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs
import pytest

from ottla_testkit.kafka_cluster import KafkaCluster

Key = TypeVar("Key")


@attrs.define
class ClustersByVersion(Generic[Key]):
    """The brokers that were needed so far. `key` gives that of a test; `before_close` is called with each."""

    key: Callable[[pytest.Item], Key | None]
    before_close: Callable[[Key, KafkaCluster], None] = lambda _key, _cluster: None
    running: dict[Key, KafkaCluster] = attrs.field(factory=dict)
    users: Counter[Key] = attrs.field(factory=Counter)

    def count(self, items: Sequence[pytest.Item]) -> None:
        """Note how many tests are to use each one."""
        self.users.update(key for key in map(self.key, items) if key is not None)

    def leave(self, item: pytest.Item) -> None:
        """After a test: close its broker if no other test is to use it."""
        key = self.key(item)
        if key is None:
            return
        self.users[key] -= 1
        if not self.users[key]:
            self._close(key)

    def close(self) -> None:
        """Close those that still run, after tests that were broken off."""
        for key in list(self.running):
            self._close(key)

    def _close(self, key: Key) -> None:
        cluster = self.running.pop(key, None)
        if cluster is None:
            return
        try:
            self.before_close(key, cluster)
        finally:
            cluster.close()
