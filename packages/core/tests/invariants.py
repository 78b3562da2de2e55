"""What must hold in every simulated history, while batches arrive at their brokers and when all is over.

Each function raises `Violation`, which says what was broken and by which record or batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import attrs
import error_copies

from ottla import RecordMetadata
from ottla.errors import (
    AuthenticationError,
    BrokerError,
    BufferExhaustedError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    FatalTransactionError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    TopicUnavailableError,
    TransactionAbortedError,
)
from ottla.network.cluster import Cluster
from ottla.protocol import PRODUCE
from ottla_testkit.simulation import BatchArrival, Link, SimulatedCluster, SimulatedTopic
from ottla_testkit.simulation.planned_faults import (
    DeletedRecords,
    DeniedTopic,
    DeniedTransactionalId,
    Fault,
    FencedProducer,
    ForgottenIds,
    ForgottenProducers,
    MovedLeader,
    RecreatedTopic,
    RefusedLogin,
    ReplacedCluster,
    ReplacedCoordinator,
    SmallBatches,
    StoppedProcess,
    TimedOutTransaction,
    UncleanElection,
)

_OF_OTHER_TRANSACTIONS: Final = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE)

GRACE: Final = 8.0
"""Seconds after a fault in which it may still be the reason of a failure: backoffs, new connections, a full queue."""

SOON: Final = 0.25
"""Seconds by which a call may overstep its time-out."""

FIRST_THAT_THROTTLES: Final = 6
"""From this version of Produce on, the client waits after a throttled response, not the broker before it (KIP-219)."""

RECORD_COST: Final = 100
"""Bytes that a record alone in its batch has at most, besides its value."""

REFUSALS: Final = (BufferExhaustedError, TopicUnavailableError, RecordTooLargeError, SerializationError)
"""The errors of a `send` whose record is not queued, and that may be called again."""


ForgetfulFault: TypeAlias = RecreatedTopic | ForgottenProducers | DeletedRecords | ReplacedCluster
"""A fault by which brokers may lose the state of producers."""


class Violation(AssertionError):
    """A history broke a promise."""


class Outcome(Protocol):
    """The outcome of a record: its delivery, or a row of a table's."""

    @property
    def error(self) -> DeliveryError | None: ...

    @property
    def metadata(self) -> RecordMetadata | None: ...

    def done(self) -> bool: ...


@attrs.define(eq=False, kw_only=True)
class Sent:
    """A record that was queued, and each call of its callback: the time, and the error or None."""

    program: int
    number: int
    topic: str
    partition: int | None
    size: int
    sent_at: float
    queued_at: float = float("inf")
    delivery: Outcome | None = None  # None: the call has not returned, so it is not known which partition it goes to
    calls: list[tuple[float, DeliveryError | None]] = attrs.field(factory=list)
    metadata: RecordMetadata | None = None
    """What the callback got."""
    abandoned: bool = False
    """Whether the event loop of its callback was closed before it had an outcome."""

    @property
    def name(self) -> tuple[int, int]:
        """The program and the number: what the record's value begins with."""
        return self.program, self.number

    @property
    def error(self) -> DeliveryError | None:
        return self.calls[0][1] if self.calls else None

    @property
    def acknowledged(self) -> bool:
        return bool(self.calls) and self.calls[0][1] is None

    @property
    def completed_at(self) -> float:
        return self.calls[0][0] if self.calls else float("inf")

    def __str__(self) -> str:
        return f"record {self.program}:{self.number} for {self.topic}"


@attrs.define(kw_only=True)
class History:
    """What was seen of one history. `topics` has deleted ones, too."""

    idempotent: bool
    in_order: bool
    patient: bool
    may_end: bool
    """Whether an error may end the producer for good, because its brokers give it no new epoch."""
    delivery_timeout: float
    prompt: float
    """Seconds within which each record has its outcome; infinity if there are faults."""
    faults: Sequence[Fault]
    topics: Sequence[SimulatedTopic]
    sent: Sequence[Sent]
    keeps_epoch: bool = False
    """Whether a transaction has the epoch of the one before, as before KIP-890."""
    confirmed: bool = True
    """Whether brokers acknowledge records: not with `acks=0`, where a record is complete once it is written."""
    all_replicas: bool = True
    """Whether brokers wait for the replicas in sync before they acknowledge a batch."""
    closes: list[float] = attrs.field(factory=list)
    """The times from which on a `close` may fail records."""
    returned_at: float = float("inf")
    """The time at which the last `close` returned."""
    farthest: float = 0.0
    """Seconds that a round trip to the farthest broker takes, at most."""
    muted_until: float = 0.0
    """When the last pause of a broker's quota ends."""
    refused: set[tuple[int, int]] = attrs.field(factory=set)
    """The records that were not queued, as their `send` said or, if it was cancelled, promises."""
    older_logs: bool = False
    """Whether brokers forget producers with their records, and then refuse what is not their first batch."""
    some_ids: bool = False
    """Whether some brokers send the ids of topics, and some are too old to know them."""
    forgetting: Sequence[ForgetfulFault] = attrs.field(init=False)
    """The faults by which brokers lose the state of producers."""

    @forgetting.default
    def _forgetting(self) -> Sequence[ForgetfulFault]:
        faults = [fault for fault in self.faults if isinstance(fault, ForgetfulFault)]
        return [fault for fault in faults if self.older_logs or not isinstance(fault, DeletedRecords)]


def name_of(value: bytes | None) -> tuple[int, int]:
    """The program and the number of a record, by its value."""
    program, number, _padding = (value or b"").split(b":", 2)
    return int(program), int(number)


def value_of(program: int, number: int, size: int) -> bytes:
    """A value of at least *size* bytes that `name_of` can read."""
    return (b"%d:%d:" % (program, number)).ljust(size, b"x")


class Arrivals:
    """Requests and their batches, checked as they arrive at brokers.

    *throttled*: whether to check that requests wait as brokers ask; the links must not delay what was sent before.
    *faultless*: no fault is the reason to refuse a batch, or to send one again.
    *one_by_one*: a batch leaves only once the one before has its outcome, so each has the number that brokers expect.
    """

    def __init__(self, *, max_in_flight: int, throttled: bool, faultless: bool, one_by_one: bool) -> None:
        self.requests = 0
        self.full_buffers = 0
        """How often a socket's buffer was filled, at least, to send these requests."""
        self._one_by_one = one_by_one
        self._faultless = faultless
        self._arrived: set[tuple[int, int]] = set()
        self._max_in_flight = max_in_flight
        self._throttled = throttled
        self._pauses: dict[Link, tuple[float, float]] = {}
        self._begun: set[tuple[bytes, int, int, int]] = set()
        self.forgotten: set[str] = set()
        """Topics whose brokers have lost the state of producers: any first number may be the next."""

    def on_request(self, link: Link, frame: bytes, *, answered: bool) -> None:
        """Check a request; *answered*: the broker answers it immediately."""
        self.requests += 1
        self.full_buffers += 0 if link.wire.buffer is None else len(frame) // link.wire.buffer
        in_flight = link.requests - link.responses
        if in_flight > self._max_in_flight:
            raise Violation(f"{in_flight} requests in flight to broker {link.broker.id}")
        if not self._throttled or int.from_bytes(frame[:2], "big") != PRODUCE.key:
            return
        now, wire = link.now(), link.wire
        begin, end = self._pauses.get(link, (now, now))
        if begin < now < end and not link.back_lost:
            raise Violation(f"broker {link.broker.id} asked to wait until {end:.3f}, and got a request at {now:.3f}")
        pause = link.broker.throttle_ms / 1000
        if pause and answered and int.from_bytes(frame[2:4], "big") >= FIRST_THAT_THROTTLES:
            self._pauses[link] = (now + wire.round_trip + 2 * wire.jitter + 0.001, now + pause)

    def on_batch(self, arrival: BatchArrival) -> None:
        """Check a batch that arrives at a broker."""
        topic, partition, batch = arrival.topic, arrival.partition, arrival.batch
        code, offset = arrival.code, arrival.offset
        if self._faultless:
            self._arrives_once(arrival)
        if batch.producer_id < 0:
            return
        # An isolated broker does not know that another one leads by now, and has the batches. Outdated metadata of
        # brokers before 2.8, which has no epochs, names it again.
        leads = arrival.broker == topic.leaders[partition]
        refused = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if refused and self._one_by_one and leads and not _is_late_copy(arrival):
            raise Violation(
                f"{topic.name}-{partition}: number {batch.sequence} of epoch {batch.epoch} is not the next one, and no "
                f"batch before it was lost"
            )
        if offset >= 0:
            held = [record.value for record in arrival.records[offset : offset + len(batch.records)]]
            if held != [record.value for record in batch.records]:
                raise Violation(
                    f"{topic.name}-{partition}: number {batch.sequence} of epoch {batch.epoch} was used for other "
                    f"records than those that the broker holds: an acknowledged record is lost"
                )
        epoch = (topic.id, partition, batch.producer_id, batch.epoch)
        written = code == ErrorCode.NONE and topic.name not in self.forgotten
        if epoch not in self._begun and batch.sequence != 0 and written:
            raise Violation(f"{topic.name}-{partition}: epoch {batch.epoch} begins with number {batch.sequence}")
        self._begun.add(epoch)

    def _arrives_once(self, arrival: BatchArrival) -> None:
        names = [name_of(record.value) for record in arrival.batch.records]
        if arrival.code != ErrorCode.NONE:
            raise Violation(f"a batch with record {names[0]} was refused without a fault: code {arrival.code}")
        if not self._arrived.isdisjoint(names):
            raise Violation(f"a batch with record {names[0]} was sent again without a fault")
        self._arrived.update(names)


def _is_late_copy(arrival: BatchArrival) -> bool:
    """Return whether the log has the batch: its connection was slow, and has ended for the producer since."""
    return arrival.batch.records[0].value in {record.value for record in arrival.records}


class LeaderEpochs:
    """The leader epochs that a producer knows: they never go back, whatever an outdated broker says.

    The exception is a leader that only a hint has named, and that is not among the brokers of a later metadata
    response: a false hint must not leave a partition without a leader. *hints*: whether brokers give any. A broker
    before 2.8 has no reliable epochs: with its response the producer forgets what it knew, as Java's does (KAFKA-9212).
    """

    def __init__(self, *, hints: bool) -> None:
        self._hints = hints
        self._known: dict[tuple[str, bytes, int], tuple[int, int]] = {}

    def check(self, cluster: Cluster) -> None:
        """Check the producer's metadata against what it has known before."""
        for name, topic in cluster.topics.items():
            for partition, (epoch, leader) in enumerate(zip(topic.epochs, topic.leaders, strict=True)):
                if epoch < 0:
                    for place in [each for each in self._known if each[::2] == (name, partition)]:
                        del self._known[place]
                    continue
                place = (name, bytes(topic.id), partition)
                known, known_leader = self._known.get(place, (0, leader))
                if 0 <= epoch < known and (known_leader in cluster.brokers or not self._hints):
                    raise Violation(f"{name}-{partition}: the leader of epoch {epoch} replaced that of {known}")
                self._known[place] = (epoch, leader)


ABORTED, COMMITTED, UNKNOWN = "aborted", "committed", "unknown"


class Transactions:
    """The transactions of one producer, and their outcomes as its program knows them."""

    def __init__(self) -> None:
        self._ended: list[tuple[str, Sequence[Sent], int | None]] = []
        self._excused: set[int] = set()

    def excuse(self) -> None:
        """Note that the coordinator loses the transaction that is open, or was committed last.

        That is the last one but one if the program has given the last one up.
        """
        committed = [number for number, (outcome, *_rest) in enumerate(self._ended) if outcome != ABORTED]
        self._excused |= {len(self._ended), *committed[-2:]}

    def note(self, outcome: str, records: Sequence[Sent], offset: int | None) -> None:
        """Add a transaction."""
        self._ended.append((outcome, records, offset))

    def check(self, cluster: SimulatedCluster) -> None:
        """Check that each transaction is visible completely and in order, or not at all, as its outcome says."""
        visible: dict[tuple[int, int], int] = defaultdict(int)
        for topic in (*cluster.topics.values(), *cluster.deleted):
            for partition in topic.log:
                names = _committed(topic, partition, older_logs=cluster.older_logs)
                for program in {name[0] for name in names}:
                    numbers = [name[1] for name in names if name[0] == program]
                    if numbers != sorted(numbers):
                        raise Violation(f"{topic.name}-{partition}: records of {program} are out of order: {numbers}")
                for name in names:
                    visible[name] += 1
        for number, (outcome, records, _offset) in enumerate(self._ended):
            if number in self._excused:
                continue
            counts = {visible[record.name] for record in records if record.delivery is not None}
            if len(counts) > 1 or counts - {0, 1}:
                raise Violation(f"a transaction of {len(records)} records is visible in part, or twice: {records[0]}")
            expected = {COMMITTED: {1}, ABORTED: {0}}.get(outcome, counts)
            if counts and counts != expected:
                raise Violation(f"{records[0]} is part of a transaction that was {outcome}; visible: {counts}")
        if not self._excused:
            self._check_offsets(cluster)

    def _check_offsets(self, cluster: SimulatedCluster) -> None:
        known = [offset for outcome, _records, offset in self._ended if outcome == COMMITTED and offset is not None]
        unknown = [offset for outcome, _records, offset in self._ended if outcome == UNKNOWN and offset is not None]
        allowed = {max(known, default=0), *unknown}
        found = cluster.transactions.committed_offsets.get(("g", "in", 0), 0)
        if found not in allowed:
            raise Violation(f"the committed offset is {found}, and should be in {allowed}")


def _committed(topic: SimulatedTopic, partition: int, *, older_logs: bool) -> Sequence[tuple[int, int]]:
    """The records that a reader of committed ones gets or, before their deletion, got.

    With *older_logs*, a record whose response was lost is written again after its deletion: no copy of it is known.
    """
    every = [name_of(value) for value in topic.committed(partition, deleted=True)]
    if not older_logs:
        return every
    kept = [name_of(value) for value in topic.committed(partition)]
    return [*sorted(set(every).difference(kept)), *kept]


def check(history: History) -> None:
    """Check everything that must hold at the end."""
    each_has_one_outcome(history)
    logs_agree_with_outcomes(history)
    nothing_failed_needlessly(history)
    all_completed_in_time(history)


def each_has_one_outcome(history: History) -> None:
    """Check that each record has its outcome, and that each callback was called once, with the same outcome."""
    for record in history.sent:
        if record.delivery is None:
            continue
        if record.abandoned:
            if not record.delivery.done():
                raise Violation(f"{record} has no outcome after close")
            record.calls = [(record.queued_at, record.delivery.error)]
            record.metadata = record.delivery.metadata
        if len(record.calls) != 1:
            raise Violation(f"the callback of {record} was called {len(record.calls)} times")
        if not record.delivery.done():
            raise Violation(f"{record} has no outcome after close")
        if not error_copies.same(record.delivery.error, record.error):
            raise Violation(
                f"the callback of {record} got {record.error!r}, and its delivery {record.delivery.error!r}"
            )
        if record.delivery.metadata != record.metadata:
            raise Violation(f"the callback of {record} got {record.metadata}, its delivery {record.delivery.metadata}")
        if record.completed_at > history.returned_at:
            raise Violation(f"{record} was open after close had returned")


def logs_agree_with_outcomes(history: History) -> None:
    """Check each log against the outcomes: nothing lost, doubled or out of order, and no false report."""
    by_name = {record.name: record for record in history.sent}
    places: dict[tuple[int, int], list[tuple[SimulatedTopic, int, int]]] = defaultdict(list)
    for topic in history.topics:
        for partition, log in topic.log.items():
            for offset, written in enumerate(log):
                places[name_of(written.value)].append((topic, partition, offset))
    lost = set(lost_by_brokers(history))
    for name in history.refused:
        if name in places:
            raise Violation(f"record {name[0]}:{name[1]} was not queued, and is at {_places(places[name])}")
    for record in history.sent:
        found = places.get(record.name, [])
        if record.delivery is None:
            if len(found) > 1 and history.idempotent and not _state_was_lost(history, record):
                raise Violation(f"{record} was written {len(found)} times: {_places(found)}")
            continue
        excused = record.name in lost or (not history.confirmed and history.faults)
        if record.acknowledged and not found and not excused:
            raise Violation(f"{record} was acknowledged and is lost")
        if record.error is not None and not record.error.possibly_persisted and found:
            raise Violation(f"{record} was reported as not written, and is at {_places(found)}: {record.error}")
        if len(found) > 1 and history.idempotent and not _state_was_lost(history, record):
            raise Violation(f"{record} was written {len(found)} times: {_places(found)}")
        if record.name not in lost:
            _metadata_are_true(record, found)
    for topic in history.topics:
        for partition, log in topic.log.items():
            names = [name_of(written.value) for written in log]
            _in_order(history, topic, partition, [by_name[name] for name in names if name in by_name])


def lost_by_brokers(history: History) -> Iterator[tuple[int, int]]:
    """The records that brokers acknowledged and lost, each as often as it was acknowledged.

    Brokers may do so only if they did not wait for replicas, or by an unclean election.
    """
    for topic in history.topics:
        for partition, replicated in topic.replicated.items():
            for record in replicated.lost_records():
                if history.all_replicas and not replicated.unclean_elections:
                    raise Violation(f"the model is wrong: {topic.name}-{partition} lost {record.value!r}")
                yield name_of(record.value)


def nothing_failed_needlessly(history: History) -> None:
    """Check that a fault explains each failure: one that was there while the record waited, and could cause it."""
    if history.may_end:
        return
    alone = len({type(fault) for fault in history.faults}) == 1
    for record in history.sent:
        error = record.error
        if error is None or record.abandoned:  # it is not known when it failed
            continue
        if isinstance(error, TransactionAbortedError):
            continue  # its program aborted it, or a record before it failed
        if isinstance(error.__cause__, ProducerClosedError):
            if record.completed_at < min(history.closes) - 0.001:
                raise Violation(f"{record} failed before the time-out of close: {error}")
            continue
        if history.keeps_epoch and _may_be_overtaken(record, error, faults=history.faults):
            continue
        if _is_behind_a_failed_one(record, error, sent=history.sent):
            continue
        if history.muted_until >= record.queued_at + history.delivery_timeout:
            continue  # for a large request, the pause of a quota may be longer than `delivery.timeout.ms`
        if isinstance(error, DeliveryTimeoutError) and _is_far_behind(record, history):
            continue
        faults = [each for each in history.faults if not isinstance(each, DeletedRecords) or history.older_logs]
        if not any(_may_explain(fault, record, patient=history.patient, alone=alone) for fault in faults):
            raise Violation(f"{record} failed without need: {error}")


def all_completed_in_time(history: History) -> None:
    """Check that no record was open for longer than `delivery.timeout.ms`; without faults, only for a moment."""
    stopped = sum(fault.seconds for fault in history.faults if isinstance(fault, StoppedProcess))
    limit = min(history.delivery_timeout, history.prompt) + stopped + SOON
    for record in history.sent:
        if record.delivery is not None and record.completed_at - record.queued_at > limit:
            raise Violation(f"{record} was open for {record.completed_at - record.queued_at:.3f} s")


def _may_explain(fault: Fault, record: Sent, *, patient: bool, alone: bool) -> bool:
    """Return whether a fault can be the reason of a failure; *alone*: all faults are of its kind."""
    ended = float("inf") if isinstance(fault, _FOR_GOOD) else fault.until + GRACE
    if fault.at > record.completed_at or ended < record.sent_at:
        return False
    if not patient:
        return True
    # A patient history has only codes that pass, and faults that end long before `delivery.timeout.ms`.
    if isinstance(fault, SmallBatches):
        return fault.topic == record.topic and (not alone or record.size + RECORD_COST > fault.max_message_bytes)
    if isinstance(fault, FencedProducer | TimedOutTransaction | DeniedTransactionalId):
        return True
    if isinstance(fault, ReplacedCoordinator) and record.error is not None:
        return isinstance(record.error.__cause__, FatalTransactionError)
    if isinstance(fault, ReplacedCluster | ForgottenIds):
        # Until its topics or its coordinator are known to be others, transactions are those of the cluster before.
        cause = record.error.__cause__ if record.error is not None else None
        unknown = isinstance(cause, BrokerError) and cause.code in _OF_OTHER_TRANSACTIONS
        return unknown or isinstance(cause, FatalTransactionError)
    if isinstance(fault, RefusedLogin):
        return isinstance(record.error.__cause__ if record.error is not None else None, AuthenticationError)
    if isinstance(fault, DeniedTopic):
        return fault.topic == record.topic
    if isinstance(fault, DeletedRecords) and not (record.error is not None and record.error.possibly_persisted):
        return False
    forgets = RecreatedTopic | ForgottenProducers | DeletedRecords | UncleanElection
    return isinstance(fault, forgets) and fault.topic == record.topic


def _is_far_behind(record: Sent, history: History) -> bool:
    """Return whether the records that were queued before this one take half of its time, one by one."""
    waiting = [
        other
        for other in history.sent
        if other.topic == record.topic and other.queued_at <= record.queued_at < other.completed_at
    ]
    return len(waiting) * history.farthest > history.delivery_timeout / 2


def _is_behind_a_failed_one(record: Sent, error: DeliveryError, *, sent: Sequence[Sent]) -> bool:
    """Return whether the broker lacks a batch before this one of the same transaction, which has failed.

    Both were in flight. The first was to be sent again when the program aborted, and was dropped.
    """
    cause = error.__cause__
    if not isinstance(cause, BrokerError) or cause.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return False
    return any(
        isinstance(other.error, TransactionAbortedError)
        and (other.topic, other.program) == (record.topic, record.program)
        and other.number < record.number
        and other.completed_at <= record.completed_at
        and record.sent_at <= other.completed_at
        for other in sent
    )


def _may_be_overtaken(record: Sent, error: DeliveryError, *, faults: Sequence[Fault]) -> bool:
    """Return whether a copy of a batch of the transaction before, late because of a fault, may have come before.

    A broker that verifies transactions refuses the copy, but waits for its number from then on. So it refuses the first
    batch of the next transaction, which has a higher number.
    """
    cause = error.__cause__
    refused = isinstance(cause, BrokerError) and cause.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return refused and any(fault.at <= record.completed_at for fault in faults)


_FOR_GOOD: Final = (
    FencedProducer
    | DeniedTransactionalId
    | TimedOutTransaction
    | MovedLeader
    | ReplacedCluster
    | ReplacedCoordinator
    | ForgottenIds
)
"""Faults that a record may fail for at any later time. The next record for a partition notices its new leader; if
metadata takes longer than `retry.backoff.ms`, its retries go to the old one.
"""


def _metadata_are_true(record: Sent, found: Sequence[tuple[SimulatedTopic, int, int]]) -> None:
    assert record.delivery is not None, "only of records that were queued"
    metadata = record.delivery.metadata
    if metadata is None:
        return
    times = {
        topic.log[partition][offset].timestamp_ms if topic.append_time else record.number
        for topic, partition, offset in found
        if offset == metadata.offset
    }
    if metadata.timestamp_ms not in (times or {record.number}):
        raise Violation(f"{record} was reported with another timestamp: {metadata}")
    if metadata.offset < 0:
        return
    if not any((partition, offset) == (metadata.partition, metadata.offset) for _topic, partition, offset in found):
        raise Violation(f"{record} was reported at {metadata}, and is at {_places(found)}")


def _in_order(history: History, topic: SimulatedTopic, partition: int, log: Sequence[Sent]) -> None:
    """Check that the acknowledged records of each program are in the order in which it sent them."""
    if not history.in_order:
        return
    newest: dict[int, int] = {}
    written: set[tuple[int, int]] = set()
    for record in log:
        if not record.acknowledged or record.name in written or _state_was_lost(history, record):
            continue
        written.add(record.name)
        if record.number < newest.get(record.program, -1):
            raise Violation(f"{topic.name}-{partition}: {record} is behind number {newest[record.program]}")
        newest[record.program] = record.number


def _state_was_lost(history: History, record: Sent) -> bool:
    """Return whether brokers lost the producer's state while a copy of the record was under way, or just before.

    Then no producer can know what is written: a broker without state takes any number as the first. A process that was
    stopped has metadata of before. Of two unclean elections, the first leader has lost the copy, and the second one has
    it. If the id of only one topic is known, and changes, the cluster seems to be another one.
    """
    elected = Counter(
        fault.partition
        for fault in history.faults
        if isinstance(fault, UncleanElection)
        and fault.topic == record.topic
        and record.sent_at <= fault.at <= record.completed_at + GRACE
    )
    return any(times > 1 for times in elected.values()) or any(
        (isinstance(fault, ReplacedCluster) or fault.topic == record.topic or _hides_the_cluster(history, fault))
        and fault.at <= record.completed_at + GRACE
        and record.sent_at <= fault.until + GRACE + stopped_seconds(fault.at, history.faults)
        for fault in history.forgetting
    )


def _hides_the_cluster(history: History, fault: ForgetfulFault) -> bool:
    return history.some_ids and isinstance(fault, RecreatedTopic)


def _places(found: Sequence[tuple[SimulatedTopic, int, int]]) -> str:
    return ", ".join(f"{topic.name}-{partition}@{offset}" for topic, partition, offset in found)


def in_time(what: str, *, began: float, ended: float, timeout: float, faults: Sequence[Fault]) -> None:
    """Check that a call did not overstep its time-out, except while the process was stopped."""
    if ended - began > timeout + SOON and ended - began > timeout + stopped_seconds(began, faults) + SOON:
        raise Violation(f"{what} took {ended - began:.3f} s, and its time-out is {timeout:g} s")


def stopped_seconds(began: float, faults: Sequence[Fault]) -> float:
    """The seconds for which the process is stopped, in all, in faults that end after this time."""
    return sum(fault.seconds for fault in faults if isinstance(fault, StoppedProcess) and fault.until >= began)


def no_busy_rounds(*, polls: int, seconds: float, events: int) -> None:
    """Check that the I/O thread waits while nothing happens."""
    allowed = 300 + 60 * seconds + 12 * events
    if polls > allowed:
        raise Violation(f"{polls} polls in {seconds:.1f} s with {events} events: at most {allowed:.0f} are needed")
