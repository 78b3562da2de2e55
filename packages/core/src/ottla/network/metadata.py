"""What we know of the cluster, which topics we want to know of, and when to ask again.

Callers wait here for a topic; the I/O thread brings the answers. It knows neither requests nor connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from ottla.concurrency.locks import SignalSafeLock
from ottla.errors import BrokerError, ErrorCode, OttlaError, SecurityError, TopicUnavailableError, counted
from ottla.network.backoff import Backoff
from ottla.network.cluster import NO_LEADER, Broker, Cluster, Topic

_NEVER = float("-inf")

_OFTEN_ENOUGH = 0.1
"""A topic's use is noted again after so many seconds: batch by batch it would be too dear."""

_MOST_HINTS = 2
"""So many leaders in a row are taken from answers; then metadata has to name one. A leader may well move twice before
anything reaches it, while brokers are restarted; brokers that go on naming others are lost, or lie."""

_NEWS_TAKE = 1.0
"""Seconds until every broker's metadata certainly has a broker that another one's answer names."""

_FINAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


@attrs.frozen(kw_only=True)
class Wanted:
    """What to ask for: all topics in use, or, `partial`, only new ones."""

    topics: Sequence[str]
    partial: bool


class Metadata:
    """The cluster snapshot and its upkeep. `wait_for` and `cluster` are for any thread, the rest for the I/O thread."""

    def __init__(
        self,
        *,
        bootstrap: Iterable[tuple[str, int]],
        max_age: float,
        max_idle: float,
        refresh_backoff: Backoff,
        wake: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self._bootstrap = {-1 - n: Broker(id=-1 - n, host=host, port=port) for n, (host, port) in enumerate(bootstrap)}
        self.cluster = Cluster(brokers=self._bootstrap, bootstrap=True)
        self._max_age = max_age
        self._max_idle = max_idle
        self._refresh_backoff = refresh_backoff
        self._wake = wake
        self._clock = clock
        self.on_change: Callable[[], object] = lambda: None
        """Called when the cluster has been replaced, with no lock held that a caller could want."""
        self._changed = SignalSafeLock()
        self._used_at: dict[str, float] = {}
        self._wanted = True
        self._new: set[str] = set()  # topics in use that no answer has told of
        self._updated_at = float("-inf")
        self._failing_since: float | None = None
        self._retry_at = float("-inf")
        self.hints: dict[tuple[str, int], int] = {}
        """By partition, the leaders in a row that answers have named since a record of it was acknowledged."""
        self._advertised: Mapping[int, Broker] = self._bootstrap  # as metadata has it, without the brokers of hints
        self._stranger: Broker | None = None  # named by a hint only
        self._stranger_since = _NEVER
        self._strangers = 0  # in a row that metadata did not have either
        self._stranger_at = _NEVER  # when the next one may be tried
        self._failures = 0
        self._repeats = 0  # answers that told nothing new, one asked for right after the other
        self._moves = 0  # answers with other brokers than the one before, of those asked for right after another
        self._error: OttlaError | None = None
        self._fatal_error: OttlaError | None = None
        self._refusal: OttlaError | None = None

    @property
    def topics(self) -> list[str]:
        """The topics in use."""
        with self._changed:
            return sorted(self._used_at)

    @property
    def bootstrap_addresses(self) -> Collection[tuple[str, int]]:
        """Where to begin, as it was configured."""
        return {(broker.host, broker.port) for broker in self._bootstrap.values()}

    def age(self, now: float) -> float:
        """The seconds since the cluster last told of all topics in use; NaN: it has not."""
        return now - self._updated_at if self._updated_at > float("-inf") else float("nan")

    @property
    def last_error(self) -> OttlaError | None:
        """What went wrong last, since metadata came."""
        return self._error

    @property
    def fatal_error(self) -> OttlaError | None:
        """Why every server refuses us, for a reason that waiting does not mend; None: it is not so."""
        return self._fatal_error

    # For the callers of the producer

    def wait_for(self, topic: str, *, partition: int | None, timeout: float, waited: float = 0.0) -> Topic:
        """The topic, with *partition* among its own, waiting at most *timeout* seconds for the cluster to tell.

        The seconds that the same call has *waited* already are part of the time-out.
        Raises TopicUnavailableError, which says what stood in the way; at once when waiting cannot help. Raises
        SecurityError when no server lets us in.
        """
        deadline = self._clock() + timeout - waited
        self.use(topic, self._clock())
        with self._changed:
            while True:
                if self._refusal is not None:
                    raise self._refusal
                known = self.cluster.topics.get(topic)
                if known is not None:
                    if known.leaders and (partition is None or partition < len(known.leaders)):
                        return known
                    if known.error in _FINAL_TOPIC_ERRORS:
                        raise TopicUnavailableError(f"topic {topic!r} cannot be used") from BrokerError(known.error)
                if isinstance(self._fatal_error, SecurityError):
                    raise self._fatal_error.with_traceback(None)
                if self._fatal_error is not None:
                    raise self._without_servers(topic)
                remaining = deadline - self._clock()
                if remaining <= 0:
                    raise self._unavailable(topic, known, partition, timeout)
                if known is None:
                    self._new.add(topic)
                else:
                    self._wanted = True
                self._wake()
                self._changed.wait(remaining)

    def use(self, topic: str, now: float) -> None:
        """Note that a topic is in use; a new one is asked for at once."""
        if now - self._used_at.get(topic, _NEVER) < _OFTEN_ENOUGH:
            return
        with self._changed:
            if topic not in self._used_at:
                self._new.add(topic)
                self._retry_at = float("-inf")
            self._used_at[topic] = now

    def _unavailable(
        self, topic: str, known: Topic | None, partition: int | None, timeout: float
    ) -> TopicUnavailableError:
        cause: OttlaError | None = self._error
        if known is not None and known.leaders:
            why = f"partition {partition} does not exist; the topic has {len(known.leaders)}, counted from 0"
        elif known is not None and known.error is not ErrorCode.NONE:
            cause = BrokerError(known.error)
            why = f"{str(cause).rstrip('.')}; does it exist, and may this client see it?"
        elif cause is not None:
            why = f"no broker answered; last error: {cause}"
        else:
            why = "no broker answered"
        error = TopicUnavailableError(f"topic {topic!r} was not available within max.block.ms ({timeout:g} s): {why}")
        error.__cause__ = cause
        return error

    def _without_servers(self, topic: str) -> TopicUnavailableError:
        error = TopicUnavailableError(f"topic {topic!r} is not available: {self._fatal_error}")
        error.__cause__ = self._fatal_error
        return error

    # For the I/O thread

    def missing(self, topic: str, partition: int) -> TopicUnavailableError | None:
        """Why records for a partition have nowhere to go: the topic or the partition is not there any more."""
        known = self.cluster.topics.get(topic)
        if known is None:
            return None
        if known.error is not ErrorCode.NONE and not known.leaders:
            cause = BrokerError(known.error)
            error = TopicUnavailableError(
                f"topic {topic!r} cannot be used: {str(cause).rstrip('.')}; it may have been deleted, or this user may "
                "no longer describe it"
            )
            error.__cause__ = cause
            return error
        if known.leaders and partition >= len(known.leaders):
            return TopicUnavailableError(
                f"partition {partition} of topic {topic!r} does not exist any more: the topic was created anew with "
                f"{counted(len(known.leaders), 'partition')}, counted from 0; send these records again"
            )
        return None

    def request_update(self) -> None:
        """Ask for metadata as soon as the backoff allows."""
        self._wanted = True

    def due_at(self) -> float:
        """When the next request should be made."""
        wanted = self._wanted or bool(self._new)
        return max(self._retry_at, float("-inf") if wanted else self._updated_at + self._max_age)

    def begin(self, now: float) -> Wanted:
        """A request is on its way, for this; what is wanted from now on needs another."""
        with self._changed:
            partial = not self._wanted and now < self._updated_at + self._max_age
            topics = sorted(self._new if partial else self._used_at)
            self._new.clear()
            self._wanted = False
        if now - self._retry_at > self._refresh_backoff.maximum:
            self._repeats = self._moves = 0
        self._retry_at = now + self._refresh_backoff.delay(max(self._failures, self._repeats, self._moves))
        self._failing_since = now if self._failing_since is None else self._failing_since
        return Wanted(topics=topics, partial=partial)

    def seconds_without_update(self, now: float) -> float:
        """For how many seconds metadata has been asked for without an answer that could be used."""
        return 0.0 if self._failing_since is None else now - self._failing_since

    def fail(self, error: OttlaError, now: float) -> None:
        """The request came to nothing; it is wanted again, after a backoff. Waiters learn of *error* in the end."""
        with self._changed:
            self._error = error
            self._wanted = True
            self._retry_at = now + self._refresh_backoff.delay(self._failures)
            self._failures += 1

    def rebootstrap(self, now: float) -> None:
        """Forget the brokers and ask the bootstrap servers, at once (KIP-899, KIP-1102); topics stay known."""
        with self._changed:
            self.cluster = Cluster(brokers=self._bootstrap, topics=self.cluster.topics, bootstrap=True)
            self._advertised, self._stranger = self._bootstrap, None
            self._wanted = True
            self._retry_at = float("-inf")
            self._failing_since = now
        self.on_change()

    def move_leader(self, topic: str, partition: int, leader: Broker, epoch: int, now: float) -> bool:
        """Take over what a broker said of the leader of a partition (KIP-951); False: we know better already.

        After two in a row for one partition metadata is asked for in place of a third. A broker that metadata does not
        have, or has elsewhere, is taken over once, and metadata asked for. Until that has it no other one is, and after
        each that it did not get within a second there is a backoff: what answers name must not lead to any number of
        connections.
        """
        place = (topic, partition)
        with self._changed:
            known = self.cluster.topics.get(topic)
            if known is None or partition >= len(known.epochs) or epoch <= known.epochs[partition]:
                return False
            if self.hints.get(place, 0) >= _MOST_HINTS or not self._may_lead(leader, now):
                self._wanted = True
                return False
            self.hints[place] = self.hints.get(place, 0) + 1
            leaders, epochs = list(known.leaders), list(known.epochs)
            leaders[partition], epochs[partition] = leader.id, epoch
            moved = attrs.evolve(known, leaders=tuple(leaders), epochs=tuple(epochs))
            self.cluster = attrs.evolve(
                self.cluster,
                brokers={**self.cluster.brokers, leader.id: leader},
                topics={**self.cluster.topics, topic: moved},
            )
        self.on_change()
        return True

    def fail_fatally(self, error: OttlaError) -> None:
        """Every server refuses us, for a reason that waiting does not mend: who waits is told so now.

        Until an answer comes after all.
        """
        with self._changed:
            self._fatal_error = error
            self._changed.notify_all()

    def note(self, error: OttlaError) -> None:
        """Remember a network error: a caller whose wait ends in vain is told of it."""
        self._error = error

    def update(
        self, brokers: Mapping[int, Broker], topics: Mapping[str, Topic], now: float, *, partial: bool = False
    ) -> None:
        """Take over an answer, keep leaders whose term is newer than the answer's, drop what is idle.

        A *partial* answer is about some topics only, and makes the others no younger.
        """
        with self._changed:
            self._failures = 0
            self._error = self._fatal_error = None
            self._failing_since = None
            if not partial:
                self._updated_at = now
            # Each other address is a new connection, and a login: answers must not lead to ten in a second.
            if not self.cluster.bootstrap and brokers != self._advertised:
                self._moves += 1
            brokers = self._with_stranger(brokers, now)
            self._used_at = {t: at for t, at in self._used_at.items() if now - at < self._max_idle}
            known = {name: topic for name, topic in self.cluster.topics.items() if name in self._used_at}
            merged = known | {name: _newer(known.get(name), topic, brokers) for name, topic in topics.items()}
            if self.hints:
                self.hints = {place: count for place, count in self.hints.items() if place[0] in merged}
            updated = Cluster(brokers=brokers, topics=merged)
            self._repeats = self._repeats + 1 if updated == self.cluster else 0
            self.cluster = updated
            if any(not topic.leaders or NO_LEADER in topic.leaders for topic in topics.values()):
                self._wanted = True
            self._changed.notify_all()
        self.on_change()

    def _may_lead(self, leader: Broker, now: float) -> bool:
        """Whether a broker that a hint names is one that metadata has, or the only other one now."""
        if leader in (self._advertised.get(leader.id), self._stranger):
            return True
        if self._stranger is not None or now < self._stranger_at:
            return False
        self._stranger, self._stranger_since, self._wanted = leader, now, True
        return True

    def _with_stranger(self, brokers: Mapping[int, Broker], now: float) -> Mapping[int, Broker]:
        """The brokers of an answer, and the one that a hint named, for as long as the answer may be too old for it."""
        self._advertised = brokers
        stranger = self._stranger
        if stranger is None:
            return brokers
        if brokers.get(stranger.id) == stranger:
            self._stranger, self._strangers = None, 0
        elif now - self._stranger_since < _NEWS_TAKE:
            self._wanted = True
            return {**brokers, stranger.id: stranger}
        else:
            self._stranger, self._stranger_at = None, now + self._refresh_backoff.delay(self._strangers)
            self._strangers += 1
        return brokers

    def close(self, refusal: OttlaError) -> None:
        """Wake everybody who waits, with *refusal*."""
        with self._changed:
            self._refusal = refusal
            self._changed.notify_all()


def _newer(known: Topic | None, answer: Topic, brokers: Collection[int]) -> Topic:
    """The answer, but with the leaders we know where the answer's are of an older term (KIP-320).

    Not where such a leader is none of the answer's *brokers*: only a hint has named it, and it must not keep the
    partition without a leader for ever.
    """
    if known is None or known.id != answer.id or not answer.leaders:
        return answer
    leaders, epochs = list(answer.leaders), list(answer.epochs)
    for partition, epoch in enumerate(known.epochs[: len(epochs)]):
        if epoch > epochs[partition] >= 0 and known.leaders[partition] in brokers:
            leaders[partition], epochs[partition] = known.leaders[partition], epoch
    return attrs.evolve(answer, leaders=tuple(leaders), epochs=tuple(epochs))
