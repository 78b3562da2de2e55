"""A cluster and a network in one thread, on a clock that the test moves: for unit tests of code above the sockets."""

from ottla_testkit.simulation.brokers import AfterAppend, SimulatedBroker, SimulatedCluster, SimulatedTopic
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.fault_injection import FaultRates, FaultyNetwork
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.login import Session, SimulatedLogin
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.trace import Trace

__all__ = [
    "AfterAppend",
    "Chance",
    "FaultRates",
    "FaultyNetwork",
    "Link",
    "LinkConditions",
    "Session",
    "SimulatedBroker",
    "SimulatedCluster",
    "SimulatedLogin",
    "SimulatedNetwork",
    "SimulatedTopic",
    "Trace",
]
