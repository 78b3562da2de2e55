"""Random histories of a producer with its real threads: its configuration, its calls and its faults come from a seed.

A history is planned first, as values; then it runs in a simulation, and `invariants` judges it. A history that fails
raises its `Violation` with the story: the plan, and what happened.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import attrs

from invariants import Arrivals, History, Sent, Violation, check, in_time, no_busy_rounds, value_of
from ottla import Producer
from ottla.errors import (
    BufferExhaustedError,
    ErrorCode,
    FlushTimeoutError,
    IllegalStateError,
    OttlaError,
    ProducerClosedError,
    RecordTooLargeError,
    TopicUnavailableError,
)
from ottla_testkit.simulation import Chance, Link, SimulatedCluster
from ottla_testkit.simulation.brokers import Scripted, SimulatedTopic
from ottla_testkit.simulation.fault_injection import some_wire
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.planned_faults import (
    AddedPartition,
    CoordinatorRefusals,
    CrashedBroker,
    CutConnections,
    DistantBroker,
    Fault,
    ForgottenProducers,
    FrozenBroker,
    HalfOpenConnections,
    MovedLeader,
    OutdatedMetadata,
    RecreatedTopic,
    SmallBatches,
    StoppedProcess,
    ThrottlingBroker,
    TreatedRequests,
    UnlistedBroker,
    UnreachableBroker,
)
from ottla_testkit.simulation.planned_faults import plan as plan_faults
from ottla_testkit.simulation.planned_network import PlannedNetwork, some_treatment
from ottla_testkit.simulation.refusals import ANY, PASSING
from ottla_testkit.simulation.simulation import Simulation

BROKERS: Final = (1, 2, 3)
TOPICS: Final[Mapping[str, tuple[int, ...]]] = {"t": (1, 2, 3), "u": (3, 1)}
CROWDED: Final = "t"
LONGEST: Final = 30.0
"""Seconds in which faults begin."""
SETTLED_WITHIN: Final = 45.0
"""Seconds after the last fault and the last call in which a producer has to be done."""
PROMPT: Final = 2.0
"""Seconds in which a record has its outcome if there are no faults, and every record finds room in a batch."""
ROUND_TRIP: Final = 0.2
"""Seconds that a request takes if there are no faults, at most."""

# What a callback does, besides noting its outcome.
NOTHING, RAISE, SEND, FLUSH, CLOSE = "nothing", "raise", "send", "flush", "close"


@attrs.frozen(kw_only=True)
class Call:
    """One call of a program, and the seconds that it sleeps afterwards."""

    sleep: float = 0.0


@attrs.frozen(kw_only=True)
class Send(Call):
    """A record, and what its callback does."""

    topic: str
    partition: int | None
    key: bytes | None
    size: int
    reaction: str = NOTHING


@attrs.frozen(kw_only=True)
class Flush(Call):
    """A flush, in seconds."""

    timeout: float | None


@attrs.frozen(kw_only=True)
class Close(Call):
    """A close, in seconds."""

    timeout: float | None


@attrs.frozen(kw_only=True)
class Kind:
    """The kind of a history. In a *patient* one records wait longer than faults last, so few may fail."""

    idempotent: bool = True
    patient: bool = False
    calm: bool = False
    crowded: bool = False
    reshaped: bool = False
    refusals: Sequence[Scripted] = PASSING


@attrs.frozen(kw_only=True)
class Plan:
    """All that is decided before a history begins."""

    kind: Kind
    seed: int
    config: Mapping[str, Any]
    programs: Sequence[Sequence[Call]]
    close_timeout: float | None
    faults: Sequence[Fault]
    hints: Sequence[bool]
    produce_version: int | None
    switching: float

    def lines(self) -> Iterator[str]:
        """The lines of the plan."""
        yield f"configuration: {dict(self.config)}"
        yield f"leader hints {list(self.hints)}, Produce up to version {self.produce_version or 'newest'}"
        for fault in sorted(self.faults, key=lambda fault: fault.at):
            yield f"  {fault.at:8.3f} - {fault.until:8.3f}  {fault}"


KINDS: Final[Mapping[str, Kind]] = {
    "calm": Kind(calm=True, patient=True),
    "patient": Kind(patient=True),
    "expiring": Kind(refusals=ANY),
    "crowded": Kind(patient=True, crowded=True),
    "reshaped": Kind(reshaped=True, patient=True),
    "plain": Kind(idempotent=False, patient=True),
}


def plan(name: str, seed: int) -> Plan:
    """The plan of a history."""
    kind = KINDS[name]
    chance = Chance(seed * len(KINDS) + list(KINDS).index(name))
    crowded = kind.crowded or chance.happens(0.2)
    config = _configuration(kind, chance.fork(), crowded=crowded)
    calls = chance.fork()
    programs = [_program(calls, crowded=crowded) for _ in range(calls.choice((1, 1, 2, 3)))]
    return Plan(
        kind=kind,
        seed=seed,
        config=config,
        programs=programs,
        close_timeout=chance.choice((None, None, None, 0.0, 0.5, 5.0)),
        faults=() if kind.calm else _faults(kind, chance.fork()),
        hints=[chance.happens(0.5) for _ in BROKERS],
        produce_version=chance.choice((None, None, 3, 7, 9, 12)),
        switching=chance.choice((0.0, 0.02, 0.2)),
    )


def _configuration(kind: Kind, chance: Chance, *, crowded: bool) -> Mapping[str, Any]:
    batching: Mapping[str, Any] = chance.choice(
        (
            {"batch.size": 1, "batch.growth.enable": False, "linger.ms": 0},
            {"batch.size": 300, "batch.growth.enable": False, "linger.ms": 5},
            {"batch.size": 1_000, "linger.ms": 50},
            {"linger.ms": 0},
            {"linger.ms": 300},
        )
    )
    timeout = 120_000 if kind.patient else chance.choice((1_500, 2_500, 4_000))
    config = {
        **batching,
        "enable.idempotence": kind.idempotent,
        "acks": "all" if kind.idempotent else chance.choice(("all", "1")),
        "max.in.flight.requests.per.connection": chance.choice((1, 2, 5)),
        "delivery.timeout.ms": timeout,
        "request.timeout.ms": 1_000,
        "socket.connection.setup.timeout.ms": 1_000,
        "socket.connection.setup.timeout.max.ms": 2_000,
        "max.block.ms": chance.choice((300, 2_000, 60_000)),
        "io.handoff.enable": chance.happens(0.5),
    }
    if chance.happens(0.3):
        config["connections.max.idle.ms"] = 1_500
    if chance.happens(0.3):
        config["max.request.size"] = 3_000
    if crowded:
        config["buffer.memory"] = chance.choice((3_000, 8_000, 20_000))
    if not kind.patient and chance.happens(0.4):
        config["retries"] = chance.choice((1, 3))
    return config


def _program(chance: Chance, *, crowded: bool) -> Sequence[Call]:
    pauses = chance.choice(((0.0, 0.0, 0.0, 0.01), (0.0, 0.1, 0.5), (0.0, 0.0, 0.0, 0.0, 0.0, 2.0)))
    sizes = chance.choice(((8,), (8, 100, 400), (8, 1_000))) if crowded else chance.choice(((8,), (8, 300), (8, 2_500)))
    one_partition = chance.happens(0.4)
    calls: list[Call] = []
    for _ in range(chance.randint(5, 40)):
        sleep = chance.choice(pauses)
        draw = chance.random()
        if draw < 0.04:
            calls.append(Flush(timeout=chance.choice((None, None, 0.1, 2.0)), sleep=sleep))
        elif draw < 0.045:
            calls.append(Close(timeout=chance.choice((None, 0.0, 1.0)), sleep=sleep))
        else:
            topic = CROWDED if one_partition else chance.choice(tuple(TOPICS))
            way = chance.randrange(4)
            calls.append(
                Send(
                    topic=topic,
                    partition=0 if one_partition else chance.randrange(len(TOPICS[topic])) if way == 0 else None,
                    key=b"%d" % chance.randrange(5) if way == 1 else None,
                    size=chance.choice(sizes),
                    reaction=chance.choice((NOTHING,) * 30 + (RAISE, SEND, FLUSH)) if chance.happens(0.98) else CLOSE,
                    sleep=sleep,
                )
            )
    if not chance.happens(0.1):  # most programs close at the end only, and no callback does
        calls = [
            attrs.evolve(call, reaction=NOTHING) if isinstance(call, Send) and call.reaction == CLOSE else call
            for call in calls
            if not isinstance(call, Close)
        ]
    return calls


def _faults(kind: Kind, chance: Chance) -> Sequence[Fault]:
    makers: list[Callable[[Chance, float], Fault]] = [_treated] * 6 + list(_MAKERS)
    if kind.reshaped:
        makers += [_recreated, _forgotten, _added, _small] * 4
    else:
        makers += [_small]
    longest = chance.choice((3.0, 12.0, LONGEST))
    faults = []
    for _ in range(chance.choice((1, 2, 4, 8, 16))):
        made = chance.choice(makers)(chance, chance.uniform(0.0, longest))
        if isinstance(made, TreatedRequests):
            treatments = tuple(
                some_treatment(chance, list(kind.refusals), longest=2.0) for _ in range(chance.choice((1, 1, 2, 4)))
            )
            made = attrs.evolve(made, treatments=treatments)
        faults.append(made)
    return faults


def _broker(chance: Chance) -> int:
    return chance.choice(BROKERS)


def _treated(chance: Chance, at: float) -> Fault:
    return TreatedRequests(at=at, seconds=chance.uniform(0.1, 5.0), broker=_broker(chance), treatments=())


def _crash(chance: Chance, at: float) -> Fault:
    broker = _broker(chance)
    heir = chance.choice([other for other in BROKERS if other != broker])
    return CrashedBroker(at=at, seconds=chance.uniform(0.1, 4.0), broker=broker, heir=heir)


def _leader(chance: Chance, at: float) -> Fault:
    topic = chance.choice(tuple(TOPICS))
    return MovedLeader(at=at, topic=topic, partition=chance.randrange(len(TOPICS[topic])), leader=_broker(chance))


def _coordinator(chance: Chance, at: float) -> Fault:
    codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    return CoordinatorRefusals(
        at=at, seconds=2.0, broker=_broker(chance), request="InitProducerId", codes=(chance.choice(codes),)
    )


def _recreated(chance: Chance, at: float) -> Fault:
    topic = chance.choice(tuple(TOPICS))
    return RecreatedTopic(
        at=at, seconds=chance.uniform(0.0, 3.0), topic=topic, leaders=tuple(_broker(chance) for _ in TOPICS[topic])
    )


def _forgotten(chance: Chance, at: float) -> Fault:
    return ForgottenProducers(at=at, topic=chance.choice(tuple(TOPICS)))


def _added(chance: Chance, at: float) -> Fault:
    return AddedPartition(at=at, topic=chance.choice(tuple(TOPICS)), leader=_broker(chance))


def _small(chance: Chance, at: float) -> Fault:
    limit = chance.choice((150, 400, 1_500))
    return SmallBatches(
        at=at, seconds=chance.uniform(0.5, 8.0), topic=chance.choice(tuple(TOPICS)), max_message_bytes=limit
    )


_MAKERS: Final[Sequence[Callable[[Chance, float], Fault]]] = (
    _crash,
    _leader,
    _leader,
    _leader,
    _coordinator,
    lambda chance, at: CutConnections(at=at, broker=_broker(chance), gently=chance.happens(0.5)),
    lambda chance, at: HalfOpenConnections(
        at=at, seconds=1.0, broker=_broker(chance), out=chance.happens(0.7), back=chance.happens(0.7)
    ),
    lambda chance, at: FrozenBroker(at=at, seconds=chance.uniform(0.1, 3.0), broker=_broker(chance)),
    lambda chance, at: UnreachableBroker(
        at=at, seconds=chance.uniform(0.5, 5.0), broker=_broker(chance), black_hole=chance.happens(0.5)
    ),
    lambda chance, at: DistantBroker(at=at, seconds=chance.uniform(1.0, 10.0), broker=_broker(chance), round_trip=0.2),
    lambda chance, at: OutdatedMetadata(at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance)),
    lambda chance, at: UnlistedBroker(at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance)),
    lambda chance, at: ThrottlingBroker(
        at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance), throttle_ms=chance.choice((50, 400, 1_500))
    ),
    lambda chance, at: StoppedProcess(at=at, seconds=chance.choice((0.2, 1.5, 10.0))),
)


class Run:
    """One history as it happens."""

    def __init__(self, plan: Plan, *, encoder: str = "python") -> None:
        self.plan = plan
        self.sent: list[Sent] = []
        self.lines: list[str] = []
        cluster = SimulatedCluster.of(*BROKERS)
        for topic, leaders in TOPICS.items():
            cluster.create(topic, *leaders)
        for broker, hints in zip(cluster.brokers.values(), plan.hints, strict=True):
            broker.hints = hints
            if plan.produce_version is not None:
                broker.versions[0] = (broker.versions[0][0], plan.produce_version)
        cluster.on_batch = self._on_batch
        self.world = Simulation(cluster, seed=plan.seed, network=PlannedNetwork, switching=plan.switching)
        network = self.world.network
        assert isinstance(network, PlannedNetwork)
        self.network = network
        chance = Chance(plan.seed)
        network.wire = _wire(chance)
        network.wires = {broker: _wire(chance) for broker in BROKERS if chance.happens(0.3)}
        max_in_flight = plan.config["max.in.flight.requests.per.connection"]
        stopped = any(isinstance(fault, StoppedProcess) for fault in plan.faults)
        wires = [network.wire, *network.wires.values()]
        immediate = all(wire.buffer is None and not (wire.partly or wire.nothing or wire.pieces) for wire in wires)
        self.arrivals = Arrivals(max_in_flight=max_in_flight, throttled=immediate and not stopped)
        network.on_request = self._on_request
        self._encoder = encoder
        self._numbers = [0] * (len(plan.programs) + 1)
        self._open = len(plan.programs)
        self.history = History(
            idempotent=plan.kind.idempotent,
            in_order=plan.kind.idempotent or max_in_flight == 1,
            patient=plan.kind.patient,
            delivery_timeout=plan.config["delivery.timeout.ms"] / 1000,
            prompt=_prompt(plan) if plan.kind.calm else float("inf"),
            faults=plan.faults,
            topics=(),
            sent=self.sent,
        )
        self.producer: Producer
        self._failed_rounds: list[str] = []

    def run(self) -> str:
        """Run the history; returns the digest of all that was on the wire. Raises Violation."""
        world, plan = self.world, self.plan
        self.producer = world.producer({**plan.config, "record.encoder": self._encoder})
        pool = self.producer._engine.queueing.pool
        plan_faults(world, [_noted(fault, self) for fault in plan.faults])
        world.run(*(lambda number=number: self._program(number) for number in range(len(plan.programs))))
        self.history.topics = [*world.cluster.topics.values(), *world.cluster.deleted]
        check(self.history)
        if pool.free != pool.capacity:
            raise Violation(f"{pool.capacity - pool.free} bytes of buffer.memory were not given back")
        if self.producer._engine.io_thread._thread.is_alive():
            raise Violation("the I/O thread runs after close")
        no_busy_rounds(
            polls=self.network.polls,
            seconds=world.clock(),
            events=self.arrivals.requests + self.network.connects + len(self.sent) + len(plan.faults),
        )
        return self.network.trace.digest

    def note(self, line: str) -> None:
        """Add a line to the story."""
        self.lines.append(f"{self.world.clock():9.3f}  {line}")

    def forgets(self, topic: str) -> None:
        """Note that brokers lose the state of producers."""
        self.arrivals.forgotten.add(topic)

    # The programs

    def _program(self, number: int) -> None:
        try:
            for call in self.plan.programs[number]:
                self._call(number, call)
                if call.sleep:
                    self.world.sleep(call.sleep)
        except ProducerClosedError:
            pass
        finally:
            self._open -= 1
        if number:
            return
        self.world.wait_for(lambda: not self._open)
        self._close(self.plan.close_timeout, last=True)
        self.world.sleep(5.0)  # for what comes late

    def _call(self, program: int, call: Call) -> None:
        match call:
            case Send():
                self._send(program, call)
            case Flush(timeout=timeout):
                self._flush(program, timeout)
            case Close(timeout=timeout):
                self._close(timeout)

    def _send(self, program: int, call: Send, *, waits: bool = True) -> None:
        number, self._numbers[program] = self._numbers[program], self._numbers[program] + 1
        clock = self.world.clock
        record = Sent(
            program=program, number=number, topic=call.topic, partition=call.partition, size=call.size, sent_at=clock()
        )
        began = clock()
        max_block = self.plan.config["max.block.ms"] / 1000 if waits else 0.0
        try:
            self.sent.append(record)
            record.delivery = self.producer.send(
                call.topic,
                value_of(program, number, call.size),
                key=call.key,
                partition=call.partition,
                timestamp_ms=number,
                on_delivery=lambda delivery: self._on_delivery(record, call, delivery.error),
            )
            self.note(f"{record} is queued")
        except (BufferExhaustedError, TopicUnavailableError, RecordTooLargeError) as error:
            self.sent.remove(record)
            self.note(f"{record} is refused: {error}")
            if not isinstance(error, RecordTooLargeError) and clock() - began < max_block - 0.001:
                raise Violation(f"send gave up after {clock() - began:.3f} s of {max_block} s: {error}") from error
        except ProducerClosedError:
            self.sent.remove(record)
            raise
        in_time("send", began=began, ended=clock(), timeout=max_block, faults=self.plan.faults)

    def _on_delivery(self, record: Sent, call: Send, error: Any) -> None:
        record.calls.append((self.world.clock(), error))
        self.note(f"{record}: {'acknowledged' if error is None else f'failed: {error}'}")
        match call.reaction:
            case "raise":
                raise ValueError("a callback that raises")
            case "send":
                again = attrs.evolve(call, reaction=NOTHING, topic=CROWDED, key=None, partition=None)
                with suppress(ProducerClosedError):
                    self._send(len(self.plan.programs), again, waits=False)
            case "flush":
                try:
                    self.producer.flush()
                except IllegalStateError:
                    return
                raise Violation("flush did not raise inside a callback")
            case "close":
                self.history.closed_at = min(self.history.closed_at, self.world.clock())
                self.producer.close()

    def _flush(self, program: int, timeout: float | None) -> None:
        began = self.world.clock()
        before = [record for record in self.sent if record.program == program and record.delivery is not None]
        self.note(f"program {program}: flush({timeout})")
        try:
            self.producer.flush(timeout)
        except FlushTimeoutError:
            assert timeout is not None
            if self.world.clock() - began < timeout - 0.001:
                raise Violation(f"flush({timeout}) gave up after {self.world.clock() - began:.3f} s") from None
        else:
            late = [record for record in before if record.delivery is not None and not record.delivery.done()]
            if late:
                raise Violation(f"flush returned, and {late[0]} has no outcome")
        limit = timeout if timeout is not None else self._longest_wait()
        in_time(f"flush({timeout})", began=began, ended=self.world.clock(), timeout=limit, faults=self.plan.faults)

    def _close(self, timeout: float | None, *, last: bool = False) -> None:
        began = self.world.clock()
        history = self.history
        history.closed_at = min(history.closed_at, began)
        self.note(f"close({timeout})")
        self.producer.close(timeout)
        self.note("closed")
        if last:
            history.returned_at = self.world.clock()
        limit = timeout + 0.5 if timeout is not None else self._longest_wait()
        in_time(f"close({timeout})", began=began, ended=self.world.clock(), timeout=limit, faults=self.plan.faults)

    def _longest_wait(self) -> float:
        """Seconds from now in which everything has to be settled."""
        last = max((fault.until for fault in self.plan.faults), default=0.0)
        bound = max(0.0, last - self.world.clock()) + SETTLED_WITHIN
        return bound if self.plan.kind.patient else min(bound, self.plan.config["delivery.timeout.ms"] / 1000)

    def _on_request(self, link: Link, frame: bytes) -> None:
        try:
            self.arrivals.on_request(link, frame, answered=not self.network.treatments[link.broker.id])
        except Violation as error:
            self.world.threads.fail(error)

    def _on_batch(self, topic: SimulatedTopic, partition: int, batch: Any, offset: int) -> None:
        names = ", ".join(str(record.value[:8]) for record in batch.records[:3])
        self.note(
            f"  {topic.name}-{partition} gets {batch.epoch}/{batch.sequence} ({len(batch.records)}: {names}): {offset}"
        )
        try:
            self.arrivals.on_batch(topic, partition, batch, offset)
        except Violation as error:
            self.world.threads.fail(error)


def _wire(chance: Chance) -> LinkConditions:
    """Link conditions with which a large request takes less than `request.timeout.ms`."""
    wire = some_wire(chance)
    return wire if wire.buffer is None or wire.round_trip < 0.005 else attrs.evolve(wire, buffer=20_000)


def _prompt(plan: Plan) -> float:
    """Seconds in which each record has its outcome if there are no faults."""
    records = sum(len(calls) for calls in plan.programs)
    small = plan.config.get("batch.size", 16_384) <= 1_000 or "buffer.memory" in plan.config
    return PROMPT + (ROUND_TRIP * records if small else 0.0)


def _noted(fault: Fault, run: Run) -> Fault:
    """The fault, with lines in the story."""
    return _Noted(fault, run)  # type: ignore[return-value]


class _Noted:
    def __init__(self, fault: Fault, run: Run) -> None:
        self._fault, self._run = fault, run
        self.at, self.until = fault.at, fault.until

    def begin(self, world: Simulation) -> None:
        self._run.note(f"FAULT {self._fault}")
        if isinstance(self._fault, RecreatedTopic | ForgottenProducers):
            self._run.forgets(self._fault.topic)
        self._fault.begin(world)

    def end(self, world: Simulation) -> None:
        if self._fault.seconds:
            self._run.note(f"END OF {self._fault}")
        self._fault.end(world)


class _FailedRounds(logging.Handler):
    """Notes rounds of the I/O thread that failed: no plugin and no system does so here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "round" in message or record.levelno >= logging.CRITICAL:
            error = record.exc_info[1] if record.exc_info else None
            self.found.append(f"{message}: {error!r}")


@contextmanager
def watched() -> Iterator[_FailedRounds]:
    """A block in which failed rounds are noted, other log lines are dropped, and the garbage collector rests."""
    logger, handler = logging.getLogger("ottla"), _FailedRounds()
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        if enabled:
            gc.enable()


def run(name: str, seed: int, *, encoder: str = "python", shown: int = 60, planned: Plan | None = None) -> str:
    """Run one history; returns its digest. Raises Violation with the story."""
    planned = planned or plan(name, seed)
    history = Run(planned, encoder=encoder)
    with watched() as failures:
        try:
            digest = history.run()
            if failures.found:
                raise Violation(f"a round failed: {failures.found[0]}")
        except (AssertionError, OttlaError) as error:
            failed = f" (a round failed: {failures.found[0]})" if failures.found else ""
            story = "\n".join([*planned.lines(), "", *history.lines[-shown:]])
            raise Violation(f"{name} {seed}: {error}{failed}\n{story}") from error
    return digest
