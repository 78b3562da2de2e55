"""Scripts for a producer and a simulated cluster, made from seeds: several faults in one script, in any order.

Faults are planned for records, not for requests: two producers may put the same records into different requests. The
lines are those of `producer_scripts`, and `* on SUBJECT TIMES FAULT`: what happens to the next requests that have this
record, or this name. `commit` and `abort` do what a program does, as `ProgramRun` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from producer_scripts import AFTER, BEFORE, Script

from ottla_testkit.simulation import Chance

KINDS: Final[Sequence[str]] = ("plain", "idempotent", "idempotent", "v2", "v2", "v2", "v1", "v1")
PARTITIONS: Final = 3
"""Partitions of the topic t, each with a leader of its own at first."""

MOST_PARTITIONS: Final = 6
"""Partitions of the topic t after the last one was added."""

SIZE: Final = 40
"""Bytes of most values: with `batch.size=1`, two of them do not fit into one of Java's batches."""

PASSING: Final = (
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "KAFKA_STORAGE_ERROR",
)
"""Codes of Produce after which both send a batch again."""

FATAL_IN_JAVA: Final = (
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_PRODUCER_ID_MAPPING",
    "PRODUCER_FENCED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
"""Codes that end Java's idempotent producer, and not Ottla's: `java_differences.toml` has the reason."""

TOO_LARGE: Final = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
"""Codes after which both split a batch, into other parts. The limit of a topic has the same outcome for all of them."""

PASSING_AFTER: Final = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
)

CONNECTION: Final = ("lost", "unanswered", "torn")

COORDINATOR: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")

CODES: Final = {
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "InitProducerId": (*COORDINATOR, "CONCURRENT_TRANSACTIONS", "CLUSTER_AUTHORIZATION_FAILED"),
    "AddPartitionsToTxn": (
        *COORDINATOR,
        "CONCURRENT_TRANSACTIONS",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "PRODUCER_FENCED",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTION_ABORTABLE",
    ),
    "AddOffsetsToTxn": (
        *COORDINATOR,
        "CONCURRENT_TRANSACTIONS",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_EPOCH",
        "GROUP_AUTHORIZATION_FAILED",
        "TRANSACTION_ABORTABLE",
    ),
    "TxnOffsetCommit": (
        *COORDINATOR,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "GROUP_AUTHORIZATION_FAILED",
        "ILLEGAL_GENERATION",
        "FENCED_INSTANCE_ID",
        "INVALID_PRODUCER_EPOCH",
        "TRANSACTION_ABORTABLE",
    ),
    "EndTxn": (
        *COORDINATOR,
        "CONCURRENT_TRANSACTIONS",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "PRODUCER_FENCED",
        "TRANSACTION_ABORTABLE",
        "UNKNOWN_SERVER_ERROR",
    ),
}
"""Codes of the requests that are not Produce."""


@attrs.define
class _Writer:
    """Writes one script."""

    chance: Chance
    kind: str
    mildly: bool
    """Whether nothing is refused for good."""
    keys: bool
    """Whether keys choose the partitions."""
    lines: list[str] = attrs.field(factory=list)
    records: int = 0
    lingers: bool = False
    """Whether a batch has all records until the next flush, instead of one."""
    passing: bool = False
    """Whether the faults of records pass, for now: other records may be in the same batch, or requests."""
    retries: int | None = None
    impatient: bool = False
    """Whether records time out."""
    partitions: int = PARTITIONS
    """The partitions of the topic by now."""
    ordered: bool = True
    """Whether order is kept, so that a record which gets no response holds up the later ones in both."""

    @property
    def transactional(self) -> bool:
        return self.kind in ("v1", "v2")

    def write(self) -> Sequence[str]:
        self._begin()
        if self.transactional:
            if self.chance.happens(0.9):
                self.lines.append("begin")
                self._warm_up()
                self.lines.append("commit")
            for _transaction in range(self.chance.randint(1, 3)):
                self._transaction()
            self.lines += ["* calm", "begin", f"send t 0 last {SIZE}", "commit"]
        else:
            if self.chance.happens(0.9):
                self._warm_up()
            for _burst in range(self.chance.randint(1, 4)):
                self._burst()
                if self.chance.happens(0.7):
                    self._settle()
            self._settle()
            self.lines += ["* calm", f"send t 0 last {SIZE}", "flush"]
        return self.lines

    def _begin(self) -> None:
        """Create the topic and the producer."""
        chance = self.chance
        self.lines.append(f"* create t {' '.join(str(1 + place) for place in range(PARTITIONS))}")
        settings = self._settings()
        if chance.happens(0.3):
            self.lines.append("* hint")
        if not self.transactional:
            if self.kind == "idempotent":
                self._disturb_requests("InitProducerId", probability=0.1, safely=True)
            self.lines.append(f"new {settings}")
            return
        self.lines.append("* source s")
        if self.kind == "v1":
            self.lines.append("* transactions 1")
        if self.retries is None and chance.happens(0.2):  # slow markers take attempts
            self.lines.append(f"* markers 0.{chance.randint(1, 3)}")
        self._disturb_requests("FindCoordinator", "InitProducerId", probability=0.15, safely=True)
        self.lines += [f"new {settings}", "init"]

    def _settings(self) -> str:
        chance = self.chance
        in_flight = chance.choice((1, 2, 5, 5))
        self.lingers = chance.happens(0.4)
        self.impatient = not self.lingers and chance.happens(0.2)
        self.ordered = self.kind != "plain" or in_flight == 1
        settings = [
            "transactional.id=x" if self.transactional else f"enable.idempotence={self.kind == 'idempotent'}".lower(),
            f"max.in.flight.requests.per.connection={in_flight}",
            "linger.ms=5000" if self.lingers else "batch.size=1 batch.growth.enable=false",
            "request.timeout.ms=1000 delivery.timeout.ms=2500"
            if self.impatient
            else "request.timeout.ms=5000 delivery.timeout.ms=10000",
        ]
        if self.kind == "plain":
            settings.append(f"acks={chance.choice(('all', 'all', '1', '1', '0'))}")
        if not self.lingers and chance.happens(0.15):
            self.retries = chance.randint(0 if self.kind == "plain" else 1, 4)
            settings.append(f"retries={self.retries}")
        return " ".join(settings)

    def _warm_up(self) -> None:
        """Send a first record to each partition: with several first ones in flight, Java cannot always go on."""
        self.lines += [f"send t {partition} w{partition}" for partition in range(PARTITIONS)]
        self._settle()

    def _settle(self) -> None:
        if self.lingers:
            self.lines.append("flush")
        self.lines.append("settle")

    def _transaction(self) -> None:
        chance = self.chance
        self.lines.append("begin")
        if self.kind == "v1":
            self._disturb_requests("AddPartitionsToTxn", probability=0.2, most=1)
        for _burst in range(chance.randint(0, 2)):
            self._burst()
            if chance.happens(0.5):
                self._settle()
        aborts = chance.happens(0.3)
        if aborts or chance.happens(0.7):
            self._settle()
            self._before_the_end()
        self._disturb_requests("EndTxn", probability=0.5)
        self._disturb_requests("InitProducerId", "FindCoordinator", probability=0.1)
        self.lines += ["abort" if aborts else "commit", "* undisturbed"]

    def _before_the_end(self) -> None:
        """Disturb a transaction whose records all have outcomes: otherwise time would decide."""
        if self.chance.happens(0.3):
            self._disturb_requests("AddOffsetsToTxn", "TxnOffsetCommit", probability=0.4)
            self.lines.append(f"offsets g s {self.chance.randint(1, 9)}")
        if self.chance.happens(0.1):
            self.lines.append("* time-out x")
        if not self.mildly and self.chance.happens(0.05):
            self.lines.append("* take-over x")

    def _burst(self) -> None:
        """Send some records, after plans for their requests."""
        chance, lines = self.chance, self.lines
        first = self.records
        self.records += chance.randint(1, 5)
        values = [f"r{number}" for number in range(first, self.records)]
        settled = lines[-1] == "settle"
        if (settled or lines[-1] == "begin") and chance.happens(0.4):
            lines.append(f"* {self._change()}")
            self.passing |= lines[-1].startswith(("* limit", "* recreate"))
        elif settled and self.partitions < MOST_PARTITIONS and chance.happens(0.15):
            self._add_partition()
        for value in values:
            for _plan in range(chance.randint(0, 2) if chance.happens(0.4) else 0):
                lines.append(f"* on {value} {self._plan(alone=settled and len(values) == 1)}")
        held = chance.randint(1, 3) if chance.happens(0.4) else None
        if held is not None:
            lines.append(f"* hold {held}")
        place = chance.randrange(self.partitions)
        for value in values:
            if chance.happens(0.3):
                place = chance.randrange(self.partitions)
            size = chance.choice((500, 2000)) if chance.happens(0.2) else SIZE
            lines.append(f"send t {'k' if self.keys else place} {value} {size}")
        if held is not None:
            lines += [f"* later 0.2 release {held}", "flush"] if self.lingers else ["* pause 0.1", f"* release {held}"]

    def _add_partition(self) -> None:
        """Add a partition, and send a first record to it, as to the others."""
        self.lines += [f"* grow t {self.chance.randint(1, 3)}", f"send t {self.partitions} w{self.partitions}"]
        self.partitions += 1
        self._settle()

    def _plan(self, *, alone: bool) -> str:
        """What happens to the requests with a record. *alone*: no other record is on its way."""
        chance = self.chance
        if self.impatient and chance.happens(0.3):
            faults = ["999 refuse NOT_ENOUGH_REPLICAS", "1 delayed 1.5"]
            return chance.choice([*(["1 ignored", "9 ignored"] if self.ordered else []), *faults])
        mildly = self.mildly or self.passing
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                code = chance.choice(PASSING if mildly or chance.happens(0.6) else BEFORE)
                if (self.kind == "idempotent" and code in FATAL_IN_JAVA) or (self.lingers and code in TOO_LARGE):
                    code = "INVALID_RECORD"
                return f"{chance.choice((1, 1, 2, 3))} refuse {code}"
            case 4 | 5:
                code = chance.choice(PASSING_AFTER if mildly or chance.happens(0.7) else AFTER)
                return f"1 refuse-after-append {code}"
            case 6 | 7 if self.retries is None:  # a lost connection costs all of its requests an attempt
                return f"{chance.choice((1, 1, 2))} {chance.choice(CONNECTION)}"
            case 8:
                return f"1 delayed 0.{chance.randint(1, 3)}"
            case _:
                return f"1 {chance.choice(('before', 'after'))} {self._change(alone=alone)}"

    def _change(self, *, alone: bool = True) -> str:
        """A change of the cluster. If records are not *alone*, one that fails none of them."""
        chance = self.chance
        partition, broker = chance.randrange(self.partitions), chance.randint(1, 3)
        if self.retries is not None and not alone:
            return "hint"
        changes = [f"lead t {partition} {broker}"] * 4 + [f"coordinator {broker}"] * 2 * self.transactional
        changes.append(f"grow t {broker}")
        if alone and not self.mildly:
            changes += ["forget t", "recreate t", "limit t 1200", "limit t 300", f"away {broker}"]
            changes += [f"back {number}" for number in range(1, 4)]
            changes.append("time-out x" if self.transactional else "outdate t")
        return chance.choice(changes)

    def _disturb_requests(self, *names: str, probability: float, safely: bool = False, most: int = 2) -> None:
        for name in names:
            if self.chance.happens(probability):
                self.lines += [f"* on {name} {fault}" for fault in self._request_faults(name, safely, most)]

    def _request_faults(self, name: str, safely: bool, most: int) -> Iterator[str]:
        chance = self.chance
        for _fault in range(chance.randint(1, most)):
            match chance.randrange(6):
                case 0 | 1:
                    passing = ("COORDINATOR_NOT_AVAILABLE",) if name == "FindCoordinator" else COORDINATOR
                    anything = not safely and not self.mildly and chance.happens(0.5)
                    yield f"1 refuse {chance.choice(CODES[name] if anything else passing)}"
                case 2 | 3:
                    yield f"1 {chance.choice(CONNECTION)}"
                case 4:
                    yield f"1 delayed 0.{chance.randint(1, 3)}"
                case _:
                    yield f"1 {chance.choice(('before', 'after'))} coordinator {chance.randint(1, 3)}"


def random_script(seed: int) -> Script:
    """The script of a seed."""
    chance = Chance(seed)
    kind = chance.choice(KINDS)
    writer = _Writer(chance, kind, mildly=chance.happens(0.5), keys=chance.happens(0.2))
    return Script(f"{kind} {seed}", writer.write())
