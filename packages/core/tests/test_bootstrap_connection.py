"""The connection to a bootstrap server is that of the broker which advertises the same address."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from machine import Machine
from ottla import TopicUnavailableError
from ottla.errors import NetworkError
from ottla.network.cluster import Broker
from ottla.network.connection import Connection
from ottla.network.connection_stage import Stage
from ottla.network.connections import MOST_SLOW
from ottla.network.in_flight_requests import InFlight
from ottla.network.request import Request
from ottla.network.selector_interface import Address
from ottla.protocol import METADATA, PRODUCE, Message
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla_testkit.simulation import LinkConditions, SimulatedCluster, SimulatedNetwork, Simulation

SAME = "broker-1:9092"
OTHER = "balancer:9092"
ROUND_TRIP = 0.1


def far(*leaders: int, seed: int = 0) -> Simulation:
    """A cluster of three brokers, a round trip of 100 ms away, with a topic t."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", *leaders)
    simulation = Simulation(cluster, seed=seed)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    return simulation


def round_trips(simulation: Simulation, servers: str, *, warm: bool = False) -> int:
    """The round trips until the first record is acknowledged, from its `send` on; *warm*: long after the beginning."""
    producer = simulation.producer(linger_ms=0, bootstrap_servers=servers)
    took = 0.0

    def program() -> None:
        nonlocal took
        if warm:
            simulation.sleep(5)
        began = simulation.clock()
        producer.send("t", b"first", partition=0, timestamp_ms=1).result(timeout=20)
        took = simulation.clock() - began
        producer.close(20)

    simulation.run(program)
    return round(took / ROUND_TRIP)


def machine_beginning_at(host: str, *leaders: int, advertised: tuple[str, int] | None = None) -> Machine:
    """A machine with a bootstrap server of this name, which has metadata."""
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.address = advertised
    cluster.create("t", *leaders)
    machine = Machine(cluster)
    machine.metadata._bootstrap = {-1: Broker(id=-1, host=host, port=9092)}
    machine.metadata.rebootstrap(machine.clock())
    machine.metadata.use("t", machine.clock())
    rounds(machine)
    return machine


def rounds(machine: Machine) -> None:
    for _ in range(20):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.01)


def connections(machine: Machine) -> dict[int, Stage]:
    return {connection.broker.id: connection.stage for connection in machine.client._connections}


@pytest.mark.rule("metadata.bootstrap.kept")
@pytest.mark.parametrize(
    ("leader", "servers", "expected"),
    [
        # connect, versions, metadata and the producer id, the record
        (1, SAME, 4),
        # and another connection: connect, versions
        (2, SAME, 6),
        (1, OTHER, 6),
    ],
)
def test_the_first_record_uses_the_connection_that_is_there(leader: int, servers: str, expected: int) -> None:
    assert round_trips(far(leader), servers) == expected


@pytest.mark.parametrize(
    ("leader", "servers", "expected"),
    [
        (1, SAME, 2),  # metadata, the record
        (2, SAME, 4),
        (2, OTHER, 2),  # it has connected to this one by chance
    ],
)
def test_a_producer_that_was_made_before_has_a_connection(leader: int, servers: str, expected: int) -> None:
    assert round_trips(far(leader), servers, warm=True) == expected


def test_a_transaction_begins_on_the_connection_that_is_there() -> None:
    simulation = far(1)
    producer = simulation.producer(transactional_id="id", bootstrap_servers=SAME)

    def program() -> None:
        producer.init_transactions()
        producer.close(20)

    simulation.run(program)

    assert simulation.network.connects == 1
    assert simulation.clock() == pytest.approx(4 * ROUND_TRIP, abs=0.05)


def test_a_kept_connection_has_the_id_of_its_broker(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine = machine_beginning_at("broker-1", 1, 2)

    assert connections(machine) == {1: Stage.READY}
    assert machine.network.connects == 1
    assert caplog.text == ""  # it is what happens with most clusters


def test_an_address_that_several_brokers_have_is_a_load_balancers() -> None:
    machine = machine_beginning_at("balancer", 1, 2, advertised=("balancer", 9092))

    assert connections(machine) == {}


def test_an_outage_ends_with_a_kept_connection(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_beginning_at("broker-1", 1)
    machine.network.hosts.refusing.add("broker-1")
    machine.network.cut(1)
    for _ in range(40):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.1)
    machine.network.hosts.refusing.discard("broker-1")
    machine.metadata.rebootstrap(machine.clock())
    caplog.set_level(logging.INFO)
    for _ in range(200):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.1)

    assert "answers again" in caplog.text
    assert "still no connection" not in caplog.text.rpartition("answers again")[2]


def test_a_broker_keeps_its_backoff_with_a_kept_connection() -> None:
    """A broker that ended each connection got the next one at once, because its failures were forgotten."""
    machine = machine_beginning_at("broker-1", 1)
    end = machine.clock() + 60.0
    while machine.clock() < end:
        machine.send(b"value")
        machine.run_until_idle()
        machine.network.hang_up(1)

    assert machine.network.connects <= 140


def test_each_outage_before_a_kept_connection_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A kept connection ends an outage, as each other one does."""
    machine = machine_beginning_at("broker-1", 1)
    for _ in range(2):
        machine.network.hosts.refusing.add("broker-1")
        machine.network.cut(1)
        for _ in range(40):
            machine.sender.run_once(machine.clock(), until=machine.clock() + 0.1)
        machine.network.hosts.refusing.discard("broker-1")
        machine.send(b"value")
        machine.run_until_idle()

    assert caplog.text.count("asking bootstrap.servers again") == 2


def test_the_setup_of_a_kept_connection_names_its_broker() -> None:
    machine = machine_beginning_at("broker-1", 1)
    setup = machine.client._connections[1].setup

    assert setup is not None
    assert setup.peer == "broker 1 at broker-1:9092"


@pytest.mark.rule("network.least-loaded.slow")
@pytest.mark.parametrize("dead", [["dead-1"], ["dead-1", "dead-2"]])
def test_a_host_that_is_gone_delays_the_start_by_a_second(dead: list[str]) -> None:
    """Whichever of the bootstrap servers is asked first."""
    servers = ",".join(f"{host}:9092" for host in [*dead, "broker-1"])
    for seed in range(10):
        simulation = far(1, seed=seed)
        simulation.network.hosts.black_holes.update(dead)

        assert round_trips(simulation, servers) * ROUND_TRIP < len(dead) + 0.5


def test_at_most_a_few_brokers_are_tried_at_once() -> None:
    simulation = far(1)
    hosts = [f"dead-{number}" for number in range(20)]
    simulation.network.hosts.black_holes.update(hosts)
    producer = simulation.producer(
        bootstrap_servers=",".join(f"{host}:9092" for host in hosts),
        max_block_ms=9_000,  # the first attempt has not timed out yet
    )

    def program() -> None:
        with pytest.raises(TopicUnavailableError):
            producer.send("t", b"never", timestamp_ms=1)
        producer.close(0)

    simulation.run(program)

    assert simulation.network.connects == MOST_SLOW


def test_a_connection_under_another_name_is_not_that_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `client.dns.lookup=resolve_canonical_bootstrap_servers_only`: its certificate was for that name."""
    resolve = SimulatedNetwork.resolve

    def canonical(network: SimulatedNetwork, host: str, port: int, *, canonical: bool = False) -> Sequence[Address]:
        found = resolve(network, host, port)
        assert found is not None
        return [attrs.evolve(address, host="machine-17") for address in found]

    monkeypatch.setattr(SimulatedNetwork, "resolve", canonical)

    assert connections(machine_beginning_at("broker-1", 1, 2)) == {}


def test_a_broker_that_has_a_connection_keeps_it() -> None:
    machine = machine_beginning_at("balancer", 1)
    kept = machine.client._connections.of(machine.metadata.cluster.brokers[1])
    kept.stage = Stage.CONNECTING
    server = Connection(broker=Broker(id=-1, host="broker-1", port=9092), host="broker-1", stage=Stage.READY)

    assert not machine.client._metadata_updater._bootstrap_connection.keep(server, machine.clock())
    assert machine.client._connections[1] is kept


@pytest.mark.rule("metadata.bootstrap.kept")
@pytest.mark.parametrize(
    ("checks", "topic", "expected"),
    [(True, "t", Stage.READY), (True, "new", Stage.DISCONNECTED), (False, "new", Stage.READY)],
)
def test_no_connection_is_kept_whose_metadata_has_only_new_topics(checks: bool, topic: str, expected: Stage) -> None:
    """The cluster may have been set up again with its id, and another connection is asked for topics that are known."""
    machine = machine_beginning_at("broker-1", 1)
    machine.metadata.checks_clusters = checks
    machine.cluster.create("new", 1)
    machine.metadata._used_at.clear()
    machine.metadata.use(topic, machine.clock())
    machine.metadata.rebootstrap(machine.clock())
    machine.client._closer.close_gone(machine.clock())
    rounds(machine)

    assert connections(machine) == {1: expected}


def test_without_ids_of_topics_records_wait_for_the_check() -> None:
    simulation = far(1)
    for broker in simulation.cluster.brokers.values():
        broker.versions[METADATA.key] = (0, 9)

    assert round_trips(simulation, OTHER) == 7


def test_one_topic_without_an_id_is_enough_to_wait_for_the_check() -> None:
    machine = machine_beginning_at("broker-1", 1)
    check, connection = machine.client._opener.cluster_check, machine.client._connections[1]
    assert check.takes_records(connection)

    machine.cluster.create("u", 1)
    machine.cluster.topics["u"].id = bytes(16)
    machine.metadata.use("u", machine.clock())
    rounds(machine)

    assert set(machine.metadata.cluster.topics) == {"t", "u"}
    assert not check.takes_records(connection)


def test_a_leader_that_names_no_cluster_gets_records() -> None:
    machine = machine_beginning_at("balancer", 1)
    machine.metadata.checks_clusters = True
    machine.cluster.id = None
    machine.cluster.brokers[1].versions[PRODUCE.key] = (3, 12)  # without ids of topics, so that the check comes first

    delivery = machine.send(b"value")
    machine.run_until_idle()

    assert delivery.result(0).offset == 0
    assert machine.network.connects == 2  # the bootstrap server's, and the leader's


def test_a_producer_id_of_another_cluster_is_not_read() -> None:
    """A connection that leads to another cluster ends at once if more than batches are in flight."""
    machine = machine_beginning_at("broker-1", 1)
    check = machine.client._opener.cluster_check
    connection = machine.client._connections[1]

    def in_flight(message: Message[Any, Any]) -> InFlight:
        request = Request(message=message, body=lambda _version: [], on_complete=lambda _completion: None)
        return InFlight(request=request, number=1, version=1, correlation_id=1, sent_at=0.0, deadline=99.0)

    connection.in_flight.append(in_flight(PRODUCE))
    check._close(connection, NetworkError("another cluster"))
    assert (connection.closing, connection.may_send(machine.clock())) == (False, False)

    connection.in_flight.append(in_flight(INIT_PRODUCER_ID))
    check._close(connection, NetworkError("another cluster"))
    assert connection.closing


def test_batches_in_flight_are_answered_before_a_connection_ends() -> None:
    """One without an answer might be written, for all that is known."""
    machine = machine_beginning_at("broker-1", 1)
    connection = machine.client._connections[1]
    machine.send(b"first")
    machine.run_until_idle()
    machine.network.held.add(1)
    deliveries = []
    for value in (b"second", b"third"):
        deliveries.append(machine.send(value))
        rounds(machine)
    assert len(connection.in_flight) == 2
    machine.client._opener.cluster_check._close(connection, NetworkError("another cluster"))
    machine.network.held.clear()
    machine.run_until_idle()

    assert [len(delivery.story().tries) for delivery in deliveries] == [1, 1]
    rounds(machine)
    assert connection.stage is not Stage.READY


@pytest.mark.parametrize(("warm", "expected"), [(False, 2), (True, 2)])
def test_there_are_no_connections_without_need(warm: bool, expected: int) -> None:
    """The bootstrap server's, and the leader's."""
    simulation = far(2)
    round_trips(simulation, OTHER, warm=warm)

    assert simulation.network.connects == expected
