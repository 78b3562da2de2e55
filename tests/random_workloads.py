"""Random workloads that run in a real cluster and in a simulated one, and what must hold of their records."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import attrs

from invariants import (
    ABORTED,
    COMMITTED,
    REFUSALS,
    UNKNOWN,
    History,
    Sent,
    Transactions,
    each_has_one_outcome,
    logs_agree_with_outcomes,
    name_of,
    value_of,
)
from ottla import Delivery, Producer
from ottla.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    OttlaError,
    ProducerClosedError,
    TransactionError,
    TransactionTimeoutError,
)
from ottla_testkit.simulation.planned_faults import Fault, RecreatedTopic

PARTITIONS: Final = 3
PLAIN, IDEMPOTENT, TRANSACTIONAL = KINDS = ("plain", "idempotent", "transactional")
ENDS_WITHIN: Final = 60.0


class World:
    """A real or simulated cluster with one topic, for one producer at a time."""

    topic: str
    transactional_id: str

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        """Make a producer."""
        raise NotImplementedError

    def clock(self) -> float:
        """The time in seconds since the beginning."""
        raise NotImplementedError

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        raise NotImplementedError


@attrs.define
class Work:
    """What one producer has sent in a world."""

    kind: str
    settings: Mapping[str, Any]
    sent: list[Sent] = attrs.field(factory=list)
    refused: set[tuple[int, int]] = attrs.field(factory=set)
    transactions: Transactions = attrs.field(factory=Transactions)
    numbers: Iterator[int] = attrs.field(factory=count)

    @property
    def idempotent(self) -> bool:
        """Whether no record may be there twice."""
        return self.kind != PLAIN


def random_settings(kind: str, chance: random.Random) -> Mapping[str, Any]:
    """The settings of a producer."""
    settings: dict[str, Any] = {
        "linger.ms": chance.choice((0, 5, 50)),
        "batch.size": chance.choice((1, 500, 16_384)),
        "enable.idempotence": kind != PLAIN,
        "acks": "all",
        "max.in.flight.requests.per.connection": chance.choice((1, 5)),
        "request.timeout.ms": chance.choice((700, 2_000)),
        "delivery.timeout.ms": chance.choice((3_000, 60_000)),
        "max.block.ms": 5_000,
        "metadata.max.age.ms": chance.choice((1_000, 300_000)),
        "retry.backoff.ms": chance.choice((20, 100)),
        "reconnect.backoff.max.ms": 300,
        "compression.type": "none",
    }
    if kind == TRANSACTIONAL:
        settings |= {"transaction.timeout.ms": 15_000, "max.block.ms": 20_000}
    return settings


def run(world: World, work: Work, chance: random.Random, *, until: float) -> None:
    """Send until a time, and close the producer; after an error that ends it, make another one."""
    while world.clock() < until:
        name = {"transactional.id": world.transactional_id} if work.kind == TRANSACTIONAL else {}
        with suppress(TransactionError, ProducerClosedError):  # denied, or at its end
            producer = world.producer({**work.settings, **name})
            try:
                if work.kind == TRANSACTIONAL:
                    _transact(world, work, producer, chance, until)
                else:
                    _send(world, work, producer, chance, until)
            finally:
                with suppress(OttlaError):
                    producer.close(30.0)
        world.sleep(0.1)


def _send(world: World, work: Work, producer: Producer, chance: random.Random, until: float) -> None:
    while world.clock() < until:
        _send_one(world, work, producer, chance)
        if chance.random() < 0.02:
            with suppress(OttlaError):
                producer.flush(1.0)
        world.sleep(chance.choice((0.002, 0.01, 0.05)))


def _transact(world: World, work: Work, producer: Producer, chance: random.Random, until: float) -> None:
    _until_known(producer.init_transactions)
    while world.clock() < until:
        producer.begin_transaction()
        first, outcome = len(work.sent), ABORTED
        try:
            for _ in range(chance.choice((1, 3, 20))):
                _send_one(world, work, producer, chance)
                world.sleep(chance.choice((0.0, 0.01)))
            if chance.random() < 0.8:
                outcome = UNKNOWN
                _until_known(producer.commit_transaction)
                outcome = COMMITTED
        except AbortableTransactionError:
            outcome = ABORTED
        finally:
            work.transactions.note(outcome, work.sent[first:], None)
        if outcome is ABORTED:
            _until_known(producer.abort_transaction)
        world.sleep(chance.choice((0.0, 0.02)))


def _until_known(call: Callable[[], object]) -> None:
    for _ in range(10):
        with suppress(TransactionTimeoutError):
            call()
            return
    raise AssertionError("the outcome of a call on the transaction is not known after ten time-outs")


def _send_one(world: World, work: Work, producer: Producer, chance: random.Random) -> None:
    key = b"%d" % chance.randrange(5) if chance.random() < 0.5 else None
    partition = chance.randrange(PARTITIONS) if chance.random() < 0.2 else None
    program, number, size = KINDS.index(work.kind), next(work.numbers), chance.choice((10, 100, 1_000))
    record = Sent(
        program=program, number=number, topic=world.topic, partition=partition, size=size, sent_at=world.clock()
    )

    def done(delivery: Delivery) -> None:
        record.calls.append((world.clock(), delivery.error))
        record.metadata = delivery.metadata

    work.sent.append(record)
    value = value_of(program, number, size)
    try:
        record.delivery = producer.send(
            world.topic, value, key=key, partition=partition, timestamp_ms=number, on_delivery=done
        )
        record.queued_at = world.clock()
    except (*REFUSALS, ProducerClosedError, AbortableTransactionError, FatalTransactionError) as error:
        work.sent.remove(record)
        work.refused.add(record.name)
        if not isinstance(error, REFUSALS):
            raise


@attrs.frozen
class Written:
    """A record in a log."""

    value: bytes
    timestamp_ms: int


def check(work: Work, topic: str, logs: Mapping[int, Mapping[int, Written]], faults: Sequence[Fault]) -> None:
    """Check the outcomes of a producer's records against what readers of committed records see, by offset."""
    columns = {partition: _column(found) for partition, found in logs.items()}
    lost_before = max((fault.until + 1.0 for fault in faults if isinstance(fault, RecreatedTopic)), default=0.0)
    history = History(
        idempotent=work.idempotent,
        in_order=work.idempotent or work.settings["max.in.flight.requests.per.connection"] == 1,
        patient=False,
        may_end=True,
        delivery_timeout=work.settings["delivery.timeout.ms"] / 1000,
        prompt=float("inf"),
        faults=faults,
        topics=[SimpleNamespace(name=topic, log=columns, replicated={}, append_time=False)],  # type: ignore[list-item]
        sent=work.sent,
        refused=work.refused,
    )
    each_has_one_outcome(history)
    if work.kind != TRANSACTIONAL:
        history.sent = [each for each in work.sent if not each.acknowledged or each.sent_at >= lost_before]
        logs_agree_with_outcomes(history)
    elif not lost_before:
        own = [record for record in work.sent if record.delivery is not None]
        names = {record.name for record in own}
        seen = {p: [each.value for each in log if name_of(each.value) in names] for p, log in columns.items()}
        shown = SimpleNamespace(name=topic, log=seen, committed=lambda partition, *, deleted: seen[partition])
        kept = SimpleNamespace(committed_offsets={})
        work.transactions.check(SimpleNamespace(topics={topic: shown}, deleted=[], older_logs=False, transactions=kept))  # type: ignore[arg-type]


def _column(found: Mapping[int, Written]) -> list[Written]:
    """The records of a partition in the places of their offsets; markers and aborted records are left as gaps."""
    gap = Written(b"-1:0:", -1)
    return [found.get(offset, gap) for offset in range(max(found, default=-1) + 1)]


def in_threads(*calls: Callable[[], object]) -> None:
    """Make calls on threads of their own; raise the first error."""
    errors: list[BaseException] = []

    def run_one(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run_one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
