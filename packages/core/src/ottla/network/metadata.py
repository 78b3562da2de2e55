"""Metadata: the cluster, the topics in use, and the time of the next update.

Callers wait here for a topic; the I/O thread delivers the responses. This module uses neither requests nor connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import SignalSafeLock
from ottla.config.wait_limit import WaitLimit
from ottla.errors import OttlaError, SecurityError, TopicUnavailableError
from ottla.errors.notes import unshared
from ottla.network.backoff import Backoff, RetrySchedule
from ottla.network.cluster import Broker, Cluster, Topic
from ottla.network.cluster_ids import ClusterIds
from ottla.network.hinted_broker import HintedBroker
from ottla.network.nonblocking_metadata_wait import MetadataWait
from ottla.network.topic_errors import FINAL_TOPIC_ERRORS, missing_partition, no_servers, not_available, refusal
from ottla.network.topic_ids import TopicIds
from ottla.results.value_methods import ValueMethods

_NEVER = float("-inf")

_OFTEN_ENOUGH = 0.1
"""Seconds between two notes of a topic's use: noting each batch would cost too much."""

_MAX_HINTS = 2
"""The number of leader hints in a row that are followed; then metadata has to name a leader.

During a restart of brokers a leader may well move twice before a record reaches it. Brokers with more hints are
misinformed, or malicious.
"""

_FAILURES = "failed requests"
_REPEATS = "responses without any change"
_MOVES = "responses with other brokers than the one before"
_SHORT_CONNECTIONS = "connections that their broker ended soon"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestedTopics(ValueMethods):
    """The topics to request: all topics in use or, if `partial`, only new ones."""

    topics: Sequence[str]
    partial: bool


class Metadata:
    """The cluster snapshot and its updates. `wait_for` and `cluster` are for any thread, others for the I/O thread."""

    def __init__(
        self,
        *,
        bootstrap: Iterable[tuple[str, int]],
        max_age: float,
        max_idle: float,
        refresh_backoff: Backoff,
        wake: Callable[[], object],
        environment: Environment = SYSTEM,
    ) -> None:
        self._bootstrap = {-1 - n: Broker(id=-1 - n, host=host, port=port) for n, (host, port) in enumerate(bootstrap)}
        self.cluster = Cluster(brokers=self._bootstrap, bootstrap=True)
        self._max_age = max_age
        self._max_idle = max_idle
        self._wake = wake
        self._clock = environment.clock
        self.on_change: Callable[[], object] = lambda: None
        """Called after `cluster` was replaced, without any lock that a caller might need."""
        self.setup: Callable[[], str] = lambda: ""
        """What a connection that is being set up waits for, for errors; empty if there is none. For any thread."""
        self.cluster_ids = ClusterIds()
        # The next six are set by `ottla.transactions`.
        self.checks_clusters = False
        """Whether a broker gets records only after it has named the cluster of this metadata, whose ids are used."""
        self.checks_before_all = False
        """Whether it gets no other request before, either."""
        self.on_other_cluster: Callable[[], object] = lambda: None
        """Called on the I/O thread before any record is sent there, if a response is from another cluster."""
        self.on_other_topics: Callable[[float], bool] = lambda _same_since: True
        """The same if a topic has not kept its id, as in another cluster with the id of the one before.

        The cluster may have been another one until the time that it is called with. Returns whether that matters.
        """
        self.on_uncheckable: Callable[[float], object] = lambda _opened_at: None
        """Called with the time of a new connection if no topic's id is known that would show such a cluster."""
        self.on_only_new_topics: Callable[[float], object] = lambda _opened_at: None
        """Called with the time of a new connection if its response has no topic whose id was known."""
        self.topic_ids = TopicIds()
        self._changed = SignalSafeLock(environment)
        self._used_at: dict[str, float] = {}
        self._wanted = True
        self._new: set[str] = set()  # topics in use that no response has described
        self._updated_at = float("-inf")
        self._created_at = environment.clock()
        self._failing_since: float | None = None
        self._schedule = RetrySchedule(refresh_backoff)
        self._hinted_epochs: dict[tuple[str, int], int] = {}  # that no metadata response has reached yet
        self.hints: dict[tuple[str, int], int] = {}
        """The number of leader hints followed, by partition, since the last acknowledgement of one of its records."""
        self._advertised: Mapping[int, Broker] = self._bootstrap  # by metadata, without brokers from hints
        self._hinted_broker = HintedBroker(refresh_backoff)
        self.last_error: OttlaError | None = None
        """The last error, if it came after the last metadata response."""
        self.fatal_error: OttlaError | None = None
        """The error of a server that refuses us, which a retry cannot fix, once all others have failed, too."""
        self._refusal: OttlaError | None = None

    @property
    def topics(self) -> list[str]:
        """The topics in use."""
        with self._changed:
            return sorted(self._used_at)

    @property
    def bootstrap_addresses(self) -> Collection[tuple[str, int]]:
        """The addresses of the configured bootstrap servers."""
        return {(broker.host, broker.port) for broker in self._bootstrap.values()}

    def age(self, now: float) -> float:
        """Seconds since the last response about all topics in use, or since the start if there was none yet."""
        return now - max(self._updated_at, self._created_at)

    # For callers of the producer

    def wait_for(
        self,
        topic: str,
        *,
        partition: int | None,
        timeout: float,
        waited: float = 0.0,
        limit: str = "max.block.ms",
    ) -> Topic:
        """Wait until metadata has the topic, with *partition* if given, at most *timeout* seconds; return the topic.

        Seconds that the same call has *waited* already count towards the timeout, which errors call *limit*.
        Raises TopicUnavailableError with the cause; immediately if waiting cannot help. Raises SecurityError if no
        server accepts us.
        """
        deadline = self._clock() + timeout - waited
        self.use(topic, self._clock())
        with self._changed:
            while (found := self._find(topic, partition)) is None:
                remaining = deadline - self._clock()
                if remaining <= 0:
                    known, waited_for = self.cluster.topics.get(topic), WaitLimit(timeout, limit)
                    raise not_available(
                        topic, known, partition, waited_for, last_error=self.last_error, setup=self.setup()
                    )
                self._request(topic)
                self._wake()
                self._changed.wait(remaining)
            return found

    def find(self, topic: str, *, partition: int | None) -> Topic | MetadataWait:
        """The topic as `wait_for` returns it, but without blocking: until metadata has it, returns a wait for it."""
        self.use(topic, self._clock())
        with self._changed:
            found = self._find(topic, partition)
            if found is not None:
                return found
            self._request(topic)
            wait = MetadataWait(self._changed, topic, partition)
        self._wake()
        return wait

    def time_out(self, wait: MetadataWait, *, limit: WaitLimit) -> None:
        """End a wait whose time, given by *limit*, has run out: raises as `wait_for` does; returns if it is over."""
        wait.cancel()
        with self._changed:
            if self._find(wait.topic, wait.partition) is None:
                known, error = self.cluster.topics.get(wait.topic), self.last_error
                raise not_available(wait.topic, known, wait.partition, limit, last_error=error, setup=self.setup())

    def _find(self, topic: str, partition: int | None) -> Topic | None:
        """The topic, None while it is not known; raises errors that waiting cannot fix. Under the lock."""
        if self._refusal is not None:
            raise unshared(self._refusal)
        known = self.cluster.topics.get(topic)
        if known is not None:
            if known.leaders and (partition is None or partition < len(known.leaders)):
                return known
            if known.error in FINAL_TOPIC_ERRORS:
                cause = refusal(known.error)
                raise TopicUnavailableError(f"topic {topic!r} cannot be used: {cause}") from cause
        if isinstance(self.fatal_error, SecurityError):
            raise unshared(self.fatal_error)
        if self.fatal_error is not None:
            raise no_servers(topic, self.fatal_error)
        return None

    def _request(self, topic: str) -> None:
        """Request metadata of a topic, or of its further partitions. Under the lock."""
        if topic in self.cluster.topics:
            self._wanted = True
        else:
            self._new.add(topic)

    def use(self, topic: str, now: float) -> None:
        """Note that a topic is in use; a new one is requested immediately."""
        if now - self._used_at.get(topic, _NEVER) < _OFTEN_ENOUGH:
            return
        with self._changed:
            if topic not in self._used_at:
                self._new.add(topic)
                self._schedule.allow_now()
            self._used_at[topic] = now

    # For the I/O thread

    def missing(self, topic: str, partition: int) -> TopicUnavailableError | None:
        """The error for records whose topic or partition no longer exists; None if both exist."""
        known = self.cluster.topics.get(topic)
        return None if known is None else missing_partition(known, partition)

    def request_update(self) -> None:
        """Request metadata as soon as the backoff allows."""
        self._wanted = True

    def due_at(self) -> float:
        """The time of the next request."""
        at = self._schedule.next_at
        if self._wanted or self._new:
            return at
        expires_at = self._updated_at + self._max_age
        return at if at > expires_at else expires_at

    def begin(self, now: float) -> RequestedTopics:
        """Note that a request is sent; return its topics. A later call of `request_update` causes another request."""
        with self._changed:
            partial = not self._wanted and now < self._updated_at + self._max_age
            topics = sorted(self._new if partial else self._used_at)
            self._new.clear()
            self._wanted = False
        if now - self._schedule.next_at > self._schedule.backoff.maximum:
            self._schedule.reset(_REPEATS, _MOVES, _SHORT_CONNECTIONS)
        self._schedule.wait(now)
        self._failing_since = now if self._failing_since is None else self._failing_since
        return RequestedTopics(topics=topics, partial=partial)

    def seconds_without_update(self, now: float) -> float:
        """Seconds for which metadata has been requested without a usable response."""
        return 0.0 if self._failing_since is None else now - self._failing_since

    def fail(self, error: OttlaError, now: float) -> None:
        """Note a failed request, to be repeated after a backoff. Callers that time out get *error* as cause."""
        with self._changed:
            self.last_error = error
            self._wanted = True
            self._schedule.wait(now, _FAILURES)
            self._schedule.count(_FAILURES)

    def rebootstrap(self, now: float) -> None:
        """Forget the brokers and ask the bootstrap servers immediately (KIP-899, KIP-1102); topics stay known."""
        with self._changed:
            self.cluster = Cluster(brokers=self._bootstrap, topics=self.cluster.topics, bootstrap=True)
            self._advertised = self._bootstrap
            self._hinted_broker.forget()
            self._wanted = True
            self._schedule.allow_now()
            self._failing_since = now
        self.on_change()

    def move_leader(self, topic: str, partition: int, leader: Broker, epoch: int, now: float) -> bool:
        """Follow a leader hint of a response (KIP-951) if it is newer than metadata. Return whether it was followed.

        After two hints in a row for a partition, metadata is requested instead of following a third one. A broker that
        metadata lacks, or has at another address, is used for at most a second, and metadata is requested. Until
        metadata has this broker, no other such broker is used. Each one that metadata still lacks after that second
        causes a backoff, which limits the connections that hints cause.
        """
        place = (topic, partition)
        with self._changed:
            known = self.cluster.topics.get(topic)
            if known is None or partition >= len(known.epochs) or epoch <= known.epochs[partition]:
                return False
            if self.hints.get(place, 0) >= _MAX_HINTS or not self._may_lead(leader, now):
                self._wanted = True
                return False
            self.hints[place] = self.hints.get(place, 0) + 1
            leaders, epochs = list(known.leaders), list(known.epochs)
            leaders[partition], epochs[partition] = leader.id, epoch
            self._hinted_epochs[place] = epoch
            moved = attrs.evolve(known, leaders=tuple(leaders), epochs=tuple(epochs))
            self.cluster = attrs.evolve(
                self.cluster,
                brokers={**self.cluster.brokers, leader.id: leader},
                topics={**self.cluster.topics, topic: moved},
            )
        self.on_change()
        return True

    def fail_fatally(self, error: OttlaError) -> None:
        """Note that a server refuses us, which a retry cannot fix, and that no other one works; raise it to waiters.

        The next metadata response ends this state.
        """
        with self._changed:
            self.fatal_error = error
            self._changed.notify_all()

    def note(self, error: OttlaError) -> None:
        """Remember a network error as the cause for callers that time out."""
        self.last_error = error

    def update(
        self,
        brokers: Mapping[int, Broker],
        topics: Mapping[str, Topic],
        now: float,
        *,
        partial: bool = False,
        cluster_id: str | None = None,
        connected_at: float = float("inf"),
    ) -> bool:
        """Apply a metadata response: keep leaders with a newer epoch than the response's, and drop idle topics.

        A *partial* response has some topics only, and does not reset the age of the others. Its connection was made at
        *connected_at*. Return whether its topics may be those of another cluster with the same id, and that matters.
        """
        other_cluster = self.cluster_ids.learn(cluster_id)
        if other_cluster:
            self.topic_ids.forget()
        other_topics = self.topic_ids.update(topics.values(), now=now, connected_at=connected_at)
        if other_cluster:
            self.on_other_cluster()
        elif other_topics:
            other_topics = self.on_other_topics(self.topic_ids.same_since)
        elif not self.topic_ids.compared:
            self.on_only_new_topics(connected_at)
        with self._changed:
            self._schedule.reset(_FAILURES)
            self.last_error = self.fatal_error = None
            self._failing_since = None
            if not partial:
                self._updated_at = now
            # Each changed address causes a new connection and a login: responses must not cause ten of them in a
            # second.
            if not self.cluster.bootstrap and brokers != self._advertised:
                self._schedule.count(_MOVES)
            self._advertised = brokers
            hinted = self._hinted_broker.awaited(brokers, now)
            if hinted is not None:
                self._wanted = True
                brokers = {**brokers, hinted.id: hinted}
            self._used_at = {t: at for t, at in self._used_at.items() if now - at < self._max_idle}
            known = {name: topic for name, topic in self.cluster.topics.items() if name in self._used_at}
            merged = known | {name: self._newer(known.get(name), topic, brokers) for name, topic in topics.items()}
            if self.hints:
                self.hints = {place: count for place, count in self.hints.items() if place[0] in merged}
            updated = Cluster(brokers=brokers, topics=merged)
            if updated == self.cluster:
                self._schedule.count(_REPEATS)
            else:
                self._schedule.reset(_REPEATS)
            self.cluster = updated
            self._new.difference_update(topics)  # a caller that came during the request wanted one of its own
            if any(
                not topic.leaders or not brokers.keys() >= set(merged[name].leaders) for name, topic in topics.items()
            ):
                self._wanted = True
            self._changed.notify_all()
        self.on_change()
        return other_topics

    def _newer(self, known: Topic | None, response: Topic, brokers: Collection[int]) -> Topic:
        """Return the response's topic, but with the known leaders whose epoch is newer than the response's (KIP-320).

        If such a leader is not among *brokers*, the response is outdated, and the partition has no leader until a newer
        one. But if only a hint has named that leader, it is not kept: a false hint would leave the partition without a
        leader for ever.
        """
        if known is None or known.id != response.id or not response.leaders:
            return response
        leaders, epochs = list(response.leaders), list(response.epochs)
        for partition, epoch in enumerate(known.epochs[: len(epochs)]):
            place = (response.name, partition)
            if epochs[partition] >= self._hinted_epochs.get(place, epoch):
                self._hinted_epochs.pop(place, None)
            if epoch > epochs[partition] >= 0:
                if known.leaders[partition] in brokers or place not in self._hinted_epochs:
                    leaders[partition], epochs[partition] = known.leaders[partition], epoch
                else:
                    self._hinted_epochs.pop(place, None)
        return attrs.evolve(response, leaders=tuple(leaders), epochs=tuple(epochs))

    def _may_lead(self, leader: Broker, now: float) -> bool:
        """Return whether a hint's broker is in metadata, or is the single other broker that may be used now."""
        if leader in (self._advertised.get(leader.id), self._hinted_broker.broker):
            return True
        if not self._hinted_broker.accept(leader, now):
            return False
        self._wanted = True
        return True

    def note_short_connection(self) -> None:
        """Note that a broker ended a connection soon after it was ready; several in a row lengthen the backoff."""
        self._schedule.count(_SHORT_CONNECTIONS)

    def close(self, refusal: OttlaError) -> None:
        """Raise *refusal* in all waiting callers."""
        with self._changed:
            self._refusal = refusal
            self._changed.notify_all()
