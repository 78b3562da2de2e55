"""Brokers that end connections soon after they became ready: the pace of new connections and logins."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import attrs
import pytest

from machine import Machine
from ottla.protocol import MetadataResponse, MetadataResponseBroker
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.login import SimulatedLogin
from third_party_mechanism import Plain


@attrs.define(slots=False)
class ClosingCluster(SimulatedCluster):
    """Closes the connections after each metadata response; each response has a new leader epoch."""

    machine: Machine | None = attrs.field(default=None, kw_only=True)
    listed: Sequence[MetadataResponseBroker] = attrs.field(default=(), kw_only=True)

    def metadata(self) -> MetadataResponse:
        assert self.machine is not None
        self.topics["t"].move_leader(0, self.topics["t"].leaders[0])
        network = self.machine.network
        network.schedule.later(0.001, lambda: network.hang_up(1))
        answer = super().metadata()
        answer.brokers = [*answer.brokers, *self.listed]
        return answer


def closing_machine(*, leader: int, brokers: int = 1) -> tuple[Machine, SimulatedLogin]:
    listed = [MetadataResponseBroker(node_id=1 + n, host="broker-1", port=9092) for n in range(1, brokers)]
    cluster = ClosingCluster(listed=listed)
    cluster.brokers[1] = SimulatedBroker(cluster=cluster, id=1)
    cluster.create("t", leader)
    login = SimulatedLogin(users={"ann": "the ducks fly south"})
    cluster.brokers[1].require(login)
    cluster.machine = Machine(cluster, mechanism=Plain())
    cluster.machine.metadata.use("t", cluster.machine.clock())
    return cluster.machine, login


@pytest.mark.rule("network.connect.short")
@pytest.mark.parametrize("brokers", [1, 50])
def test_a_connection_closed_after_each_response_is_made_once_a_second(brokers: int) -> None:
    """A topic without a leader and a new epoch in each response caused ten logins in a second."""
    machine, login = closing_machine(leader=-1, brokers=brokers)

    machine.run(60.0)

    assert 30 <= login.logins <= 90
    assert machine.network.connects <= 90


@pytest.mark.rule("network.connect.short")
def test_a_connection_ended_after_each_record_is_made_twice_a_second() -> None:
    """Once at the broker, and once at the bootstrap server, because every known broker was lost."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    machine = Machine(cluster)
    before, deliveries = machine.network.connects, []
    end = machine.clock() + 60.0
    while machine.clock() < end:
        deliveries.append(machine.send(b"value"))
        machine.run_until_idle()
        machine.network.hang_up(1)

    assert machine.network.connects - before <= 140
    assert all(delivery.exception() is None for delivery in deliveries)


def serving_machine(*ids: int, broker_idle: float = float("inf")) -> Machine:
    """A machine that has written to each of these brokers."""
    cluster = SimulatedCluster.of(*ids)
    cluster.create("t", *ids)
    machine = Machine(cluster)
    machine.network.hosts.broker_idle = broker_idle
    deliver(machine, partitions=len(ids))
    return machine


def deliver(machine: Machine, *, partitions: int) -> None:
    for partition in range(partitions):
        machine.send(b"value", partition=partition)
    machine.run_until_idle()


def pass_time(machine: Machine, seconds: float) -> None:
    end = machine.clock() + seconds
    while (now := machine.clock()) < end:
        machine.sender.run_once(now, until=end)


@pytest.mark.rule("network.connect.short")
def test_a_connection_that_worked_is_replaced_after_the_first_backoff() -> None:
    machine = serving_machine(1)
    for _ in range(10):
        pass_time(machine, 6.0)
        deliver(machine, partitions=1)
        machine.network.hang_up(1)
        machine.client.poll(1.0, machine.clock())
        assert machine.client.ready_at(1, machine.clock()) == pytest.approx(machine.clock() + 0.05)
        deliver(machine, partitions=1)


@pytest.mark.rule("network.connect.short")
@pytest.mark.parametrize("counted", ["short_lives", "session.short_sessions"])
def test_the_second_short_connection_in_a_row_is_the_first_to_wait(counted: str) -> None:
    connection = serving_machine(1).client._connections[1]
    owner, _, name = counted.rpartition(".")
    attempts = []
    for number in range(4):
        setattr(attrgetter(owner)(connection) if owner else connection, name, number)
        attempts.append(connection.attempts)

    assert attempts == [0, 0, 1, 2]


@pytest.mark.rule("network.connect.short")
def test_one_long_connection_ends_the_count_of_short_ones() -> None:
    machine = serving_machine(1)
    for seconds in (0.0, 0.0, 0.0, 0.0, 6.0, 0.0):
        pass_time(machine, seconds)
        deliver(machine, partitions=1)
        machine.network.hang_up(1)
        machine.client.poll(1.0, machine.clock())
        waits = machine.client.ready_at(1, machine.clock()) - machine.clock()

    assert waits == pytest.approx(0.05)


@pytest.mark.rule("network.connect.short")
def test_connections_closed_as_idle_are_replaced_after_first_backoff() -> None:
    machine = serving_machine(1, broker_idle=6.0)
    connects = machine.network.connects
    for _ in range(10):
        pass_time(machine, 10.0)
        began = machine.clock()
        deliver(machine, partitions=1)
        assert machine.clock() - began < 0.1

    assert machine.network.connects - connects >= 10


@pytest.mark.rule("network.connect.short")
def test_a_rolling_restart_does_not_lengthen_the_backoff() -> None:
    machine = serving_machine(1, 2, 3)
    for _ in range(3):
        for node, broker in machine.cluster.brokers.items():
            machine.network.hosts.refusing.add(f"broker-{node}")
            broker.up = False
            pass_time(machine, 2.0)
            broker.up = True
            machine.network.hosts.refusing.clear()
            pass_time(machine, 6.0)
            began = machine.clock()
            deliver(machine, partitions=3)
            assert machine.clock() - began < 1.2  # one reconnect.backoff.max.ms with its jitter
            assert all(connection.attempts == 0 for connection in machine.client._connections)
