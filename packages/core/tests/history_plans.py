"""Plans of random histories: the configuration of a producer, the calls of its programs, and faults, from one seed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from invariants import FIRST_THAT_THROTTLES, RECORD_COST
from ottla.errors import (
    ErrorCode,
)
from ottla.network.metadata_messages import FIRST_WITH_TOPIC_IDS
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE, Message
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.simulation import Chance
from ottla_testkit.simulation.brokers import MESSAGES
from ottla_testkit.simulation.fault_injection import COORDINATOR_REFUSALS, COORDINATOR_REQUESTS
from ottla_testkit.simulation.planned_faults import (
    AddedPartition,
    ChangedTransactionVersion,
    CoordinatorRefusals,
    CrashedBroker,
    CreatedTopic,
    CutConnections,
    DeletedRecords,
    DeniedTopic,
    DeniedTransactionalId,
    DistantBroker,
    Fault,
    FaultyRequests,
    FencedProducer,
    ForeignBroker,
    ForgottenIds,
    ForgottenProducers,
    FrozenBroker,
    HalfOpenConnections,
    InterruptedProgram,
    IsolatedBroker,
    MovedCoordinator,
    MovedGroupCoordinator,
    MovedLeader,
    OutdatedFeatures,
    OutdatedMetadata,
    ProduceQuota,
    RebalancedGroup,
    RecreatedTopic,
    RefusedLogin,
    ReplacedCluster,
    ReplacedCoordinator,
    SeparateMarkers,
    SlowFollower,
    SlowMarkers,
    SmallBatches,
    StoppedProcess,
    ThrottlingBroker,
    TimedOutTransaction,
    UncleanElection,
    UnconfirmedWrite,
    UnlistedBroker,
    UnreachableBroker,
    UpgradedBroker,
)
from ottla_testkit.simulation.planned_network import RequestFault, random_request_fault
from ottla_testkit.simulation.produce_requests import AfterAppend, Scripted
from ottla_testkit.simulation.refusals import ANY, ANY_THAT_ABORTS, RETRIABLE
from ottla_testkit.simulation.transactions import LAST_EPOCH, TXN_V2

BROKERS: Final = (1, 2, 3)
TOPICS: Final[Mapping[str, tuple[int, ...]]] = {"t": (1, 2, 3), "u": (3, 1)}
LATE_TOPICS: Final = ("late-1", "late-2", "late-3", "late-4")
"""Topics that are created while programs wait for them."""
FIRST_WITH_EPOCHS: Final = 7
"""From this version on, Metadata has the epochs of leaders."""
FIRST_WITH_CLUSTER_ID: Final = 2
"""From this version on, Metadata has the id of the cluster."""
FIRST_WITH_FEATURES: Final = 3
"""From this version on, the response to ApiVersions has the features of the cluster."""
FIRST_WITH_MEMBERS: Final = 3
"""From this version on, TxnOffsetCommit has the consumer's membership of its group."""
FIRST_WITH_EPOCH: Final = 3
"""From this version on, InitProducerId gives a producer another epoch."""
BEFORE_2_4: Final[Mapping[int, int]] = {
    PRODUCE.key: 7,
    METADATA.key: 8,
    FIND_COORDINATOR.key: 2,
    API_VERSIONS.key: 2,
    INIT_PRODUCER_ID.key: 1,
    ADD_PARTITIONS_TO_TXN.key: 1,
    ADD_OFFSETS_TO_TXN.key: 1,
    END_TXN.key: 1,
    TXN_OFFSET_COMMIT.key: 2,
}
"""The newest versions of requests that Kafka 2.3 knows."""
KAFKA_2_8: Final[Mapping[int, int]] = {
    PRODUCE.key: 9,
    METADATA.key: 11,
    FIND_COORDINATOR.key: 3,
    API_VERSIONS.key: 3,
    INIT_PRODUCER_ID.key: 4,
    ADD_PARTITIONS_TO_TXN.key: 3,
    ADD_OFFSETS_TO_TXN.key: 3,
    END_TXN.key: 3,
    TXN_OFFSET_COMMIT.key: 3,
}
"""The newest versions of requests that Kafka 2.8 knows."""
KAFKA_3_9: Final[Mapping[int, int]] = {
    PRODUCE.key: 11,
    METADATA.key: 12,
    FIND_COORDINATOR.key: 6,
    API_VERSIONS.key: 4,
    INIT_PRODUCER_ID.key: 5,
    ADD_PARTITIONS_TO_TXN.key: 5,
    ADD_OFFSETS_TO_TXN.key: 4,
    END_TXN.key: 4,
    TXN_OFFSET_COMMIT.key: 4,
}
KAFKA_4: Final[Mapping[int, int]] = {
    **KAFKA_3_9,
    PRODUCE.key: 13,
    METADATA.key: 13,
    END_TXN.key: 5,
    TXN_OFFSET_COMMIT.key: 5,
}
CROWDED: Final = "t"
TRANSACTIONAL_ID: Final = "tx"
GROUP: Final = "g"
MEMBER: Final = "consumer-1"
WHOLE_HISTORY: Final = 1_000.0
"""Seconds that a fault lasts that does not end in a history."""
LONGEST: Final = 30.0
"""Seconds in which faults begin."""
COMPLETED_WITHIN: Final = 45.0
"""Seconds after the last fault and the last call in which a producer has to be done."""
PROMPT: Final = 0.1
"""Seconds in which a record has its outcome if there are no faults, and every record finds room in a batch,

besides the linger time and `ROUND_TRIPS` to the farthest broker.
"""
ROUND_TRIPS: Final = 6
STALLS: Final = 5
"""Further round trips for each of them if sockets take nothing, or a part, of some writes: then the rest waits for one.

Half of the writes may do so, several times in a row; one of a million histories needs more than this.
"""
ROUND_TRIP: Final = 0.2
"""Seconds that a request takes if there are no faults, at most."""

FIRST_RECORD: Final = 2_000
"""Bytes that a batch may want for its first record, besides twice the record's size."""
LARGEST: Final = 2_500
"""The largest size of a record."""

LOGGED_REQUESTS: Final = COORDINATOR_REQUESTS[:-1]
"""Requests that a coordinator writes to the log of transactions."""

# What a callback does, besides noting its outcome.
NOTHING, RAISE, SEND, FLUSH, CLOSE = "nothing", "raise", "send", "flush", "close"


@attrs.frozen(kw_only=True)
class Call:
    """One call of a program, and the seconds that it sleeps afterwards."""

    sleep: float = 0.0
    task: int = 0
    """The task that makes the call, if the program has tasks."""
    cancelled_after: float | None = None
    """Seconds after which the task is cancelled if the call still waits; None: it is not."""


@attrs.frozen(kw_only=True)
class Send(Call):
    """A record, and what its callback does."""

    topic: str
    partition: int | None
    key: bytes | None
    size: int
    reaction: str = NOTHING
    timeout: float | None = None
    """Seconds that a task waits to queue the record; None: `max.block.ms`."""
    awaited: bool = False
    """Whether the task waits for the record's outcome."""


@attrs.frozen(kw_only=True)
class Table(Call):
    """A table of so many rows, in batches with a pause between them."""

    topic: str
    rows: int
    size: int
    batch: int
    pause: float
    keys: bool
    timeout: float | None


@attrs.frozen(kw_only=True)
class Abandon(Call):
    """The end of the event loop, while other tasks wait; a new loop runs the rest of the calls."""


@attrs.frozen(kw_only=True)
class Flush(Call):
    """A flush, in seconds."""

    timeout: float | None


@attrs.frozen(kw_only=True)
class Close(Call):
    """A close, in seconds."""

    timeout: float | None


@attrs.frozen(kw_only=True)
class Transaction(Call):
    """A transaction with these records, and perhaps an offset of a consumer."""

    sends: Sequence[Send]
    offset: int | None
    commits: bool
    awaited: Sequence[int] = ()
    """The places of records whose outcome is waited for before anything else is called."""
    block: bool = False
    """Whether tasks write it in a block, whose task may be cancelled, instead of by calls."""
    asks: bool = False
    """Whether the program asks again for an outcome after its task was cancelled."""


class PluginChoice(enum.Enum):
    """The plugins of a producer that tasks share."""

    DEFAULT = "the default ones"
    KEYS_TOGETHER = "a partitioner for many keys at once"
    INTERCEPTOR = "an interceptor"
    LOOKUPS = "a serializer with lookups"


@attrs.frozen(kw_only=True)
class Kind:
    """The kind of a history. In a *patient* one records wait longer than faults last, so few may fail."""

    idempotent: bool = True
    patient: bool = False
    faultless: bool = False
    crowded: bool = False
    reshaped: bool = False
    divided: bool = False
    transactional: bool = False
    awaiting: bool = False
    """Whether transactions wait for the outcome of records before they end."""
    replicated: bool = False
    unclean: bool = False
    """Whether leaders are elected that lack acknowledged records."""
    interrupted: bool = False
    """Whether Ctrl-C interrupts programs that wait."""
    moving: bool = False
    """Whether leaders move while a broker is frozen, and only one request is in flight."""
    throttled: bool = False
    secured: bool = False
    """Whether brokers require logins, whose sessions end, and deny what was allowed."""
    replaced: bool = False
    """Whether all brokers are set up again as another cluster, where another producer has the first producer id."""
    slow: bool = False
    """Whether transactions last longer than their time-out."""
    trimmed: bool = False
    """Whether the oldest records of topics are deleted."""
    tasks: bool = False
    """Whether tasks of event loops share an `AsyncProducer`."""
    writers: bool = False
    """Whether threads send in transactions that another one begins and ends."""
    marked: bool = False
    """Whether the markers of a transaction come to its partitions one by one, each perhaps late or twice."""
    doubtful: bool = False
    """Whether a coordinator answers that it has not carried out what the next one has."""
    disowned: bool = False
    """Whether the coordinator forgets the transactional id, in some histories with its transaction."""
    upgraded: bool = False
    """Whether the level of `transaction.version` changes while a producer runs."""
    rolling: bool = False
    """Whether brokers are upgraded one after the other while records flow, and learn of new features one by one."""
    unaware: bool = False
    """Whether coordinators that were frozen and replaced go on, and answer from what they knew before."""
    misdirected: bool = False
    """Whether the address of a broker leads to another cluster for a while."""
    succeeded: bool = False
    """Whether another producer goes on with the transactional id of one that can do nothing more."""
    confirmed: bool = True
    """Whether brokers acknowledge records: not with `acks=0`."""
    refusals: Sequence[Scripted] = RETRIABLE


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
    transaction_version: int
    old_coordinators: bool
    """Whether coordinators give a producer no new epoch (KIP-360), so that some errors end it."""
    switching: float
    session: float
    """Seconds of a login's session; 0: it has no end."""
    versions: Sequence[Mapping[int, int]]
    """The newest versions of requests that each broker knows, by API key, where it is not the newest."""
    min_insync: int | None
    """`min.insync.replicas` of all topics; None: their partitions are not replicated."""
    append_time: bool
    """Whether records get the time of their append: `message.timestamp.type=LogAppendTime`."""
    last_epoch: int
    """The epoch after which a transactional id gets another producer id."""
    plugin: PluginChoice
    names_members: bool
    """Whether transactions name the consumer whose offset they commit, if all brokers know this."""
    older_logs: bool = False
    """Whether brokers forget producers with their records, as before Kafka 2.4."""
    gives_up: bool = False
    """Whether the program closes its producer when a commit runs out of time, instead of asking again."""

    @property
    def events(self) -> int:
        """How many faults and calls there are."""
        return len(self.faults) + sum(map(len, self.programs))

    @property
    def knows_epochs(self) -> bool:
        """Whether metadata has leader epochs; without, an isolated broker may seem to be the leader again."""
        newest = (versions.get(METADATA.key, METADATA.max_version) for versions in self.versions)
        return self.min_insync is None or min(newest) >= FIRST_WITH_EPOCHS

    @property
    def some_send_ids(self) -> bool:
        """Whether some brokers send the ids of topics in metadata, and some do not know them."""
        newest = [versions.get(METADATA.key, METADATA.max_version) for versions in self.versions]
        return min(newest) < FIRST_WITH_TOPIC_IDS <= max(newest)

    @property
    def delays_responses(self) -> bool:
        """Whether a broker that throttles delays its responses (before KIP-219), perhaps beyond request.timeout.ms."""
        newest = (versions.get(PRODUCE.key, PRODUCE.max_version) for versions in self.versions)
        return min(newest) < FIRST_THAT_THROTTLES

    @property
    def bumps_epochs(self) -> bool:
        """Whether each transaction has an epoch of its own (KIP-890): brokers have that feature, and say so."""
        newest = (versions.get(API_VERSIONS.key, API_VERSIONS.max_version) for versions in self.versions)
        levels = [fault.level for fault in self.faults if isinstance(fault, ChangedTransactionVersion)]
        return min([self.transaction_version, *levels]) >= TXN_V2 and min(newest) >= FIRST_WITH_FEATURES

    @property
    def fences_consumers(self) -> bool:
        """Whether a group refuses offsets of a consumer of an older generation."""
        newest = (versions.get(TXN_OFFSET_COMMIT.key, FIRST_WITH_MEMBERS) for versions in self.versions)
        return self.names_members and min(newest) >= FIRST_WITH_MEMBERS

    @property
    def gives_no_epoch(self) -> bool:
        """Whether a coordinator may give a producer no new epoch (KIP-360)."""
        newest = (versions.get(INIT_PRODUCER_ID.key, FIRST_WITH_EPOCH) for versions in self.versions)
        return self.old_coordinators or min(newest) < FIRST_WITH_EPOCH

    def disturbs_numbers(self, fault: Fault) -> bool:
        """Return whether a batch may arrive out of order after this fault although it was sent in order."""
        if isinstance(fault, FaultyRequests):
            late = any(planned.kind is RequestFault.LATE for planned in fault.request_faults)
            return late or self.kind.transactional  # an aborted transaction leaves out the numbers of its records
        if isinstance(fault, SmallBatches):
            return fault.max_message_bytes < LARGEST + RECORD_COST  # the number of a record that fails is left out
        if isinstance(fault, DeletedRecords) and self.older_logs:
            return True
        forgets = RecreatedTopic | ForgottenProducers | UncleanElection | ReplacedCluster
        return self.kind.transactional or isinstance(fault, forgets)

    def lines(self) -> Iterator[str]:
        """The lines of the plan."""
        yield f"configuration: {dict(self.config)}"
        yield f"leader hints {list(self.hints)}, oldest versions {list(map(dict, self.versions))}"
        yield f"min.insync.replicas {self.min_insync}"
        for fault in sorted(self.faults, key=lambda fault: fault.at):
            yield f"  {fault.at:8.3f} - {fault.until:8.3f}  {fault}"


COMMON: Final[tuple[Scripted, ...]] = (
    AfterAppend(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    AfterAppend(ErrorCode.REQUEST_TIMED_OUT),
    AfterAppend(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
"""The refusals of Produce requests that are most frequent in reality."""

KINDS: Final[Mapping[str, Kind]] = {
    "faultless": Kind(faultless=True, patient=True),
    "patient": Kind(patient=True),
    "expiring": Kind(refusals=ANY),
    "crowded": Kind(patient=True, crowded=True),
    "reshaped": Kind(reshaped=True, patient=True),
    "divided": Kind(divided=True, patient=True),
    "transactional": Kind(transactional=True, patient=True),
    "aborting": Kind(transactional=True, refusals=ANY_THAT_ABORTS),
    "plain": Kind(idempotent=False, patient=True),
    "interrupted": Kind(interrupted=True, patient=True, crowded=True),
    "moving": Kind(idempotent=False, moving=True, patient=True),
    "secured": Kind(secured=True, patient=True),
    "throttled": Kind(throttled=True, patient=True),
    "unconfirmed": Kind(idempotent=False, confirmed=False, patient=True),
    "replicated": Kind(replicated=True, patient=True),
    "unclean": Kind(replicated=True, unclean=True, patient=True),
    "awaiting": Kind(transactional=True, awaiting=True, patient=True),
    "tasks": Kind(tasks=True, patient=True, crowded=True),
    "cancelled": Kind(transactional=True, tasks=True, patient=True),
    "writers": Kind(transactional=True, writers=True, patient=True),
    "replaced": Kind(replaced=True, patient=True),
    "restored": Kind(replaced=True, transactional=True, patient=True),
    "trimmed": Kind(trimmed=True, patient=True),
    "overdue": Kind(transactional=True, slow=True, patient=True),
    "emptied": Kind(trimmed=True, transactional=True, patient=True),
    "marked": Kind(marked=True, succeeded=True, transactional=True, patient=True),
    "doubtful": Kind(doubtful=True, marked=True, succeeded=True, transactional=True, patient=True),
    "disowned": Kind(disowned=True, succeeded=True, transactional=True, patient=True),
    "upgraded": Kind(upgraded=True, succeeded=True, transactional=True, patient=True),
    "rolling": Kind(rolling=True, patient=True),
    "staggered": Kind(rolling=True, succeeded=True, transactional=True, patient=True),
    "unaware": Kind(unaware=True, succeeded=True, transactional=True, patient=True),
    "misdirected": Kind(misdirected=True, transactional=True, patient=True),
}
SEEDS_APART: Final = 16
"""The random numbers of equal kinds are so far apart: the number of the first kinds, so that others change no plan."""


def plan(name: str, seed: int) -> Plan:
    """The plan of a history."""
    kind = KINDS[name]
    chance = Chance(seed * SEEDS_APART + list(KINDS).index(name))
    crowded = kind.crowded or chance.happens(0.2)
    config = _configuration(kind, chance.fork(), crowded=crowded)
    calls = chance.fork()
    programs = [
        _program(calls, crowded=crowded, steady=(kind.replicated or kind.moving) and calls.happens(0.7))
        for _ in range(calls.choice((1, 1, 2, 3)))
    ]
    if kind.transactional:
        alone = programs[0]
        programs = [_transactions(calls, alone, awaiting=kind.awaiting, commits=0.5 if kind.writers else 0.8)]
    if kind.writers:
        programs += [_writer(calls) for _ in range(calls.choice((1, 2)))]
    if kind.transactional and kind.tasks:
        programs = [_cancelled(calls, programs[0])]
    plugin = calls.choice(tuple(PluginChoice)) if kind.tasks and not kind.transactional else PluginChoice.DEFAULT
    if kind.tasks and not kind.transactional:
        tables = plugin in (PluginChoice.DEFAULT, PluginChoice.KEYS_TOGETHER)
        programs = [_tasks(calls, tables=tables) for _ in range(calls.choice((1, 1, 1, 2)))]
    transaction_version = chance.choice((0, 1, 2))
    planned = Plan(
        kind=kind,
        seed=seed,
        config=config,
        programs=programs,
        close_timeout=chance.choice((None, None, None, 0.0, 0.5, 5.0)),
        faults=() if kind.faultless else _faults(kind, chance.fork()),
        hints=[chance.happens(0.5) for _ in BROKERS],
        transaction_version=transaction_version,
        session=chance.choice((0.0, 1.5, 4.0, 20.0)),
        versions=_versions(kind, chance.fork(), transaction_version=transaction_version),
        old_coordinators=chance.happens(0.2),
        switching=chance.choice((0.0, 0.02, 0.2)),
        min_insync=chance.choice((1, 2, 2)) if kind.replicated or chance.happens(0.2) else None,
        append_time=chance.happens(0.3),
        last_epoch=chance.choice((LAST_EPOCH, LAST_EPOCH, 1, 3)),
        names_members=chance.happens(0.5),
        plugin=plugin,
    )
    if kind.replaced:
        planned = attrs.evolve(planned, min_insync=None, versions=_naming_replaced(planned))
    elif kind.slow:
        timeout = chance.choice((500, 1_500, 4_000))
        planned = attrs.evolve(planned, config={**config, "transaction.timeout.ms": timeout})
    elif kind.trimmed and chance.happens(0.6):
        versions = [
            {key: min(newest, each.get(key, newest)) for key, newest in BEFORE_2_4.items()} for each in planned.versions
        ]
        planned = attrs.evolve(planned, older_logs=True, versions=versions, transaction_version=0)
    # The last draws: plans of before have them, too, and are otherwise the same.
    elif kind.transactional and not kind.tasks and not kind.writers and chance.happens(0.25):
        planned = attrs.evolve(planned, gives_up=True, config={**config, "max.block.ms": 300})
    if kind.misdirected:
        planned = attrs.evolve(planned, versions=_naming_clusters(planned, FIRST_WITH_CLUSTER_ID))
    if kind.rolling:
        planned = _with_upgrades(planned, chance.fork())
    if chance.happens(0.5):  # else it has a name of its own, as a load balancer
        planned = attrs.evolve(planned, config={**planned.config, "bootstrap.servers": "broker-1:9092"})
    return planned


def _naming_replaced(planned: Plan) -> Sequence[Mapping[int, int]]:
    """The versions of a plan, with metadata in which its clusters have different ids, or their topics."""
    replaced = next(fault for fault in planned.faults if isinstance(fault, ReplacedCluster))
    return _naming_clusters(planned, FIRST_WITH_TOPIC_IDS if replaced.id is None else FIRST_WITH_CLUSTER_ID)


def _naming_clusters(planned: Plan, least: int) -> Sequence[Mapping[int, int]]:
    return [
        {key: max(newest, least) if key == METADATA.key else newest for key, newest in each.items()}
        for each in planned.versions
    ]


def _versions(kind: Kind, chance: Chance, *, transaction_version: int) -> Sequence[Mapping[int, int]]:
    """Random versions of each request: the same at all brokers, or in the middle of an upgrade."""
    first = {
        METADATA.key: 1,
        FIND_COORDINATOR.key: int(kind.transactional),
        PRODUCE.key: FIRST_THAT_THROTTLES if kind.throttled else 3,
    }
    messages: list[Message[Any, Any]] = [API_VERSIONS, METADATA, FIND_COORDINATOR]
    if not kind.transactional:
        messages += [PRODUCE, INIT_PRODUCER_ID]
    elif transaction_version < TXN_V2 and not kind.upgraded:  # with this feature, all brokers know the newest versions
        messages = list(MESSAGES.values())

    def some() -> Mapping[int, int]:
        return {
            message.key: chance.randint(max(message.min_version, first.get(message.key, 0)), message.max_version)
            for message in messages
            if chance.happens(0.3)
        }

    if chance.happens(0.5):
        return [{} for _ in BROKERS]
    known = some()
    return [known if chance.happens(0.7) else some() for _ in BROKERS]


def _with_upgrades(planned: Plan, chance: Chance) -> Plan:
    """The plan with brokers that are upgraded, one after the other, in random order, and then use new features."""
    paths = ((KAFKA_2_8, KAFKA_3_9), (KAFKA_3_9, KAFKA_4), (KAFKA_2_8, KAFKA_3_9, KAFKA_4), (KAFKA_4,), (KAFKA_4,))
    release, *later = path = chance.choice(paths)
    faults, at = list(planned.faults), chance.uniform(0.0, 2.0)
    for release in later:
        for broker in chance.sample(BROKERS, len(BROKERS)):
            next_leader = chance.choice([other for other in BROKERS if other != broker])
            seconds = chance.choice((0.1, 0.5, 1.5))
            faults.append(
                UpgradedBroker(at=at, seconds=seconds, broker=broker, next_leader=next_leader, newest=release)
            )
            at += seconds + chance.choice((0.05, 0.3, 1.0))
    levels = (2, 1, 2) if release is KAFKA_4 and chance.happens(0.3) else (2,) if release is KAFKA_4 else (1,)
    for level in levels:
        for broker in BROKERS:
            if chance.happens(0.6):
                faults.append(OutdatedFeatures(at=at - 0.01, seconds=chance.choice((0.1, 0.5, 3.0)), broker=broker))
        faults.append(ChangedTransactionVersion(at=at, level=level))
        for _ in range(chance.choice((2, 10, 30))):
            cut = at + chance.uniform(0.0, 3.0)
            faults.append(CutConnections(at=cut, broker=_broker(chance), graceful=chance.happens(0.3)))
        unconfirmed = chance.choice((0, 3, 8)) * planned.kind.transactional
        faults += [_unconfirmed(chance, at + chance.uniform(0.0, 3.0)) for _ in range(unconfirmed)]
        at += chance.choice((0.2, 3.5))
    return attrs.evolve(
        planned,
        faults=faults,
        versions=[path[0]] * len(BROKERS),
        transaction_version=0 if path[0] is KAFKA_2_8 else chance.choice((0, 1)),
        old_coordinators=False,
    )


def _configuration(kind: Kind, chance: Chance, *, crowded: bool) -> Mapping[str, Any]:
    batching: Mapping[str, Any] = chance.choice(
        (
            {"batch.size": 1, "batch.growth.enable": False, "linger.ms": 0},
            {"batch.size": 300, "batch.growth.enable": False, "linger.ms": 5},
            {"batch.size": 1_000, "linger.ms": 50},
            {"linger.ms": 0},
            {"linger.ms": 300},
            {"linger.ms": 5_000 if kind.faultless else 20},
        )
    )
    timeout = 120_000 if kind.patient else chance.choice((1_500, 2_500, 4_000))
    if not kind.patient and batching.get("batch.size") == 1:
        timeout = 30_000  # a hundred requests one after the other take so long without any fault
    config = {
        **batching,
        "enable.idempotence": kind.idempotent,
        "acks": "all" if kind.idempotent else chance.choice(("all", "1")) if kind.confirmed else "0",
        "max.in.flight.requests.per.connection": 1 if kind.moving else chance.choice((1, 2, 5)),
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
    if kind.transactional:
        config |= {"transactional.id": TRANSACTIONAL_ID, "max.block.ms": 20_000}
    if crowded:
        config["buffer.memory"] = chance.choice((3_000, 8_000, 20_000))
    if not kind.patient and chance.happens(0.4):
        config["retries"] = chance.choice((1, 3))
    return config


def _program(chance: Chance, *, crowded: bool, steady: bool) -> Sequence[Call]:
    brief = (0.0, 0.0, 0.0, 0.01)
    pauses = chance.choice((brief, (0.0, 0.1, 0.5), (0.0, 0.0, 0.0, 0.0, 0.0, 2.0)) if not steady else ((0.05, 0.2),))
    largest = 1_000 if crowded else LARGEST
    sizes = chance.choice(((8,), (8, 100, 400), (8, largest)))
    one_partition = chance.happens(0.4)
    calls: list[Call] = []
    for _ in range(chance.randint(30, 60) if steady else chance.randint(5, 40)):
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


def _tasks(chance: Chance, *, tables: bool) -> Sequence[Call]:
    """The calls of tasks, which give up often."""
    tasks = chance.choice((1, 3, 12, 30))
    pauses = chance.choice(((0.0,), (0.0, 0.0, 0.01, 0.3), (0.0, 0.5, 2.0)))
    sizes = chance.choice(((8,), (8, 100, 400), (400, 1_000)))
    timeouts = chance.choice(((None,), (None, 0.0, 0.05, 0.5), (0.02,)))
    cancelled = chance.choice(((None,), (None, None, 0.0, 0.02, 0.3)))
    topics = chance.choice(((CROWDED,), tuple(TOPICS)))
    keyed = chance.choice((0.3, 1.0))
    calls: list[Call] = []
    for _ in range(chance.choice((20, 60, 120))):
        draw = chance.random()
        when: dict[str, Any] = {
            "task": chance.randrange(tasks),
            "sleep": chance.choice(pauses),
            "cancelled_after": chance.choice(cancelled),
        }
        if draw < 0.03:
            calls.append(Flush(timeout=chance.choice((None, None, 0.1, 2.0)), **when))
        elif draw < 0.04:
            calls.append(Abandon(**when))
        elif draw < 0.08:
            calls.append(
                Table(
                    topic=chance.choice(topics),
                    rows=chance.choice((1, 10, 60)),
                    size=chance.choice(sizes),
                    batch=chance.choice((1, 20)),
                    pause=chance.choice((0.0, 0.05)),
                    keys=chance.happens(0.5),
                    timeout=chance.choice(timeouts),
                    **when,
                )
            )
        else:
            topic = chance.choice(topics)
            key = b"%d" % chance.randrange(5) if chance.happens(keyed) else None
            calls.append(
                Send(
                    topic=topic,
                    partition=chance.randrange(len(TOPICS[topic])) if chance.happens(0.1) else None,
                    key=key,
                    size=chance.choice(sizes),
                    reaction=chance.choice((NOTHING,) * 20 + (RAISE, SEND)),
                    timeout=chance.choice(timeouts),
                    awaited=chance.happens(0.3),
                    **when,
                )
            )
    return [call for call in calls if tables or not isinstance(call, Table)]


def _writer(chance: Chance) -> Sequence[Call]:
    """The records of a thread that writes in the transactions of another one, some to topics that come late."""
    late = chance.choice((0.1, 0.3, 0.6))
    tables = chance.choice((0.0, 0.1, 0.4))
    pauses = chance.choice(((0.0, 0.0, 0.05), (0.0, 0.3), (0.5, 2.0)))
    sizes = chance.choice(((8,), (8, 100, 400)))
    calls: list[Call] = []
    for _ in range(chance.randint(5, 30)):
        topic = chance.choice(LATE_TOPICS if chance.happens(late) else tuple(TOPICS))
        size, sleep, keyed = chance.choice(sizes), chance.choice(pauses), chance.happens(0.3)
        if chance.happens(tables):
            calls.append(
                Table(
                    topic=topic,
                    rows=chance.choice((1, 10, 40)),
                    size=size,
                    batch=chance.choice((5, 20)),
                    pause=chance.choice((0.0, 0.05, 0.4)),
                    keys=keyed,
                    timeout=None,
                    sleep=sleep,
                )
            )
        else:
            key = b"%d" % chance.randrange(5) if keyed else None
            calls.append(Send(topic=topic, partition=None, key=key, size=size, sleep=sleep))
    return calls


def _transactions(chance: Chance, calls: Sequence[Call], *, awaiting: bool, commits: float) -> Sequence[Call]:
    """Put the records of a program into transactions."""
    sends = [attrs.evolve(call, reaction=NOTHING) for call in calls if isinstance(call, Send)]
    transactions: list[Call] = []
    while sends:
        size = chance.randint(1, 8)
        part, sends = sends[:size], sends[size:]
        offset = len(transactions) + 1 if chance.happens(0.3) else None
        sleep = chance.choice((0.0, 0.1, 1.0))
        transactions.append(
            Transaction(
                sends=part,
                offset=offset,
                commits=chance.happens(commits),
                sleep=sleep,
                awaited=[place for place in range(len(part)) if awaiting and chance.happens(0.5)],
            )
        )
    return transactions


def _cancelled(chance: Chance, transactions: Sequence[Call]) -> Sequence[Call]:
    """Give the records of transactions to tasks, and cancel some of those that write or end them."""
    tasks = chance.choice((1, 2, 5))
    moments = chance.choice(((None,), (None, 0.0, 0.001, 0.01, 0.05, 0.3), (0.0, 0.002), (0.5, 3.0, 30.0)))
    block = chance.choice((0.0, 0.5, 1.0))
    asks = chance.choice((0.0, 0.5, 1.0))
    return [
        attrs.evolve(
            transaction,
            sends=[attrs.evolve(send, task=chance.randrange(tasks)) for send in transaction.sends],
            cancelled_after=chance.choice(moments),
            block=chance.happens(block),
            asks=chance.happens(asks),
        )
        for transaction in transactions
        if isinstance(transaction, Transaction)
    ]


def _faults(kind: Kind, chance: Chance) -> Sequence[Fault]:
    makers: list[Callable[[Chance, float], Fault]] = [_faulty_requests] * 6 + list(_MAKERS)
    faults: list[Fault] = []
    if kind.throttled:
        return [_quota(chance, broker) for broker in BROKERS if chance.happens(0.7)]
    if (not kind.confirmed or kind.secured or kind.tasks) and chance.happens(0.4):
        return ()
    if kind.replaced:
        # Nothing that a broker would do later, or say, as a part of the cluster before.
        makers = [_crash, _leader, _leader, _added, *_PRESENT]
        faults = [_replaced(chance, chance.uniform(0.0, 6.0), older=kind.transactional and chance.happens(0.5))]
    elif kind.trimmed:
        makers += [_deleted] * 12 + ([] if kind.transactional else [_forgotten] * 2)
    elif kind.transactional:
        makers += [_coordinator, _moved_coordinator, _rebalanced] * 2
        faults = [
            SlowMarkers(at=0.0, seconds=WHOLE_HISTORY, marker_seconds=chance.choice((0.01, 0.2, 1.0)))
        ] * chance.happens(0.5)
        if kind.slow:
            makers += [_stopped, _throttling, _frozen] * 4
        if kind.marked or kind.disowned or kind.upgraded:
            faults += [MovedGroupCoordinator(at=0.0, broker=_broker(chance))] * chance.happens(0.7)
            makers += [lambda chance, at: MovedGroupCoordinator(at=at, broker=_broker(chance))] * 2
        if kind.marked:
            slowest, lost = chance.choice((0.01, 0.3, 2.0)), chance.choice((0.0, 0.3, 0.7))
            markers = SeparateMarkers(at=0.0, seconds=WHOLE_HISTORY, slowest=slowest, lost=lost)
            faults = [markers, *[fault for fault in faults if not isinstance(fault, SlowMarkers)]]
            makers += [_crash, _frozen, _moved_coordinator, *_REPLICATION] * 2
        if kind.doubtful:
            faults += [_unconfirmed(chance, chance.uniform(0.0, 8.0)) for _ in range(chance.choice((2, 6, 12)))]
        if kind.disowned:
            lost = chance.happens(0.4)
            faults += [
                ForgottenIds(at=chance.uniform(0.0, 6.0), transactional_id=TRANSACTIONAL_ID, lost=lost)
                for _ in range(chance.choice((1, 2, 5)))
            ]
        if kind.misdirected:
            makers += [_moved_coordinator, *_PRESENT[:1]] * 4
            faults += [_foreign(chance) for _ in range(chance.choice((1, 2, 4)))]
        if kind.unaware:
            faults += _replaced_coordinators(chance)
        if kind.upgraded:
            makers += [_crash, _PRESENT[0]] * 6
            for _ in range(chance.choice((1, 2, 6))):
                changed = chance.uniform(0.0, 6.0)
                faults += [
                    ChangedTransactionVersion(at=changed, level=chance.choice((0, 1, 2, 2))),
                    CutConnections(
                        at=changed + chance.uniform(0.0, 0.5), broker=_broker(chance), graceful=chance.happens(0.5)
                    ),
                ]
        ending = chance.choice((None, None, None, _fenced, _timed_out, _denied_id))
        if ending is not None:
            makers += [ending]
        if kind.writers:
            makers += [_interrupted_writer] * 4
            latest = chance.choice((1.0, 3.0, 12.0))
            faults += [
                CreatedTopic(at=chance.uniform(0.0, latest), topic=topic, leaders=(_broker(chance), _broker(chance)))
                for topic in LATE_TOPICS
            ]
    elif kind.reshaped:
        makers += [_recreated, _forgotten, _added, _small] * 4
    elif kind.interrupted:
        makers = [_interrupted] * 20 + [_faulty_requests, *_MAKERS]
        faults = [_interrupted(chance, chance.uniform(0.0, 10.0)) for _ in range(40)]
    elif kind.moving:
        makers = [_faulty_requests, *_MAKERS]
        faults = [fault for _ in range(chance.choice((1, 2, 4))) for fault in _abandoned_leader(chance)]
    elif kind.secured:
        makers += [_refused_login, _refused_login, _denied_topic] * 3
    elif kind.replicated:
        makers = [_faulty_requests, *_REPLICATION, *_REPLICATION, *_MAKERS]
        faults = [
            fault for _ in range(chance.choice((1, 2, 4))) for fault in _overtaken_leader(chance, unclean=kind.unclean)
        ]
    elif kind.divided:
        makers = [_faulty_requests, _small]
        limit = LARGEST + RECORD_COST
        faults = [SmallBatches(at=0.0, seconds=WHOLE_HISTORY, topic=topic, max_message_bytes=limit) for topic in TOPICS]
    elif kind.tasks and chance.happens(0.3):
        makers += [_recreated, _added] * 4
    else:
        makers += [_small]
    longest = chance.choice((0.5, 3.0, 12.0, LONGEST))
    for _ in range(chance.choice((0, 1, 4)) if kind.divided else chance.choice((1, 2, 4, 8, 16))):
        made = chance.choice(makers)(chance, chance.uniform(0.0, longest))
        if isinstance(made, FaultyRequests):
            refusals = [*kind.refusals, *COMMON * (len(kind.refusals) // len(COMMON))]
            request_faults = tuple(
                random_request_fault(chance, refusals, longest=2.0) for _ in range(chance.choice((1, 1, 2, 4)))
            )
            if chance.happens(0.3):
                request_faults = request_faults[:1] * 6  # so that a record may fail repeatedly after the same fault
            made = attrs.evolve(made, request_faults=request_faults)
        if kind.writers and isinstance(made, StoppedProcess):
            continue  # no time may pass while a thread could run: its records are judged by the time of its calls
        faults.append(made)
    if kind.writers and chance.happens(0.5):  # Ctrl-C twice
        interrupts = [fault for fault in faults if isinstance(fault, InterruptedProgram)]
        faults += [attrs.evolve(fault, at=fault.at + chance.choice((0.0, 0.01, 0.2))) for fault in interrupts]
    return faults


def _broker(chance: Chance) -> int:
    return chance.choice(BROKERS)


def _faulty_requests(chance: Chance, at: float) -> Fault:
    return FaultyRequests(at=at, seconds=chance.uniform(0.1, 5.0), broker=_broker(chance), request_faults=())


def _crash(chance: Chance, at: float) -> Fault:
    broker = _broker(chance)
    next_leader = chance.choice([other for other in BROKERS if other != broker])
    return CrashedBroker(at=at, seconds=chance.uniform(0.1, 4.0), broker=broker, next_leader=next_leader)


def _leader(chance: Chance, at: float) -> Fault:
    topic = chance.choice(tuple(TOPICS))
    return MovedLeader(at=at, topic=topic, partition=chance.randrange(len(TOPICS[topic])), leader=_broker(chance))


def _coordinator(chance: Chance, at: float) -> Fault:
    request = chance.choice(COORDINATOR_REQUESTS)
    codes = tuple(chance.choice(COORDINATOR_REFUSALS) for _ in range(chance.choice((1, 3))))
    return CoordinatorRefusals(at=at, seconds=2.0, broker=_broker(chance), request=request, codes=codes)


def _moved_coordinator(chance: Chance, at: float) -> Fault:
    return MovedCoordinator(at=at, seconds=at % 0.4, broker=_broker(chance))


def _unconfirmed(chance: Chance, at: float) -> Fault:
    return UnconfirmedWrite(
        at=at,
        seconds=chance.choice((0.5, 5.0)),
        broker=_broker(chance),
        request=chance.choice(LOGGED_REQUESTS),
        code=chance.choice((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)),
    )


def _foreign(chance: Chance) -> Fault:
    broker = chance.choice(BROKERS[1:])
    return ForeignBroker(
        at=chance.uniform(1.0, 6.0),
        seconds=chance.choice((0.3, 1.5, 4.0)),
        broker=broker,
        next_leader=chance.choice([other for other in BROKERS if other != broker]),
        id="another cluster",
    )


def _replaced_coordinators(chance: Chance) -> Sequence[Fault]:
    """Coordinators that freeze one after the other, and whose successors lose their connections when they go on."""
    faults: list[Fault] = [MovedGroupCoordinator(at=0.0, broker=_broker(chance))]
    at, broker = chance.uniform(0.0, 2.0), 1
    for _ in range(chance.choice((1, 2, 5))):
        elected, seconds = chance.choice((0.1, 0.5)), chance.choice((0.7, 1.5, 3.0))
        unaware = chance.choice((0.1, 0.5, 2.0, 20.0))  # 20 s: controllers cannot reach it
        next_coordinator = chance.choice([other for other in BROKERS if other != broker])
        faults.append(
            ReplacedCoordinator(
                at=at,
                seconds=seconds,
                broker=broker,
                next_coordinator=next_coordinator,
                elected=elected,
                unaware=unaware,
            )
        )
        resumed = at + seconds
        for _cut in range(chance.choice((1, 3, 10))):
            cut = resumed + unaware * chance.uniform(-0.1, 1.0)
            faults.append(CutConnections(at=cut, broker=next_coordinator, graceful=chance.happens(0.3)))
        at, broker = resumed + unaware + chance.uniform(0.0, 2.0), next_coordinator
    return faults


def _fenced(chance: Chance, at: float) -> Fault:
    return FencedProducer(at=at, transactional_id=TRANSACTIONAL_ID)


def _rebalanced(_chance: Chance, at: float) -> Fault:
    return RebalancedGroup(at=at, group=GROUP)


def _timed_out(chance: Chance, at: float) -> Fault:
    return TimedOutTransaction(at=at, transactional_id=TRANSACTIONAL_ID)


def _denied_id(chance: Chance, at: float) -> Fault:
    return DeniedTransactionalId(at=at, seconds=chance.uniform(0.1, 3.0), transactional_id=TRANSACTIONAL_ID)


def _denied_topic(chance: Chance, at: float) -> Fault:
    return DeniedTopic(at=at, seconds=chance.uniform(0.1, 3.0), topic=chance.choice(tuple(TOPICS)))


def _refused_login(chance: Chance, at: float) -> Fault:
    return RefusedLogin(at=at, seconds=chance.uniform(0.1, 3.0), broker=_broker(chance))


def _recreated(chance: Chance, at: float) -> Fault:
    topic = chance.choice(tuple(TOPICS))
    return RecreatedTopic(
        at=at, seconds=chance.uniform(0.0, 3.0), topic=topic, leaders=tuple(_broker(chance) for _ in TOPICS[topic])
    )


def _forgotten(chance: Chance, at: float) -> Fault:
    return ForgottenProducers(at=at, topic=chance.choice(tuple(TOPICS)))


def _deleted(chance: Chance, at: float) -> Fault:
    return DeletedRecords(at=at, topic=chance.choice((CROWDED, *TOPICS)), kept=chance.choice((0, 0, 1, 5)))


def _added(chance: Chance, at: float) -> Fault:
    return AddedPartition(at=at, topic=chance.choice(tuple(TOPICS)), leader=_broker(chance))


def _small(chance: Chance, at: float) -> Fault:
    limit = chance.choice((150, 400, 1_500))
    return SmallBatches(
        at=at, seconds=chance.uniform(0.5, 8.0), topic=chance.choice(tuple(TOPICS)), max_message_bytes=limit
    )


def _stopped(chance: Chance, at: float) -> Fault:
    return StoppedProcess(at=at, seconds=chance.choice((0.2, 1.5, 10.0)))


def _frozen(chance: Chance, at: float) -> Fault:
    return FrozenBroker(at=at, seconds=chance.uniform(0.1, 3.0), broker=_broker(chance))


def _throttling(chance: Chance, at: float) -> Fault:
    return ThrottlingBroker(
        at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance), throttle_ms=chance.choice((50, 400, 1_500))
    )


def _quota(chance: Chance, broker: int) -> Fault:
    at, seconds = chance.uniform(0.0, 2.0), chance.uniform(2.0, 20.0)
    if chance.happens(0.5):
        throttle_ms = chance.choice((50, 700, 1_500, 4_000))
        return ThrottlingBroker(at=at, seconds=seconds, broker=broker, throttle_ms=throttle_ms)
    return ProduceQuota(at=at, seconds=seconds, broker=broker, bytes_per_second=chance.choice((300, 2_000, 10_000)))


def _interrupted(chance: Chance, at: float) -> Fault:
    return InterruptedProgram(at=at, program=chance.randrange(3))


def _interrupted_writer(chance: Chance, at: float) -> Fault:
    return InterruptedProgram(at=at, program=chance.choice((1, 2)))


def _replaced(chance: Chance, at: float, *, older: bool) -> Fault:
    late = tuple(topic for topic in TOPICS if chance.happens(0.2))
    return ReplacedCluster(
        at=at,
        seconds=chance.choice((0.0, 0.3, 2.0)),
        id=chance.choice((None, "another cluster")),
        late=late,
        others=chance.choice((0, 1, 3, 12)),
        older=older,
    )


def _abandoned_leader(chance: Chance) -> Sequence[Fault]:
    """A leader that freezes with requests, and a new one that the producer learns of meanwhile."""
    topic, at = chance.choice((CROWDED, *TOPICS)), chance.uniform(0.0, 6.0)
    partition = chance.choice((0, chance.randrange(len(TOPICS[topic]))))
    next_leader, other = chance.sample(BROKERS, 2)
    moves = [
        MovedLeader(at=at + chance.uniform(0.0, 0.2), topic=topic, partition=partition, leader=leader)
        for leader in (other, next_leader)
    ]
    frozen = FrozenBroker(at=at + 0.2, seconds=chance.uniform(0.2, 2.0), broker=other)
    cut = CutConnections(at=at + chance.uniform(0.3, 0.8), broker=chance.choice(BROKERS), graceful=chance.happens(0.5))
    return [*sorted(moves, key=lambda move: move.at), frozen, cut]


def _overtaken_leader(chance: Chance, *, unclean: bool) -> Sequence[Fault]:
    """Followers that lack the newest batches when one of them becomes the leader."""
    topic = chance.choice((CROWDED, *TOPICS))
    partition = chance.choice((0, chance.randrange(len(TOPICS[topic]))))
    next_leader, other = chance.sample(BROKERS, 2)
    at, lag = chance.uniform(0.0, 6.0), chance.choice((0.1, 0.4, 3.0))
    slow: list[Fault] = [
        SlowFollower(at=at, seconds=6.0, broker=broker, lag=lag)
        for broker in ([next_leader] if chance.happens(0.5) else [next_leader, other])
    ]
    elected = at + lag * chance.uniform(0.5, 2.0)
    if unclean:
        return [*slow, UncleanElection(at=elected, topic=topic, partition=partition, leader=next_leader)]
    return [*slow, MovedLeader(at=elected, topic=topic, partition=partition, leader=next_leader)]


_REPLICATION: Final[Sequence[Callable[[Chance, float], Fault]]] = (
    _crash,
    _crash,
    _leader,
    _leader,
    lambda chance, at: IsolatedBroker(at=at, seconds=chance.uniform(0.3, 6.0), broker=_broker(chance)),
    lambda chance, at: SlowFollower(
        at=at, seconds=chance.uniform(0.5, 6.0), broker=_broker(chance), lag=chance.uniform(0.05, 2.0)
    ),
)

_PRESENT: Final[Sequence[Callable[[Chance, float], Fault]]] = (
    lambda chance, at: CutConnections(at=at, broker=_broker(chance), graceful=chance.happens(0.5)),
    lambda chance, at: HalfOpenConnections(
        at=at, seconds=1.0, broker=_broker(chance), out=chance.happens(0.7), back=chance.happens(0.7)
    ),
    lambda chance, at: UnreachableBroker(
        at=at, seconds=chance.uniform(0.5, 5.0), broker=_broker(chance), black_hole=chance.happens(0.5)
    ),
    _stopped,
)
"""Faults of the present: of connections and of our process."""

_MAKERS: Final[Sequence[Callable[[Chance, float], Fault]]] = (
    _crash,
    _leader,
    _leader,
    _leader,
    _coordinator,
    *_PRESENT[:2],
    _frozen,
    lambda chance, at: UnreachableBroker(
        at=at, seconds=chance.uniform(0.5, 5.0), broker=_broker(chance), black_hole=chance.happens(0.5)
    ),
    lambda chance, at: DistantBroker(
        at=at,
        seconds=chance.uniform(1.0, 10.0),
        broker=_broker(chance),
        round_trip=0.2,
        bandwidth=chance.choice((None, 8_000.0)),
    ),
    lambda chance, at: OutdatedMetadata(at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance)),
    lambda chance, at: UnlistedBroker(at=at, seconds=chance.uniform(0.5, 4.0), broker=_broker(chance)),
    _throttling,
    _stopped,
)
