"""A cluster and a network in one thread, on a clock that the test moves: to unit-test whatever is above sockets."""

from ottla_testkit.simulation.brokers import AfterAppend, SimulatedBroker, SimulatedCluster, SimulatedTopic
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.fault_injection import StormyNetwork, Weather
from ottla_testkit.simulation.link import Link, Wire
from ottla_testkit.simulation.login import Session, SimulatedLogin
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.trace import Trace

__all__ = [
    "AfterAppend",
    "Chance",
    "Link",
    "Session",
    "SimulatedBroker",
    "SimulatedCluster",
    "SimulatedLogin",
    "SimulatedNetwork",
    "SimulatedTopic",
    "StormyNetwork",
    "Trace",
    "Weather",
    "Wire",
]
