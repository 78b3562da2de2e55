"""What must hold in every simulated history, while batches arrive at their brokers and when all is over.

Each function raises `Violation`, which says what was broken and by which record or batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from ottla.accumulator.delivery import Delivery
from ottla.errors import BrokerError, DeliveryError, ErrorCode, ProducerClosedError
from ottla.protocol import PRODUCE
from ottla.recordbatch.parse import RecordBatch
from ottla_testkit.simulation import Link
from ottla_testkit.simulation.brokers import SimulatedTopic
from ottla_testkit.simulation.planned_faults import (
    Fault,
    ForgottenProducers,
    RecreatedTopic,
    SmallBatches,
    StoppedProcess,
)

GRACE: Final = 8.0
"""Seconds after a fault in which it may still be the reason of a failure: backoffs, new connections, a full queue."""

SOON: Final = 0.25
"""Seconds by which a call may overstep its time-out."""

FIRST_THAT_THROTTLES: Final = 6
"""From this version of Produce on, the client waits after a throttled response, not the broker before it (KIP-219)."""


class Violation(AssertionError):
    """A history broke a promise."""


@attrs.define(eq=False, kw_only=True)
class Sent:
    """A record that was queued, and each call of its callback: the time, and the error or None."""

    program: int
    number: int
    topic: str
    partition: int | None
    size: int
    sent_at: float
    delivery: Delivery | None = None  # None: `send` has not returned, so it is not known which partition it goes to
    calls: list[tuple[float, DeliveryError | None]] = attrs.field(factory=list)

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
    def settled_at(self) -> float:
        return self.calls[0][0] if self.calls else float("inf")

    def __str__(self) -> str:
        return f"record {self.program}:{self.number} for {self.topic}"


@attrs.define(kw_only=True)
class History:
    """What was seen of one history. `topics` has deleted ones, too."""

    idempotent: bool
    in_order: bool
    patient: bool
    delivery_timeout: float
    prompt: float
    """Seconds within which each record has its outcome; infinity if there are faults."""
    faults: Sequence[Fault]
    topics: Sequence[SimulatedTopic]
    sent: Sequence[Sent]
    closed_at: float = float("inf")
    """The time at which `close` was called first."""
    returned_at: float = float("inf")
    close_timeout: float | None = None


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
    """

    def __init__(self, *, max_in_flight: int, throttled: bool) -> None:
        self.requests = 0
        self._max_in_flight = max_in_flight
        self._throttled = throttled
        self._pauses: dict[int, tuple[float, float]] = {}  # by connection
        self._begun: set[tuple[bytes, int, int, int]] = set()
        self.forgotten: set[str] = set()
        """Topics whose brokers have lost the state of producers: any first number may be the next."""

    def on_request(self, link: Link, frame: bytes, *, answered: bool) -> None:
        """Check a request; *answered*: the broker answers it immediately."""
        self.requests += 1
        in_flight = link.requests - link.responses
        if in_flight > self._max_in_flight:
            raise Violation(f"{in_flight} requests in flight to broker {link.broker.id}")
        if not self._throttled or int.from_bytes(frame[:2], "big") != PRODUCE.key:
            return
        now, wire = link.now(), link.wire
        begin, end = self._pauses.get(link.node, (now, now))
        if begin < now < end and not link.back_vanishes:
            raise Violation(f"broker {link.broker.id} asked to wait until {end:.3f}, and got a request at {now:.3f}")
        pause = link.broker.throttle_ms / 1000
        if pause and answered and int.from_bytes(frame[2:4], "big") >= FIRST_THAT_THROTTLES:
            self._pauses[link.node] = (now + wire.round_trip + 2 * wire.jitter + 0.001, now + pause)

    def on_batch(self, topic: SimulatedTopic, partition: int, batch: RecordBatch, offset: int) -> None:
        """Check a batch that was judged, with its base offset or -1."""
        if batch.producer_id < 0:
            return
        if offset >= 0:
            held = [record.value for record in topic.log[partition][offset : offset + len(batch.records)]]
            if held != [record.value for record in batch.records]:
                raise Violation(
                    f"{topic.name}-{partition}: number {batch.sequence} of epoch {batch.epoch} was used for other "
                    f"records than those that the broker holds: an acknowledged record is lost"
                )
        epoch = (topic.id, partition, batch.producer_id, batch.epoch)
        if epoch not in self._begun and batch.sequence != 0 and topic.name not in self.forgotten:
            raise Violation(f"{topic.name}-{partition}: epoch {batch.epoch} begins with number {batch.sequence}")
        self._begun.add(epoch)


def check(history: History) -> None:
    """Check everything that must hold at the end."""
    each_has_one_outcome(history)
    logs_agree_with_outcomes(history)
    nothing_failed_needlessly(history)
    all_settled_in_time(history)


def each_has_one_outcome(history: History) -> None:
    """Check that each record has its outcome, and that each callback was called once, with the same outcome."""
    for record in history.sent:
        if record.delivery is None:
            continue
        if len(record.calls) != 1:
            raise Violation(f"the callback of {record} was called {len(record.calls)} times")
        if not record.delivery.done():
            raise Violation(f"{record} has no outcome after close")
        if record.delivery.error is not record.error:
            raise Violation(
                f"the callback of {record} got {record.error!r}, and its delivery {record.delivery.error!r}"
            )
        if record.settled_at > history.returned_at:
            raise Violation(f"{record} was open after close had returned")


def logs_agree_with_outcomes(history: History) -> None:
    """Check each log against the outcomes: nothing lost, doubled or out of order, and no false report."""
    by_name = {record.name: record for record in history.sent}
    places: dict[tuple[int, int], list[tuple[SimulatedTopic, int, int]]] = defaultdict(list)
    for topic in history.topics:
        for partition, log in topic.log.items():
            for offset, written in enumerate(log):
                places[name_of(written.value)].append((topic, partition, offset))
    for record in history.sent:
        if record.delivery is None:
            continue
        found = places.get(record.name, [])
        if record.acknowledged and not found:
            raise Violation(f"{record} was acknowledged and is lost")
        if record.error is not None and not record.error.possibly_persisted and found:
            raise Violation(f"{record} was reported as not written, and is at {_places(found)}: {record.error}")
        if len(found) > 1 and history.idempotent and not _state_was_lost(history, record):
            raise Violation(f"{record} was written {len(found)} times: {_places(found)}")
        _offset_is_true(record, found)
    for topic in history.topics:
        for partition, log in topic.log.items():
            names = [name_of(written.value) for written in log]
            _in_order(history, topic, partition, [by_name[name] for name in names if name in by_name])


def nothing_failed_needlessly(history: History) -> None:
    """Check that a fault explains each failure: one that was there while the record waited, and could cause it."""
    for record in history.sent:
        error = record.error
        if error is None or isinstance(error.__cause__, ProducerClosedError):
            continue
        if not any(_may_explain(fault, record, error, patient=history.patient) for fault in history.faults):
            raise Violation(f"{record} failed without need: {error}")


def all_settled_in_time(history: History) -> None:
    """Check that no record was open for longer than `delivery.timeout.ms`, and in a calm history only for a moment."""
    stopped = sum(fault.seconds for fault in history.faults if isinstance(fault, StoppedProcess))
    limit = min(history.delivery_timeout, history.prompt) + stopped + SOON
    for record in history.sent:
        if record.delivery is not None and record.settled_at - record.sent_at > limit:
            raise Violation(f"{record} was open for {record.settled_at - record.sent_at:.3f} s")


def _may_explain(fault: Fault, record: Sent, error: DeliveryError, *, patient: bool) -> bool:
    if fault.at > record.settled_at or fault.until + GRACE < record.sent_at:
        return False
    if not patient:
        return True
    # A patient history has only codes that pass, and faults that end long before `delivery.timeout.ms`.
    return isinstance(fault, SmallBatches | RecreatedTopic | ForgottenProducers) and fault.topic == record.topic


def _offset_is_true(record: Sent, found: Sequence[tuple[SimulatedTopic, int, int]]) -> None:
    assert record.delivery is not None, "only of records that were queued"
    metadata = record.delivery.metadata
    if metadata is None or metadata.offset < 0:
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
    """Return whether brokers lost the producer's state while the record was under way, or a moment before it was sent.

    Then no producer can know what is written: a broker without state takes any number as the first.
    """
    return any(
        isinstance(fault, RecreatedTopic | ForgottenProducers)
        and fault.topic == record.topic
        and fault.at <= record.settled_at
        and record.sent_at <= fault.until + GRACE
        for fault in history.faults
    )


def _places(found: Sequence[tuple[SimulatedTopic, int, int]]) -> str:
    return ", ".join(f"{topic.name}-{partition}@{offset}" for topic, partition, offset in found)


def in_time(what: str, *, began: float, ended: float, timeout: float, faults: Sequence[Fault]) -> None:
    """Check that a call did not overstep its time-out, except while the process was stopped."""
    stopped = sum(fault.seconds for fault in faults if isinstance(fault, StoppedProcess) and fault.until >= began)
    if ended - began > timeout + stopped + SOON:
        raise Violation(f"{what} took {ended - began:.3f} s, and its time-out is {timeout:g} s")


def no_busy_rounds(*, polls: int, seconds: float, events: int) -> None:
    """Check that the I/O thread waits while nothing happens."""
    allowed = 300 + 60 * seconds + 12 * events
    if polls > allowed:
        raise Violation(f"{polls} polls in {seconds:.1f} s with {events} events: at most {allowed:.0f} are needed")


def refusals_of(error: BaseException | None) -> Iterator[ErrorCode]:
    """The codes with which brokers refused a record."""
    while error is not None:
        if isinstance(error, BrokerError):
            yield error.code
        error = error.__cause__
