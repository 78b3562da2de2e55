"""Faults that begin at a planned time of a simulation, and end after a while."""

from ottla_testkit.simulation.planned_faults.brokers import (
    CrashedBroker,
    FrozenBroker,
    OutdatedFeatures,
    OutdatedMetadata,
    ProduceQuota,
    ThrottlingBroker,
    UnlistedBroker,
    UpgradedBroker,
)
from ottla_testkit.simulation.planned_faults.clusters import ForeignBroker, ReplacedCluster
from ottla_testkit.simulation.planned_faults.connections import (
    CutConnections,
    DistantBroker,
    HalfOpenConnections,
    UnreachableBroker,
)
from ottla_testkit.simulation.planned_faults.fault import Fault, plan
from ottla_testkit.simulation.planned_faults.leaders import IsolatedBroker, MovedLeader, SlowFollower, UncleanElection
from ottla_testkit.simulation.planned_faults.markers import SeparateMarkers
from ottla_testkit.simulation.planned_faults.process import InterruptedProgram, StoppedProcess
from ottla_testkit.simulation.planned_faults.requests import CoordinatorRefusals, FaultyRequests, UnconfirmedWrite
from ottla_testkit.simulation.planned_faults.security import DeniedTopic, DeniedTransactionalId, RefusedLogin
from ottla_testkit.simulation.planned_faults.topics import (
    AddedPartition,
    CreatedTopic,
    DeletedRecords,
    ForgottenProducers,
    RecreatedTopic,
    SmallBatches,
)
from ottla_testkit.simulation.planned_faults.transactions import (
    ChangedTransactionVersion,
    FencedProducer,
    ForgottenIds,
    MovedCoordinator,
    MovedGroupCoordinator,
    RebalancedGroup,
    ReplacedCoordinator,
    SlowMarkers,
    TimedOutTransaction,
)

__all__ = [
    "AddedPartition",
    "ChangedTransactionVersion",
    "CoordinatorRefusals",
    "CrashedBroker",
    "CreatedTopic",
    "CutConnections",
    "DeletedRecords",
    "DeniedTopic",
    "DeniedTransactionalId",
    "DistantBroker",
    "Fault",
    "FaultyRequests",
    "FencedProducer",
    "ForeignBroker",
    "ForgottenIds",
    "ForgottenProducers",
    "FrozenBroker",
    "HalfOpenConnections",
    "InterruptedProgram",
    "IsolatedBroker",
    "MovedCoordinator",
    "MovedGroupCoordinator",
    "MovedLeader",
    "OutdatedFeatures",
    "OutdatedMetadata",
    "ProduceQuota",
    "RebalancedGroup",
    "RecreatedTopic",
    "RefusedLogin",
    "ReplacedCluster",
    "ReplacedCoordinator",
    "SeparateMarkers",
    "SlowFollower",
    "SlowMarkers",
    "SmallBatches",
    "StoppedProcess",
    "ThrottlingBroker",
    "TimedOutTransaction",
    "UncleanElection",
    "UnconfirmedWrite",
    "UnlistedBroker",
    "UnreachableBroker",
    "UpgradedBroker",
    "plan",
]
