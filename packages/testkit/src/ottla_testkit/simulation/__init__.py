"""A cluster and a network on a clock that the test moves, and producers with their threads: all decided by one seed."""

from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.fault_injection import FaultRates, FaultyNetwork
from ottla_testkit.simulation.groups import SimulatedGroup
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.login import Session, SimulatedLogin
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.pending_response import KnownResponse, PendingResponse
from ottla_testkit.simulation.planned_network import PlannedNetwork, PlannedRequestFault, RequestFault
from ottla_testkit.simulation.produce_requests import AfterAppend, BatchArrival, OfPartitions
from ottla_testkit.simulation.simulation import Simulation
from ottla_testkit.simulation.telemetry import SimulatedTelemetry
from ottla_testkit.simulation.threads import SimulatedThreads, StuckError
from ottla_testkit.simulation.topics import SimulatedTopic
from ottla_testkit.simulation.trace import Trace

__all__ = [
    "AfterAppend",
    "BatchArrival",
    "Chance",
    "FaultRates",
    "FaultyNetwork",
    "KnownResponse",
    "Link",
    "LinkConditions",
    "OfPartitions",
    "PendingResponse",
    "PlannedNetwork",
    "PlannedRequestFault",
    "RequestFault",
    "Session",
    "SimulatedBroker",
    "SimulatedCluster",
    "SimulatedGroup",
    "SimulatedLogin",
    "SimulatedNetwork",
    "SimulatedTelemetry",
    "SimulatedThreads",
    "SimulatedTopic",
    "Simulation",
    "StuckError",
    "Trace",
]
