"""The ids of topics, by which a cluster that was set up again with the id of the one before is told apart from it.

Many clusters have an id that their operator chose, as in most compose files. Topics get random ids (KIP-516), so a
cluster in which no topic has kept its id is another one, or its topics were all deleted and created again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.network.cluster import Topic
from ottla.protocol.notation import ZERO_UUID

ASKED: Final = 3
"""The topics of which a new connection is asked: one that has kept its id is enough."""


class TopicIds:
    """The last known ids of the topics in use; a topic that does not exist for a while keeps the one that it had.

    Brokers before Kafka 2.8 send none. For the I/O thread.
    """

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._confirmed_at = float("-inf")

    def update(self, topics: Iterable[Topic], *, used: Collection[str], now: float, connected_at: float) -> bool:
        """Learn the ids of a response. Return whether they may be those of another cluster.

        They are not if its connection, made at *connected_at*, is older than the last response that had the known ids:
        that broker has been running since then, and does not change its cluster.
        """
        found = {topic.name: topic.id for topic in topics if topic.id != ZERO_UUID}
        other = self.differ(found) and connected_at >= self._confirmed_at
        self._ids = {name: known for name, known in (self._ids | found).items() if name in used}
        self._confirmed_at = now
        return other

    def confirm(self, found: Mapping[str, bytes], now: float) -> None:
        """Note that a broker has topics with the known ids, of which it was asked when its connection was made."""
        if found.items() & self._ids.items():
            self._confirmed_at = now

    def differ(self, found: Mapping[str, bytes]) -> bool:
        """Return whether known topics have other ids, and none has its own. Topics that are not found do not count."""
        same = [found[name] == self._ids[name] for name in found.keys() & self._ids.keys()]
        return bool(same) and not any(same)

    def sample(self, topics: Mapping[str, Topic]) -> Collection[str]:
        """A few topics with known ids, those with the fewest partitions: the response has all of their partitions."""
        return sorted(self._ids, key=lambda name: (len(topics[name].leaders) if name in topics else 0, name))[:ASKED]
