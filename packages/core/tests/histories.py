"""Random histories of a producer with its real threads, run as `history_plans` has planned them.

`invariants` judges each. A history that fails raises its `Violation` with the story: the plan, and what happened.
"""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any, Final

import attrs
import task_programs
from committed_readers import CommittedReaders
from own_io_thread import io_thread_of
from prompt_rounds import PromptRounds
from simulated_loop import simulated_calls
from transaction_tasks import TransactionTasks
from transaction_writers import TransactionWriters

from history_plans import (
    BROKERS,
    COMPLETED_WITHIN,
    CROWDED,
    FIRST_RECORD,
    GROUP,
    MEMBER,
    NOTHING,
    PROMPT,
    ROUND_TRIP,
    ROUND_TRIPS,
    STALLS,
    TOPICS,
    TRANSACTIONAL_ID,
    WHOLE_HISTORY,
    Call,
    Close,
    Flush,
    Plan,
    Send,
    Transaction,
    plan,
)
from invariants import (
    ABORTED,
    COMMITTED,
    REFUSALS,
    UNKNOWN,
    Arrivals,
    History,
    LeaderEpochs,
    Sent,
    Transactions,
    Violation,
    check,
    in_time,
    no_busy_rounds,
    value_of,
)
from ottla import Producer
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BrokerError,
    BufferExhaustedError,
    DeliveryError,
    ErrorCode,
    FatalTransactionError,
    FlushTimeoutError,
    IllegalStateError,
    OttlaError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    TransactionError,
    TransactionTimeoutError,
)
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import BatchArrival, Chance, Link, SimulatedCluster, SimulatedGroup, SimulatedLogin
from ottla_testkit.simulation.fault_injection import random_link_conditions
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.planned_faults import (
    CrashedBroker,
    DeniedTopic,
    DeniedTransactionalId,
    Fault,
    FencedProducer,
    ForgottenIds,
    ForgottenProducers,
    ProduceQuota,
    RecreatedTopic,
    RefusedLogin,
    StoppedProcess,
    ThrottlingBroker,
    TimedOutTransaction,
    UnreachableBroker,
)
from ottla_testkit.simulation.planned_faults import plan as plan_faults
from ottla_testkit.simulation.planned_network import PlannedNetwork
from ottla_testkit.simulation.simulation import Simulation
from ottla_testkit.simulation.transactions import ProducerOwner
from third_party_mechanism import Plain

TIME_OUT_CHECK: Final = 0.5
"""Seconds between a coordinator's checks for transactions that have timed out."""

SUCCESSORS: Final = 20
"""Producers that may take the place of one that can do nothing more."""

WALL_CLOCK: Final = 1_000_000.0
"""The time of brokers when a history begins: later than the timestamps of its records, which are their numbers."""

_OF_OUTDATED: Final = ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE")
"""Codes of a coordinator that does not know the newest epoch, the transactional id, or the open transaction."""

_THAT_BEGIN: Final = {ADD_PARTITIONS_TO_TXN.key, ADD_OFFSETS_TO_TXN.key}
"""The keys of requests that begin a transaction at its coordinator."""

FAR: Final = 0.05
"""Seconds of a round trip with which a request in ten parts may take longer than `request.timeout.ms`."""


class Run:
    """One history as it happens."""

    def __init__(self, plan: Plan, *, encoder: str = "python") -> None:
        self.plan = plan
        self.sent: list[Sent] = []
        self.lines: list[str] = []
        cluster = SimulatedCluster.of(*BROKERS)
        cluster.sources["in"] = 1
        for topic, leaders in TOPICS.items():
            cluster.create(topic, *leaders, min_insync=plan.min_insync).append_time = plan.append_time
        cluster.groups[GROUP] = SimulatedGroup(members={MEMBER: None})
        cluster.transactions.last_epoch = plan.last_epoch
        cluster.older_logs = plan.older_logs
        self.faults: list[Fault] = list(plan.faults)
        """Those of the plan, and the time-outs of transactions, as they happen."""
        if plan.kind.slow:
            cluster.transactions.time_out_check_seconds = TIME_OUT_CHECK
            cluster.transactions.on_time_out = self._on_time_out
        for broker, hints in zip(cluster.brokers.values(), plan.hints, strict=True):
            broker.hints = hints
            for key, newest in plan.versions[broker.id - 1].items():
                broker.versions[key] = (broker.versions[key][0], min(newest, broker.versions[key][1]))
            if plan.kind.secured:
                users = {Plain().user: Plain().password}
                broker.require(SimulatedLogin(users=users, lifetime=plan.session))
        cluster.on_batch = self._on_batch
        self.simulation = Simulation(cluster, seed=plan.seed, network=PlannedNetwork, switching=plan.switching)
        cluster.wall_clock = lambda: WALL_CLOCK + self.simulation.clock()
        network = self.simulation.network
        assert isinstance(network, PlannedNetwork)
        self.network = network
        chance = Chance(plan.seed)
        plain = chance.happens(0.4)
        network.wire = _wire(chance, plain=plain)
        network.wires = {broker: _wire(chance, plain=plain) for broker in BROKERS if chance.happens(0.3)}
        max_in_flight = plan.config["max.in.flight.requests.per.connection"] if plan.kind.confirmed else 1_000
        stopped = any(isinstance(fault, StoppedProcess) for fault in plan.faults)
        wires = [network.wire, *network.wires.values()]
        immediate = all(
            wire.buffer is None and not (wire.partial_writes or wire.nothing or wire.pieces) for wire in wires
        )
        # Each part of a request that the socket did not take waits for a round trip: it may take more than a second.
        in_parts = any((wire.partial_writes or wire.nothing) and wire.round_trip >= FAR for wire in wires)
        cluster.transaction_version = plan.transaction_version
        for broker in cluster.brokers.values() if plan.old_coordinators and plan.kind.transactional else ():
            broker.versions[INIT_PRODUCER_ID.key] = (0, 1)
        self.transactions = Transactions()
        self.writers = TransactionWriters(self)
        self.readers = CommittedReaders(cluster)
        self._reads = plan.kind.transactional and not (plan.kind.tasks or plan.kind.writers or plan.kind.replaced)
        self.arrivals = Arrivals(
            max_in_flight=max_in_flight,
            throttled=immediate and not stopped and plan.kind.confirmed,  # without responses no broker asks
            faultless=all(isinstance(fault, ThrottlingBroker | ProduceQuota) for fault in plan.faults)
            and not (plan.faults and plan.delays_responses)
            and not (plan.kind.slow or in_parts),
            one_by_one=max_in_flight == 1 and plan.knows_epochs and not any(map(plan.disturbs_numbers, plan.faults)),
        )
        self.epochs = LeaderEpochs(hints=any(plan.hints))
        network.on_request = self._on_request
        # A request that is sent before 95 % of the session are over may arrive after its end.
        self._sessions_may_end_early = plan.kind.secured and 0 < plan.session * 0.05 < _farthest(wires)
        self._recreates = any(isinstance(fault, RecreatedTopic) for fault in plan.faults)
        self._encoder = encoder
        self._numbers = [count() for _ in range(len(plan.programs) + 1)]
        self._open = len(plan.programs)
        self.closed = False
        """Whether the last call of `close` has returned."""
        self.ended_tasks = 0
        """The number of programs whose tasks have made all their calls."""
        self.destroyed: set[tuple[int, int]] = set()
        """The records whose tasks were destroyed with their event loop while they waited in `send`."""
        self.history = History(
            idempotent=plan.kind.idempotent,
            in_order=plan.kind.idempotent or max_in_flight == 1,
            patient=plan.kind.patient,
            may_end=plan.kind.transactional and plan.gives_no_epoch,
            delivery_timeout=plan.config["delivery.timeout.ms"] / 1000,
            prompt=_prompt(plan, wires) if plan.kind.faultless else float("inf"),
            faults=self.faults,
            farthest=_farthest(wires),
            older_logs=plan.older_logs,
            some_ids=plan.some_send_ids,
            topics=(),
            sent=self.sent,
            all_replicas=plan.config["acks"] == "all",
            keeps_epoch=plan.kind.transactional and not plan.bumps_epochs,
            confirmed=plan.kind.confirmed,
        )
        self.producer: Producer
        self._producers: list[tuple[Producer, PromptRounds]] = []
        self._settings: Mapping[str, Any] = {}
        self._failed_rounds: list[str] = []

    def run(self) -> str:
        """Run the history; returns the digest of all that was on the wire. Raises Violation."""
        simulation, plan, noting = self.simulation, self.plan, task_programs.Noting()
        self._settings = {
            **plan.config,
            "record.encoder": self._encoder,
            **task_programs.plugins(plan, noting, simulation.sleep),
        }
        self._begin_producer()
        plan_faults(simulation, [_noted(fault, self) for fault in plan.faults])
        with simulated_calls(simulation.threads) if plan.kind.tasks else nullcontext():
            simulation.run(*(lambda number=number: self._program(number) for number in range(len(plan.programs))))
        self.history.topics = [*simulation.cluster.topics.values(), *simulation.cluster.deleted]
        self.history.muted_until = max(broker.muted_until for broker in simulation.cluster.brokers.values())
        self.history.may_end |= self._had_internal_error
        check(self.history)
        if plan.kind.transactional:
            self.writers.join()
            self.transactions.check(simulation.cluster)
        if self._reads:
            self.readers.check_end()
        noting.check(destroyed=self.destroyed)
        for producer, prompt in self._producers:
            self._check_closed(producer, prompt)
        misread = [what for broker in simulation.cluster.brokers.values() for what in broker.misunderstood]
        if misread or simulation.cluster.corrupt:
            raise Violation(f"brokers did not understand requests: {[*misread, *simulation.cluster.corrupt]}")
        self._check_foreign()
        hang_ups = sum(broker.hang_ups for broker in simulation.cluster.brokers.values())
        if hang_ups and not plan.faults and not self._sessions_may_end_early:
            raise Violation(f"brokers have closed {hang_ups} connections because of an unexpected request")
        no_busy_rounds(
            polls=self.network.polls,
            seconds=simulation.clock(),
            events=self.arrivals.requests
            + self.arrivals.full_buffers
            + self.network.connects
            + len(self.sent)
            + len(plan.faults),
        )
        return self.network.trace.digest

    def _check_foreign(self) -> None:
        """Check that no other cluster, to which an address has led, has got anything."""
        for cluster in self.simulation.cluster.foreign:
            logs = [log for topic in cluster.topics.values() for log in topic.log.values()]
            if any(logs) or cluster.transactions.ids:
                raise Violation("another cluster has got records or transactions")

    def note(self, line: str) -> None:
        """Add a line to the story."""
        self.lines.append(f"{self.simulation.clock():9.3f}  {line}")

    def forgets(self, fault: RecreatedTopic | ForgottenProducers) -> None:
        """Note that brokers lose the state of producers, and may take any number as the next one."""
        if isinstance(fault, RecreatedTopic) or not self.plan.older_logs:
            self.arrivals.forgotten.add(fault.topic)

    # The programs

    def _program(self, number: int) -> None:
        if self.plan.kind.tasks and self.plan.kind.transactional:
            TransactionTasks(self).run_loop()
            return
        if self.plan.kind.tasks:
            task_programs.TaskProgram(self, number).run_loops()
            return
        calls = iter(self.plan.programs[number])
        try:
            while not self._make_calls(number, calls):
                self._succeed()
        except ProducerClosedError as error:
            self.check_end(error)
        except TransactionTimeoutError as error:
            self.note(f"the program gives up: {error}")
        finally:
            self._open -= 1
            self.writers.over |= not number
        if number:
            return
        self.simulation.wait_for(lambda: not self._open)
        while not self.closed:
            with suppress(KeyboardInterrupt):
                self._close(self.plan.close_timeout, last=True)
                self.closed = True
        self.simulation.sleep(5.0)  # for what comes late
        if self.plan.kind.marked:
            owners = self.simulation.cluster.transactions.ids
            written = self.simulation.wait_for(
                lambda: not any(owner.completing for owner in owners.values()), timeout=COMPLETED_WITHIN
            )
            assert written, "the model is wrong: markers are not written"

    def _make_calls(self, number: int, calls: Iterator[Call]) -> bool:
        """Make the calls of a program; return False if another producer has to make the rest of them."""
        try:
            if self.plan.kind.transactional and not number:
                self._initialize()
                self.readers.check_begin()
            if number and self.plan.kind.writers:
                self.writers.wait()
            for call in calls:
                try:
                    if number and self.plan.kind.writers:
                        self.writers.call(number, call)
                    else:
                        self._call(number, call)
                except KeyboardInterrupt:
                    self.note(f"program {number} is interrupted")
                if call.sleep:
                    self.simulation.sleep(call.sleep)
        except FatalTransactionError as error:
            self.check_end(error)
            return not self.plan.kind.succeeded
        return True

    def _succeed(self) -> None:
        """Close the producer, which can do nothing more, and make another one with the same transactional id."""
        self._close(None)
        self.note("another producer")
        self._begin_producer()
        if len(self._producers) > SUCCESSORS:
            raise Violation(f"{SUCCESSORS} producers could do nothing more, one after the other")

    def _begin_producer(self) -> None:
        self.producer = self.simulation.producer(self._settings, mechanism=Plain() if self.plan.kind.secured else None)
        self._producers.append((self.producer, PromptRounds(self.producer, self.network)))
        self.epochs = LeaderEpochs(hints=any(self.plan.hints))

    def _check_closed(self, producer: Producer, prompt: PromptRounds) -> None:
        """Check a producer that was closed."""
        pool = producer._engine.queueing.pool
        if pool.free != pool.capacity:
            raise Violation(f"{pool.capacity - pool.free} bytes of buffer.memory were not given back")
        if io_thread_of(producer._engine)._thread.is_alive():
            raise Violation("the I/O thread runs after close")
        prompt.check()

    def check_end(self, error: OttlaError) -> None:
        """Check that there is a reason why the producer can do nothing more."""
        self.note(f"the program ends: {error}")
        # With epochs of transactions, the coordinator's own abort does not fence the producer.
        owned = FencedProducer | DeniedTransactionalId
        ending = owned if self.plan.bumps_epochs else owned | TimedOutTransaction
        fenced = any(isinstance(fault, ending) for fault in self.faults)
        self.history.may_end |= self._is_fenced_by_itself(error)
        fenced |= self._is_lost(error) or self._is_replaced(error) or self._is_disowned(error)
        if self._may_ask_only_an_outdated_coordinator:
            fenced |= any(code in str(error) for code in _OF_OUTDATED)
        if isinstance(error, FatalTransactionError) and not (self.plan.gives_no_epoch or fenced):
            raise Violation(f"the producer can do nothing more, without need: {error}") from error

    @property
    def _may_ask_only_an_outdated_coordinator(self) -> bool:
        """Whether no broker may have been reached that could name the coordinator, but one that does not know it.

        The producer then asks that one again, and believes it: it cannot wait for a broker that may be gone.
        """
        away = any(isinstance(fault, UnreachableBroker | CrashedBroker) for fault in self.faults)
        return away and self.simulation.cluster.refused_by_outdated > 1

    def _is_fenced_by_itself(self, error: OttlaError) -> bool:
        """Return whether a coordinator may have fenced a producer that no other one has replaced, as Kafka's does.

        A late copy of a request may have begun a transaction that has ended again. Then a coordinator with an older
        `transaction.version` aborts it for the next InitProducerId, in another epoch, and fences the producer that asks
        again in its own one. Or a producer has asked three times for the id after its last epoch.
        """
        cluster = self.simulation.cluster
        began_again = not self.plan.bumps_epochs and not _THAT_BEGIN.isdisjoint(cluster.taken_after_close)
        asked_again = cluster.transactions.fenced_after_rotation > 0
        return (began_again or asked_again) and "PRODUCER_FENCED" in str(error)

    def _is_replaced(self, error: OttlaError) -> bool:
        """Return whether an error is the right one for a cluster that was set up again.

        A coordinator without the id comes first if the topics in use do not exist there yet; an abort needs no id. A
        coordinator whose response with another id was lost does not know the one that it is asked to renew.
        """
        text = str(error)
        unknown = "INVALID_PRODUCER_ID_MAPPING" in text and "it was aborting" not in text
        said = ("those of another cluster now", "created again meanwhile", "PRODUCER_FENCED")
        return self.plan.kind.replaced and (unknown or any(each in text for each in said))

    def _is_disowned(self, error: OttlaError) -> bool:
        """Return whether an error is the right one for a coordinator that has forgotten the transactional id.

        If the response that gave the producer another id was lost, the coordinator does not know who asks again.
        """
        forgotten = any(
            isinstance(fault, ForgottenIds) and fault.at <= self.simulation.clock() for fault in self.faults
        )
        text = str(error)
        unknown = "INVALID_PRODUCER_ID_MAPPING" in text and "it was aborting" not in text
        return forgotten and (unknown or "PRODUCER_FENCED" in text)

    def _is_lost(self, error: OttlaError) -> bool:
        """Return whether a coordinator had an internal error when it was asked again for the last epoch, as Kafka's."""
        cause = error.__cause__
        internal = isinstance(cause, BrokerError) and cause.code is ErrorCode.UNKNOWN_SERVER_ERROR
        return self.history.may_end or (internal and self._had_internal_error)

    @property
    def _had_internal_error(self) -> bool:
        """Whether a coordinator had this error. If no call waits for it then, only the records show that it came."""
        return self.simulation.cluster.transactions.internal_errors > 0

    def _initialize(self) -> None:
        """Call `init_transactions`, again while the transactional id is denied."""
        for denied_until in self.denials():
            try:
                self._until_known(self.producer.init_transactions)
            except FatalTransactionError:
                raise
            except TransactionError:
                self.simulation.sleep(denied_until - self.simulation.clock())
            else:
                return
        raise Violation("init_transactions is denied")

    def denials(self) -> Sequence[float]:
        """The end of the last denial of the transactional id, as often as `init_transactions` may have to be called.

        It is a moment later than the end, because a sleep until then may be too short by a rounding.
        """
        denials = [fault.until + 1e-6 for fault in self.plan.faults if isinstance(fault, DeniedTransactionalId)]
        return [max(denials, default=0.0)] * (len(denials) + 1)

    def _call(self, program: int, call: Call) -> None:
        match call:
            case Send():
                self.send(program, call)
            case Flush(timeout=timeout):
                self._flush(program, timeout)
            case Transaction():
                self._transaction(program, call)
            case Close(timeout=timeout):
                self._close(timeout)

    def send(self, program: int, call: Send, *, waits: bool = True) -> Sent:
        """Send a record. If the call raises what it may raise, the record was left out."""
        number, clock = next(self._numbers[program]), self.simulation.clock
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
                on_delivery=lambda delivery: self.on_delivery(record, call, delivery),
            )
            record.queued_at = clock()
            self.note(f"{record} is queued")
        except REFUSALS as error:
            self.refuse(record, error, limit=max_block)
        except AuthenticationError as error:
            self.leave_out(record, error)
            if not any(isinstance(fault, RefusedLogin) and fault.at <= clock() for fault in self.plan.faults):
                raise Violation(f"a login failed without need: {error}") from error
        except ProducerClosedError as error:
            self.leave_out(record, error)
            raise
        except (IllegalStateError, AbortableTransactionError) as error:
            if program and self.plan.kind.writers:
                self.leave_out(record, error)
            raise
        in_time("send", began=began, ended=clock(), timeout=max_block, faults=self.plan.faults)
        return record

    def numbers(self, program: int) -> Iterator[int]:
        """The numbers of a program's next records."""
        return self._numbers[program]

    def refuse(self, record: Sent, error: Exception, *, limit: float) -> None:
        """Check that a record was refused for a good reason, not before *limit* seconds."""
        self.leave_out(record, error)
        free = re.search(r"(\d+) of buffer\.memory", str(error))  # when it gave up; by now there may be more
        if isinstance(error, BufferExhaustedError) and free and int(free[1]) > 2 * record.size + FIRST_RECORD:
            raise Violation(f"send gave up with {free[1]} bytes of memory free: {error}") from error
        denied = any(isinstance(fault, DeniedTopic) and fault.topic == record.topic for fault in self.plan.faults)
        soon = denied or isinstance(error, RecordTooLargeError | SerializationError)
        waited = self.simulation.clock() - record.sent_at
        if not soon and waited < limit - 0.001:
            raise Violation(f"send gave up after {waited:.3f} s of {limit} s: {error}") from error

    def leave_out(self, record: Sent, why: object) -> None:
        """Note that a record was not queued: no broker may have it."""
        self.sent.remove(record)
        self.history.refused.add(record.name)
        self.note(f"{record} is refused: {why}")

    def _transaction(self, program: int, call: Transaction) -> None:
        group = self.consumer()
        self.note("begin_transaction()")
        self.producer.begin_transaction()
        records: list[Sent] = []
        self.writers.begin(records)
        self.readers.begin(records)
        outcome = ABORTED
        try:
            for place, send in enumerate(call.sends):
                record = self.send(program, send)
                records.append(record)
                if place in call.awaited:
                    self._await([record])
                if send.sleep:
                    self.simulation.sleep(send.sleep)
            if call.offset is not None:
                self._until_known(partial(self.producer.send_offsets_to_transaction, {("in", 0): call.offset}, group))
            if call.commits:
                outcome = UNKNOWN
                self.readers.commit()
                self.note("commit_transaction()")
                if self.plan.gives_up:
                    self.producer.commit_transaction()
                else:
                    self._until_known(self.producer.commit_transaction)
                outcome = COMMITTED
        except AbortableTransactionError as error:
            self.note(f"the transaction must be aborted: {error}")
            outcome = ABORTED
            self.check_failure(error, moved=group != self.consumer())
        finally:
            self.transactions.note(outcome, records, call.offset)
        if outcome is ABORTED:
            self.note("abort_transaction()")
            self._until_known(self.producer.abort_transaction)

    def check_failure(self, error: AbortableTransactionError, *, moved: bool) -> None:
        """Check that a transaction had to fail: for a record, or because its consumer has *moved*, or for a fault."""
        cause = error.__cause__
        codes = (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)
        aborted = isinstance(cause, BrokerError) and cause.code in codes
        ended = any(isinstance(fault, TimedOutTransaction | FencedProducer) for fault in self.faults)
        aborted &= ended or self._may_ask_only_an_outdated_coordinator
        explained = moved or aborted or isinstance(cause, DeliveryError) or self._is_replaced(error)
        if self.plan.kind.patient and not explained:
            raise Violation(f"the transaction failed without need: {error}") from error

    def _await(self, records: Sequence[Sent]) -> None:
        """Wait for the outcome of records."""
        began = self.simulation.clock()
        for record in records:
            if isinstance(record.delivery, Delivery):
                record.delivery.exception()
        limit = self.longest_wait(began)
        in_time("a wait", began=began, ended=self.simulation.clock(), timeout=limit, faults=self.plan.faults)

    def consumer(self) -> ConsumerGroupMetadata:
        """The consumer whose offset a transaction commits, as it is now."""
        generation = self.simulation.cluster.groups[GROUP].generation_id
        return (
            ConsumerGroupMetadata(GROUP, generation, MEMBER)
            if self.plan.fences_consumers
            else ConsumerGroupMetadata(GROUP)
        )

    def _until_known(self, call: Callable[[], object]) -> None:
        """Call again while time runs out: it is the same outcome that is waited for."""
        began = self.simulation.clock()
        limit = self.longest_wait(began)
        for _ in range(2_000 if self.plan.gives_up else 20):
            try:
                call()
            except TransactionTimeoutError:
                continue
            if self.plan.kind.patient:
                in_time("a call", began=began, ended=self.simulation.clock(), timeout=limit, faults=self.plan.faults)
            return
        raise Violation("the outcome of a call on the transaction is not known after 20 time-outs")

    def on_delivery(self, record: Sent, call: Send, delivery: Delivery) -> None:
        """Note the outcome of a record, and do what its callback does besides."""
        record.calls.append((self.simulation.clock(), delivery.error))
        record.metadata = delivery.metadata
        error = delivery.error
        self.note(f"{record}: {'acknowledged' if error is None else f'failed: {error}'}")
        match call.reaction:
            case "raise":
                raise ValueError("a callback that raises")
            case "send":
                again = attrs.evolve(call, reaction=NOTHING, topic=CROWDED, key=None, partition=None)
                with suppress(ProducerClosedError):
                    self.send(len(self.plan.programs), again, waits=False)
            case "flush":
                try:
                    self.producer.flush()
                except IllegalStateError:
                    return
                raise Violation("flush did not raise inside a callback")
            case "close":
                self.history.closes.append(self.simulation.clock())
                self.producer.close()

    def _flush(self, program: int, timeout: float | None) -> None:
        began = self.simulation.clock()
        before = [record for record in self.sent if record.program == program and record.delivery is not None]
        self.note(f"program {program}: flush({timeout})")
        try:
            self.producer.flush(timeout)
        except FlushTimeoutError:
            assert timeout is not None
            if self.simulation.clock() - began < timeout - 0.001:
                raise Violation(f"flush({timeout}) gave up after {self.simulation.clock() - began:.3f} s") from None
        else:
            late = [record for record in before if record.delivery is not None and not record.delivery.done()]
            if late:
                raise Violation(f"flush returned, and {late[0]} has no outcome")
        limit = timeout if timeout is not None else self._longest_flush(began)
        in_time(f"flush({timeout})", began=began, ended=self.simulation.clock(), timeout=limit, faults=self.plan.faults)

    def _close(self, timeout: float | None, *, last: bool = False) -> None:
        began = self.simulation.clock()
        history = self.history
        seconds = self.plan.config["delivery.timeout.ms"] / 1000 if timeout is None else timeout
        history.closes.append(began + seconds)
        self.note(f"close({timeout})")
        self.producer.close(timeout)
        self.note("closed")
        if last:
            history.returned_at = self.simulation.clock()
            self._check_nothing_open(early=history.returned_at < began + seconds)
        limit = timeout + 0.5 if timeout is not None else self.longest_wait(began)
        in_time(f"close({timeout})", began=began, ended=self.simulation.clock(), timeout=limit, faults=self.plan.faults)

    def _check_nothing_open(self, *, early: bool) -> None:
        """Check that a close that did not use up its time has left no transaction open, unless it is another's.

        Before KIP-890, a request whose response was lost may begin an empty one in the same epoch, if it comes late.
        """
        owner = self.simulation.cluster.transactions.ids.get(TRANSACTIONAL_ID)
        others = FencedProducer | TimedOutTransaction | DeniedTransactionalId
        if not early or owner is None or any(isinstance(fault, others) for fault in self.faults):
            return
        if (
            self.history.may_end
            or self._had_internal_error
            or self._may_ask_only_an_outdated_coordinator
            or (self.history.keeps_epoch and not self._has_opened(owner))
        ):
            return
        if owner.ongoing and not owner.completing:
            raise Violation("close returned early, and a transaction is open")

    def _has_opened(self, owner: ProducerOwner) -> bool:
        """Return whether a reader would have to wait for the transaction of an owner."""
        topics = self.simulation.cluster.topics.values()
        logs = (topic.log_of(number) for topic in topics for number in range(len(topic.leaders)))
        return bool(owner.offsets) or any(owner.producer_id in log.open_transactions for log in logs)

    def _longest_flush(self, began: float) -> float:
        """Seconds that a flush may take that began then: in a history without faults it does not wait for a linger."""
        linger: float = self.plan.config["linger.ms"] / 1000
        return self.history.prompt - linger if self.plan.kind.faultless else self.longest_wait(began)

    def longest_wait(self, began: float) -> float:
        """Seconds from the beginning of a call in which everything has to be complete."""
        ends = [fault.until for fault in self.plan.faults if fault.seconds < WHOLE_HISTORY]
        last = max(*ends, *(broker.muted_until for broker in self.network.cluster.brokers.values()), 0.0)
        bound = max(0.0, last - began) + COMPLETED_WITHIN
        return bound if self.plan.kind.patient else min(bound, self.plan.config["delivery.timeout.ms"] / 1000)

    def _on_time_out(self) -> None:
        self.note("the transaction has timed out")
        self.faults.append(TimedOutTransaction(at=self.simulation.clock(), transactional_id=TRANSACTIONAL_ID))

    def _on_request(self, link: Link, frame: bytes) -> None:
        try:
            immediately = self.plan.min_insync is None and not self.network.request_faults[link.broker.id]
            self.arrivals.on_request(link, frame, answered=immediately)
            if self._reads:
                self.readers.poll()
            if not self._recreates:
                self.epochs.check(self.producer._engine.metadata.cluster)
        except Violation as error:
            self.simulation.threads.fail(error)

    def _on_batch(self, arrival: BatchArrival) -> None:
        batch, offset = arrival.batch, arrival.offset
        names = ", ".join(str((record.value or b"")[:8]) for record in batch.records[:3])
        answer = f"at {offset}" if offset >= 0 else f"code {arrival.code}"
        numbers = f"{batch.epoch}/{batch.sequence}"
        place = f"{arrival.topic.name}-{arrival.partition} at broker {arrival.broker}"
        self.note(f"  {place} gets {numbers} ({len(batch.records)}: {names}): {answer}")
        try:
            self.arrivals.on_batch(arrival)
        except Violation as error:
            self.simulation.threads.fail(error)


def _noted(fault: Fault, run: Run) -> Fault:
    """The fault, with lines in the story."""
    return _Noted(fault, run)  # type: ignore[return-value]


class _Noted:
    def __init__(self, fault: Fault, run: Run) -> None:
        self._fault, self._run = fault, run
        self.at, self.until = fault.at, fault.until

    def begin(self, simulation: Simulation) -> None:
        self._run.note(f"FAULT {self._fault}")
        if isinstance(self._fault, RecreatedTopic | ForgottenProducers):
            self._run.forgets(self._fault)
        owner = simulation.cluster.transactions.ids.get(TRANSACTIONAL_ID)
        if isinstance(self._fault, ForgottenIds) and self._fault.lost and owner is not None and owner.busy:
            self._run.transactions.excuse()
        self._fault.begin(simulation)

    def end(self, simulation: Simulation) -> None:
        if self._fault.seconds:
            self._run.note(f"END OF {self._fault}")
        self._fault.end(simulation)


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
        raising_callbacks.forget()  # else the end of the program logs how many of them raised
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


def _wire(chance: Chance, *, plain: bool) -> LinkConditions:
    """Link conditions with which a large request takes less than `request.timeout.ms`.

    *plain*: sockets take all bytes of a write, and responses arrive in one piece.
    """
    wire = random_link_conditions(chance)
    if plain:
        return LinkConditions(round_trip=wire.round_trip, jitter=wire.jitter)
    return wire if wire.buffer is None or wire.round_trip < 0.005 else attrs.evolve(wire, buffer=20_000)


def _farthest(wires: Sequence[LinkConditions]) -> float:
    """Seconds that a round trip to the farthest broker takes, at most."""
    return max(wire.round_trip + 2 * wire.jitter + wire.setup for wire in wires)


def _prompt(plan: Plan, wires: Sequence[LinkConditions]) -> float:
    """Seconds in which each record has its outcome if there are no faults."""
    far = _farthest(wires) * (1 + STALLS * any(wire.partial_writes or wire.nothing for wire in wires))
    records = sum(len(calls) for calls in plan.programs)
    small = plan.config.get("batch.size", 16_384) <= 1_000 or {"buffer.memory", "max.request.size"} & set(plan.config)
    linger: float = plan.config["linger.ms"] / 1000
    return PROMPT + ROUND_TRIPS * far + linger + (ROUND_TRIP * records if small else 0.0)
