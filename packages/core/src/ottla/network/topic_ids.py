"""The ids of topics, by which a cluster that was set up again with the id of the one before is told apart from it.

Many clusters have an id that their operator chose, as in most compose files. Topics get random ids (KIP-516), so a
cluster in which no topic has kept its id is another one, or its topics were all deleted and created again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.network.cluster import Topic
from ottla.protocol.notation import ZERO_UUID

ASKED: Final = 3
"""The topics of which a new connection is asked: one that has kept its id is enough."""


class _Known(NamedTuple):
    """The id of a topic, and when a broker had it the last time."""

    id: bytes
    seen_at: float


class TopicIds:
    """The last known ids of the topics in use; a topic that does not exist for a while keeps the one that it had.

    Brokers before Kafka 2.8 send none. For the I/O thread.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def update(self, topics: Iterable[Topic], *, used: Collection[str], now: float, connected_at: float) -> bool:
        """Learn the ids of a response. Return whether they may be those of another cluster.

        Only ids that were seen before its connection was made, at *connected_at*, say something about that: since then
        its broker has been running, and it does not change its cluster.
        """
        found = {topic.name: topic.id for topic in topics if topic.id != ZERO_UUID}
        other = self._differ(found, seen_until=connected_at)
        self._known = {name: known for name, known in self._known.items() if name in used}
        self._known.update((name, _Known(topic_id, now)) for name, topic_id in found.items() if name in used)
        return other

    def check(self, found: Mapping[str, bytes], now: float) -> bool:
        """Return whether the ids that a new connection was asked for are those of this cluster."""
        if self._differ(found):
            return False
        for name, topic_id in found.items():
            if name in self._known and self._known[name].id == topic_id:
                self._known[name] = _Known(topic_id, now)
        return True

    def sample(self, topics: Mapping[str, Topic]) -> Collection[str]:
        """A few topics with known ids, those with the fewest partitions: the response has all of their partitions."""
        return sorted(self._known, key=lambda name: (len(topics[name].leaders) if name in topics else 0, name))[:ASKED]

    def _differ(self, found: Mapping[str, bytes], *, seen_until: float = float("inf")) -> bool:
        """Return whether known topics have other ids, and none has its own. Topics that are not found do not count."""
        kept = [
            found[name] == known.id
            for name, known in self._known.items()
            if name in found and known.seen_at <= seen_until
        ]
        return bool(kept) and not any(kept)
