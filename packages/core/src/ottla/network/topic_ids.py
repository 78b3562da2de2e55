"""The ids of topics, which show whether a cluster is another one that was set up with the id of the one before.

Many clusters have an id that their operator chose, as in most compose files. Topics get random ids (KIP-516), so a
cluster in which no topic has kept its id is another one, or its topics were all deleted and created again.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.network.cluster import Topic
from ottla.protocol.notation import ZERO_UUID

ASKED: Final = 3
"""The topics of which a new connection is asked: one that has kept its id is enough."""


MOST_KNOWN: Final = 1_000
"""The topics whose ids are kept: a program may use new topics for ever."""


class _Known(NamedTuple):
    """The id of a topic, since when the cluster is the one that has it, and when a broker had it for the last time."""

    id: bytes
    since: float
    seen_at: float


class CheckResult(enum.Enum):
    """What the ids of a new connection's broker say."""

    SAME = "the broker is of the cluster that metadata is from"
    OTHER = "it may be of another one"
    LEARNED = "it may be of another one, whose ids are known now"


class TopicIds:
    """The last known ids of topics; one that does not exist for a while, or is not in use, keeps the one that it had.

    Brokers before Kafka 2.8 send none. For the I/O thread.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._contradiction: Mapping[str, bytes] = {}  # of the last connection whose broker had other ids
        self._contradicted_at = float("-inf")
        self._updated = False  # since that contradiction
        self.compared = True
        """Whether the last response shows which cluster it is of.

        It has a topic whose id was known, or its connection has been there since before one was seen the last time.
        True if no id was known.
        """
        self.same_since = float("inf")
        """Since when the cluster is known to be that of the last response: see `_same_since`."""

    @property
    def any_known(self) -> bool:
        """Return whether the id of any topic is known."""
        return bool(self._known)

    def forget(self) -> None:
        """Forget all ids: they were those of another cluster."""
        self._known.clear()

    def update(self, topics: Iterable[Topic], *, now: float, connected_at: float) -> bool:
        """Learn the ids of a response. Return whether they may be those of another cluster.

        Its connection was made at *connected_at*: since then its broker has been running, and it does not change its
        cluster.
        """
        found = {topic.name: topic.id for topic in topics if topic.id != ZERO_UUID}
        self.same_since = self._same_since(found, connected_at)
        other = self._differ(found, self.same_since)
        self.compared = not self._known or any(
            name in found or connected_at <= each.seen_at for name, each in self._known.items()
        )
        self._updated = True
        self._see(found, now, since=min(now, connected_at))
        return other

    def check(self, found: Mapping[str, bytes], now: float) -> CheckResult:
        """Compare the ids that a broker has, for which a new connection has asked, with those that are known.

        If a broker has other ids, metadata is requested, which learns them. If it does not, because its brokers are too
        old to send ids, or no topic of these is in use, the next contradiction counts instead. If metadata has the
        known ids again, that broker lags behind the others.
        """
        if not self._differ(found, self._same_since(found)):
            kept = {name: each for name, each in found.items() if name in self._known and self._known[name].id == each}
            self._see(kept, now, since=now)
            return CheckResult.SAME
        changed = [each for name, each in self._known.items() if found.get(name, each.id) != each.id]
        confirmed = any(each.seen_at > self._contradicted_at for each in changed)
        if found != self._contradiction or not self._updated or confirmed:
            self._contradiction, self._contradicted_at, self._updated = found, now, False
            return CheckResult.OTHER
        self._see(found, now, since=now)
        return CheckResult.LEARNED

    def sample(self, topics: Mapping[str, Topic]) -> Collection[str]:
        """A few topics with known ids: those in use with the fewest partitions, since the response has all of them."""

        def rank(name: str) -> tuple[bool, int, str]:
            topic = topics.get(name)
            return topic is None, 0 if topic is None else len(topic.leaders), name

        return sorted(self._known, key=rank)[:ASKED]

    def _see(self, found: Mapping[str, bytes], now: float, *, since: float) -> None:
        for name, topic_id in found.items():
            known = self._known.pop(name, None)  # so that the order is that of the last time
            if known is None or known.id != topic_id:
                known = _Known(topic_id, since, now)
            self._known[name] = known._replace(since=min(known.since, since), seen_at=now)
        for name in list(itertools.islice(self._known, max(0, len(self._known) - MOST_KNOWN))):
            del self._known[name]

    def _same_since(self, found: Mapping[str, bytes], connected_at: float = float("inf")) -> float:
        """Return since when the cluster is the same: since a topic has its id, or the connection is there."""
        kept = (each.since for name, each in self._known.items() if found.get(name) == each.id)
        return min(connected_at, min(kept, default=float("inf")))

    def _differ(self, found: Mapping[str, bytes], same_since: float) -> bool:
        """Return whether a topic has another id than it had before the time since when the cluster is the same.

        Topics that are not found do not count.
        """
        known = [(each, found[name]) for name, each in self._known.items() if name in found]
        return any(each.id != topic_id and each.seen_at < same_since for each, topic_id in known)
