"""A Kafka cluster, some Python workers and drivers of Spark in one process, where everything may die at any step.

Drivers run the real decisions, each on a thread of its own, one at a time: before every step of theirs the scenario
says who goes on, and what becomes of that step.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import attrs

from ottla.errors import OttlaError, TransactionTimeoutError
from ottla.transactions import Outcome, PreparedTransaction
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.cluster import OpenTaskTransaction, TransactionOutcome, TransactionStatus
from ottla_spark.exactly_once.driver.commit import abort_left_open, abort_prepared, commit
from ottla_spark.exactly_once.driver.plan import Plan, plan
from ottla_spark.exactly_once.errors import DataLossError, LeaseLostError
from ottla_spark.exactly_once.ledger.entry import Entry, Ledger, Status, Step, next_step
from ottla_spark.exactly_once.ledger.lease import Lease, lease_id
from ottla_spark.exactly_once.transactional_ids import IdPool, is_task_id

NAME = "orders"
QUERY = "query-1"
TOPIC = "t"
TIMEOUT = 900.0


class Killed(BaseException):
    """The process is gone."""


class Fault(enum.Enum):
    """The outcome of a step."""

    NONE = "nothing"
    KILLED_BEFORE = "killed before it"
    KILLED_AFTER = "killed after it"
    REQUEST_LOST = "its request is lost"
    ANSWER_LOST = "its answer is lost"


@attrs.define
class Transaction:
    """One transactional id, as its coordinator has it; `ended` is how its last epoch came to its end.

    `renewed` is the epoch for which its holder got this one.
    """

    producer_id: int
    epoch: int
    rows: list[str] | None = None
    began: float = 0.0
    ended: tuple[int, bool] | None = None
    renewed: int | None = None


@attrs.define
class SimulatedBrokers:
    """The state of brokers. `level` is the transaction.version: from 2 on each end raises the epoch.

    The driver's clock is `ahead` of theirs.
    """

    level: int = 2
    now: float = 0.0
    ahead: float = 0.0
    visible: Counter[str] = attrs.Factory(Counter)
    ids: dict[str, Transaction] = attrs.Factory(dict)
    ledger: list[Entry | None] = attrs.Factory(list)
    waiting: Entry | None = None
    lost: list[Entry] = attrs.Factory(list)

    def initialize(self, transactional_id: str) -> Transaction:
        """A new epoch; what was open is aborted."""
        known = self.ids.get(transactional_id)
        if known is None:
            known = self.ids[transactional_id] = Transaction(producer_id=len(self.ids), epoch=0)
        else:
            self._close(transactional_id, commit=False)
            known.epoch, known.ended, known.renewed = known.epoch + 1, None, None
        return known

    def renew(self, lease: Lease) -> Transaction | None:
        """A new epoch for the holder alone, and the same one if it requests that again (KIP-360)."""
        known = self.ids[lease.transactional_id]
        if known.producer_id != lease.producer_id or lease.epoch not in (known.epoch, known.renewed):
            return None
        if lease.epoch == known.epoch:
            self.initialize(lease.transactional_id).renewed = lease.epoch
        return known

    def begin(self, transactional_id: str, rows: list[str]) -> PreparedTransaction:
        """Write in the id's epoch, and leave it open."""
        found = self.ids[transactional_id]
        found.rows, found.began, found.ended = rows, self.now, None
        return PreparedTransaction(
            transactional_id=transactional_id, producer_id=found.producer_id, epoch=found.epoch, level=self.level
        )

    def end(self, prepared: PreparedTransaction | OpenTaskTransaction, *, commit: bool) -> Outcome:
        """As EndTxn has it."""
        found = self.ids.get(prepared.transactional_id)
        if found is None:
            return Outcome.UNKNOWN
        if (found.producer_id, found.epoch) == (prepared.producer_id, prepared.epoch) and found.rows is not None:
            self._close(prepared.transactional_id, commit=commit)
            return Outcome.COMMITTED if commit else Outcome.ABORTED
        if found.producer_id == prepared.producer_id and found.ended == (prepared.epoch, True):
            return Outcome.ALREADY_COMMITTED
        if found.producer_id == prepared.producer_id and found.ended == (prepared.epoch, False):
            return Outcome.ALREADY_ABORTED
        return Outcome.FENCED

    def status(self, prepared: PreparedTransaction) -> TransactionStatus:
        """As DescribeTransactions has it, and EndTxn where that says too little."""
        found = self.ids.get(prepared.transactional_id)
        if found is not None and found.rows is not None and found.epoch == prepared.epoch:
            return TransactionStatus(
                outcome=TransactionOutcome.OPEN, age=self.now - found.began + self.ahead, timeout=TIMEOUT
            )
        outcome = self.end(prepared, commit=True)
        if outcome is Outcome.UNKNOWN:
            return TransactionStatus(outcome=TransactionOutcome.UNKNOWN)
        return TransactionStatus(
            outcome=TransactionOutcome.COMMITTED if outcome.committed else TransactionOutcome.ABORTED
        )

    def pass_time(self, seconds: float) -> None:
        """Transactions that are open for too long are aborted, and their writers fenced."""
        self.now += seconds
        for transactional_id, found in self.ids.items():
            if found.rows is not None and self.now - found.began >= TIMEOUT:
                epoch = found.epoch
                self._close(transactional_id, commit=False)
                if self.level < 2:
                    found.epoch, found.ended = epoch + 1, None

    def expire_ids(self) -> None:
        """As after seven days: brokers forget ids whose transactions are over."""
        self.ids = {name: found for name, found in self.ids.items() if found.rows is not None or name == lease_id(NAME)}

    def _close(self, transactional_id: str, *, commit: bool) -> None:
        found = self.ids[transactional_id]
        if found.rows is None:
            return
        if transactional_id == lease_id(NAME):
            if commit:
                self.ledger.append(self.waiting)
            self.waiting = None
        elif commit:
            self.visible.update(found.rows)
        found.rows, found.ended = None, (found.epoch, commit)
        if self.level >= 2:
            found.epoch, found.renewed = found.epoch + 1, None

    def mixed(self, entry: Entry) -> bool:
        """Whether a part of a batch is visible and the rest never will be."""
        outcomes = {self.status(each.prepared).outcome for each in entry.listed}
        return TransactionOutcome.COMMITTED in outcomes and TransactionOutcome.ABORTED in outcomes


@attrs.define
class Worker:
    """A Python worker of an executor: its ids outlive tasks, queries and drivers of one application."""

    brokers: SimulatedBrokers
    pool: IdPool = attrs.Factory(lambda: IdPool(name=NAME, process=uuid.uuid4().hex))
    prepared: dict[str, PreparedTransaction] = attrs.Factory(dict)

    def write(self, given: Plan, rows: list[str]) -> PreparedTransaction:
        """Write rows in a transaction and prepare it, going on with what its id did before if that was committed."""
        brokers = self.brokers
        name = self.pool.take(given.lease)
        before = self.prepared.get(name)
        goes_on = (
            before is not None
            and brokers.level >= 2
            and given.last is not None
            and given.last.status is Status.DONE
            and any(each.prepared == before for each in given.last.listed)
            and brokers.ids.get(name) is not None
            and brokers.end(before, commit=True).committed
        )
        if not goes_on:
            brokers.initialize(name)
        self.prepared[name] = brokers.begin(name, rows)
        return self.prepared[name]


@attrs.define
class Checkpoint:
    """Spark's state of a query: the next batch."""

    next_batch: int = 0
    batches: Sequence[Sequence[list[str]]] = ()


class Actor:
    """A process that does steps, one for each call of `go`. It ends by itself, by an error, or killed."""

    def __init__(self, work: Callable[[Actor], None]) -> None:
        self.error: BaseException | None = None
        self.ended = False
        self.at = ""
        self._fault = Fault.NONE
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._stands.acquire()

    def go(self, fault: Fault = Fault.NONE) -> None:
        """Do the step at which it stands, and go on to the next one or to the end."""
        assert not self.ended, "it has no more steps to do"
        self._fault = fault
        self._may_go.release()
        self._stands.acquire()
        if self.ended:
            self._thread.join()

    def step(self, what: str, action: Callable[[], object]) -> None:
        """Stand still, then do it, or whatever becomes of it."""
        self.at = what
        self._stands.release()
        self._may_go.acquire()
        fault = self._fault
        if fault is Fault.KILLED_BEFORE:
            raise Killed(what)
        if fault is Fault.REQUEST_LOST:
            raise TransactionTimeoutError(f"{what}: request lost")
        action()
        if fault is Fault.KILLED_AFTER:
            raise Killed(what)
        if fault is Fault.ANSWER_LOST:
            raise TransactionTimeoutError(f"{what}: answer lost")

    def _run(self, work: Callable[[Actor], None]) -> None:
        try:
            work(self)
        except BaseException as error:
            self.error = error
        self.ended = True
        self._stands.release()


@attrs.define
class SteppedCluster:
    """The cluster as one actor sees it: every answer is a step of that actor's."""

    brokers: SimulatedBrokers
    actor: Actor

    def now(self) -> float:
        return self.brokers.now

    def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[OpenTaskTransaction]:
        found: list[OpenTaskTransaction] = []

        def look() -> None:
            found.extend(
                OpenTaskTransaction(transactional_id=each, producer_id=state.producer_id, epoch=state.epoch)
                for each, state in self.brokers.ids.items()
                if state.rows is not None and is_task_id(name, each) and each not in but
            )

        self.actor.step("list", look)
        return found

    def take_lease(self, name: str) -> Lease:
        taken: list[Transaction] = []
        self.actor.step("lease", lambda: taken.append(self.brokers.initialize(lease_id(name))))
        [found] = taken
        return Lease(name=name, producer_id=found.producer_id, epoch=found.epoch, level=self.brokers.level)

    def holds(self, lease: Lease) -> bool:
        found: list[bool] = []

        def look() -> None:
            known = self.brokers.ids[lease.transactional_id]
            found.append((known.producer_id, known.epoch) == (lease.producer_id, lease.epoch))

        self.actor.step("check the lease", look)
        return found[0]

    def renew_lease(self, lease: Lease) -> Lease | None:
        taken: list[Transaction | None] = []
        self.actor.step("renew the lease", lambda: taken.append(self.brokers.renew(lease)))
        [found] = taken
        return None if found is None else attrs.evolve(lease, epoch=found.epoch)

    def ledger(self, name: str) -> Ledger:
        read: list[Ledger] = []
        log = self.brokers.ledger
        self.actor.step("read", lambda: read.append(Ledger(last=log[-1] if log else None, end=len(log))))
        return read[0]

    def append(self, lease: Lease, entry: Entry | None) -> Lease:
        brokers, name = self.brokers, lease.transactional_id

        def produce() -> None:
            found = brokers.ids[name]
            if (found.producer_id, found.epoch) != (lease.producer_id, lease.epoch):
                lost = LeaseLostError("the ledger was taken over")
                lost.refused = True
                raise lost
            brokers.begin(name, [])
            brokers.waiting = entry

        def end() -> None:
            mine = OpenTaskTransaction(transactional_id=name, producer_id=lease.producer_id, epoch=lease.epoch)
            if not brokers.end(mine, commit=True).committed:
                raise LeaseLostError("the ledger was taken over")

        self.actor.step("produce", produce)
        self.actor.step("end the entry", end)
        if brokers.level < 2:
            return attrs.evolve(lease, sequence=lease.sequence + 1)
        return attrs.evolve(lease, epoch=lease.epoch + 1)

    def statuses(self, transactions: Sequence[PreparedTransaction]) -> Sequence[TransactionStatus]:
        found: list[TransactionStatus] = []
        self.actor.step("describe", lambda: found.extend(map(self.brokers.status, transactions)))
        return found

    def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
        found: list[Outcome] = []
        what = "commit" if commit else "abort"
        self.actor.step(what, lambda: found.append(self.brokers.end(prepared, commit=commit)))
        return found[0]

    def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
        self.actor.step("sweep", lambda: self.brokers.end(found, commit=False))


@attrs.define
class Spark:
    """An application: its workers, and the checkpoint that it shares with every other one."""

    brokers: SimulatedBrokers
    checkpoint: Checkpoint
    workers: Sequence[Worker] = ()

    def new_workers(self, count: int = 2) -> None:
        """As after a restart of the application, or of its executors."""
        self.workers = [Worker(self.brokers) for _ in range(count)]

    def driver(
        self, *, attempts: Callable[[int, int], int] = lambda _batch, _partition: 1, calls: bool = False
    ) -> Actor:
        """Runs what batches there are. A task is run *attempts* times, and only its last attempt counts.

        *calls*: by `sink.job`, not by a data source, whose `abort` gets the results of successful tasks.
        """
        return Actor(lambda actor: self._drive(actor, attempts, calls))

    def _drive(self, actor: Actor, attempts: Callable[[int, int], int], calls: bool) -> None:
        cluster, checkpoint = SteppedCluster(self.brokers, actor), self.checkpoint
        while checkpoint.next_batch < len(checkpoint.batches):
            batch = checkpoint.next_batch
            done: list[Attempt | None] = [None] * len(checkpoint.batches[batch])
            given = plan(cluster, NAME)
            try:
                for partition, rows in enumerate(checkpoint.batches[batch]):
                    for _ in range(attempts(batch, partition)):
                        self._task(actor, given, batch, partition, rows, done)
                commit(cluster, [each for each in done if each is not None], batch=batch)
            except Exception:
                if not calls:
                    abort_prepared(cluster, done)
                elif None in done:
                    with contextlib.suppress(OttlaError):
                        abort_left_open(cluster, given.lease)
                raise
            actor.step("checkpoint", lambda written=batch + 1: self._note(written))  # type: ignore[misc]

    def _task(
        self, actor: Actor, given: Plan, batch: int, partition: int, rows: list[str], done: list[Attempt | None]
    ) -> None:
        step = next_step(given.last, name=NAME, query=QUERY, batch=batch)
        prepared: list[PreparedTransaction] = []
        if step is Step.WRITE and rows:
            worker = self.workers[partition % len(self.workers)]
            actor.step("task", lambda: prepared.append(worker.write(given, list(rows))))
        done[partition] = Attempt(
            lease=given.lease,
            query=QUERY,
            batch=batch,
            partition=partition,
            step=step,
            prepared=prepared[0] if prepared else None,
            records=len(rows),
            rows=len(rows),
            topics=(TOPIC,) if rows else (),
            planned_at=given.planned_at,
            rows_in_ledger=given.last.rows if given.last is not None and step is Step.SKIP else None,
            topics_in_ledger=given.last.topics if given.last is not None and step is Step.SKIP else None,
        )

    def _note(self, next_batch: int) -> None:
        self.checkpoint.next_batch = max(self.checkpoint.next_batch, next_batch)


def run(actor: Actor, *, at: int = -1, fault: Fault = Fault.NONE) -> int:
    """Let it go on to its end, with a fault at one of its steps; how many steps it did."""
    steps = 0
    while not actor.ended:
        actor.go(fault if steps == at else Fault.NONE)
        steps += 1
    return steps


def run_until_done(spark: Spark, *, within: int = 8) -> DataLossError | None:
    """Start the query again until it has nothing left to write; DataLossError when it says so."""
    for _ in range(within):
        actor = spark.driver()
        run(actor)
        if isinstance(actor.error, DataLossError):
            return actor.error
        if actor.error is None:
            return None
    raise AssertionError(f"not done after {within} starts; the last error: {actor.error!r}")


def expected(spark: Spark) -> Counter[str]:
    """Every row once."""
    return Counter(row for batch in spark.checkpoint.batches for rows in batch for row in rows)


def some_spark(*, level: int = 2, batches: int = 2, tasks: int = 2) -> Spark:
    """Two workers and nothing written; rows say where they belong."""
    rows = [[[f"{batch}.{task}.{row}" for row in range(2)] for task in range(tasks)] for batch in range(batches)]
    brokers = SimulatedBrokers(level=level)
    spark = Spark(brokers, Checkpoint(batches=rows))
    spark.new_workers()
    return spark
