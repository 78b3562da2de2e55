"""A name with several addresses of which one is silent, as IPv6 often is: the next one is tried soon."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
from collections.abc import Iterator, Sequence

import pytest
from broker_on_a_socket import SocketBroker

from machine import Machine
from ottla import Delivery, Producer
from ottla.interfaces import Target
from ottla.network.connection import SLOW_AFTER
from ottla.network.selector_interface import Address
from ottla_testkit.simulation import LinkConditions, SimulatedBroker, SimulatedCluster, Simulation

NAME = "two.addresses.example"


def machine_with(*hosts: str, silent: Sequence[str] = ()) -> Machine:
    """A machine whose broker's name has the addresses of these hosts, and no metadata yet."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    machine = Machine(cluster)
    machine.network.hosts.black_holes.update(silent)

    def resolve(host: str, port: int, *, canonical: bool = False) -> Sequence[Address]:
        return [Address(host=each, target=Target(0, each)) for each in hosts]

    machine.network.resolve = resolve  # type: ignore[method-assign]  # a name with these addresses
    return machine


def tried(machine: Machine) -> list[str]:
    """The addresses that are tried from now on."""
    seen: list[str] = []
    connect = machine.network.connect

    def noted(node: int, target: Target, host: str, port: int) -> None:
        seen.append(host)
        connect(node, target, host, port)

    machine.network.connect = noted  # type: ignore[method-assign]
    return seen


def connected(machine: Machine) -> Machine:
    """The machine with a connection to its broker, after that to its bootstrap server."""
    for _ in range(2):
        seconds_until_metadata(machine)
    assert machine.client.ready(1, machine.clock())
    return machine


def seconds_until_metadata(machine: Machine) -> float:
    began = machine.clock()
    machine.metadata.request_update()
    updated = machine.metadata._updated_at
    for _ in range(10_000):
        machine.round()
        if machine.metadata._updated_at > updated:
            return machine.clock() - began
    raise AssertionError("no metadata has come")


@pytest.mark.rule("network.connect.silent")
def test_a_silent_address_delays_the_first_connection_by_a_second() -> None:
    machine = machine_with("silent", "good", silent=["silent"])
    seen = tried(machine)

    assert SLOW_AFTER <= seconds_until_metadata(machine) < SLOW_AFTER + 0.5
    assert seen[:2] == ["silent", "good"]


@pytest.mark.rule("network.connect.silent")
def test_a_silent_address_is_tried_last_from_then_on() -> None:
    machine = connected(machine_with("silent", "good", silent=["silent"]))
    seen = tried(machine)
    for _ in range(3):
        machine.network.cut(1)
        assert seconds_until_metadata(machine) < SLOW_AFTER / 2

    assert set(seen) == {"good"}


def test_an_address_that_answers_again_is_tried_before_silent_ones() -> None:
    machine = connected(machine_with("first", "second", "third", silent=["first", "second"]))
    machine.network.hosts.black_holes = {"first", "third"}
    machine.network.cut(1)
    seconds_until_metadata(machine)
    machine.network.hosts.black_holes = set()
    machine.network.cut(1)
    seen = tried(machine)
    seconds_until_metadata(machine)

    assert seen == ["second"]


def test_silent_addresses_that_a_name_no_longer_has_are_forgotten() -> None:
    machine = machine_with()
    lookups = itertools.count()

    def resolve(host: str, port: int, *, canonical: bool = False) -> Sequence[Address]:
        machine.network.hosts.black_holes.add(silent := f"silent-{next(lookups)}")
        return [Address(host=each, target=Target(0, each)) for each in (silent, "good")]

    machine.network.resolve = resolve  # type: ignore[method-assign]
    connected(machine)
    for _ in range(5):
        machine.network.cut(1)
        seconds_until_metadata(machine)

    assert len(machine.client._connections[1].silent) == 1


def test_an_address_behind_one_that_refuses_has_time_of_its_own() -> None:
    machine = machine_with("refusing", "good")
    machine.network.hosts.refusing.add("refusing")
    machine.network.wire = LinkConditions(round_trip=0.9 * SLOW_AFTER)
    seen = tried(machine)
    seconds_until_metadata(machine)

    assert seen == ["refusing", "good"]


def test_a_far_address_in_front_of_silent_ones_gets_more_time() -> None:
    """With each failure, since the last address, which may take as long as the setup, is always a silent one."""
    machine = machine_with("far", "silent", "dead", silent=["silent", "dead"])
    machine.network.wire = LinkConditions(round_trip=3 * SLOW_AFTER)

    seconds_until_metadata(machine)


@pytest.mark.rule("network.connect.silent")
def test_addresses_that_are_far_away_get_more_time() -> None:
    machine = machine_with("far", "farther")
    machine.network.wire = LinkConditions(round_trip=4 * SLOW_AFTER)

    seconds_until_metadata(machine)  # the last address may take as long as the setup


def test_the_only_address_may_take_as_long_as_the_setup() -> None:
    machine = machine_with("far")
    machine.network.wire = LinkConditions(round_trip=4 * SLOW_AFTER)
    seen = tried(machine)
    seconds_until_metadata(machine)

    assert seen == ["far"]


def test_a_handshake_may_take_longer_than_a_silent_address() -> None:
    machine = machine_with("good", "other", silent=["good"])
    machine.network.established = lambda node: True  # type: ignore[method-assign]  # and its handshake is slow
    seen = tried(machine)
    machine.run(5 * SLOW_AFTER)

    assert seen == ["good"]


@pytest.mark.rule("network.connect.silent")
def test_a_broker_is_lost_once_all_its_addresses_have_failed() -> None:
    """Otherwise each of the addresses would cost a rebootstrap."""
    machine = connected(machine_with("first", "second", "third"))
    machine.network.hosts.refusing.update(("first", "second"))
    machine.network.cut(1)
    seconds_until_metadata(machine)

    assert not machine.metadata.cluster.bootstrap
    assert all(connection.broker.id >= 0 for connection in machine.client._connections)


@pytest.mark.rule("network.connect.silent")
def test_brokers_that_are_lost_one_by_one_are_lost_at_all_addresses() -> None:
    """Each of them is tried again and again meanwhile, so that one of its addresses is hardly ever the last one."""
    nodes = range(1, 9)
    cluster = SimulatedCluster.of(*nodes)
    cluster.create("t", *nodes)
    simulation = Simulation(cluster)
    network = simulation.network
    network.wire = LinkConditions(round_trip=0.02)
    network.resolve = lambda host, port, canonical=False: [  # type: ignore[method-assign, misc]
        Address(host=host, target=Target(0, f"{host}/{number}")) for number in range(3)
    ]
    producer = simulation.producer(bootstrap_servers="seed:9092", linger_ms=0)

    def send() -> list[Delivery]:
        return [producer.send("t", b"value", partition=number, timestamp_ms=1) for number in range(8)]

    def program() -> None:
        for delivery in send():
            delivery.result(20)
        waiting = []
        for node in nodes:  # the cluster moves
            network.hosts.refusing.add(f"broker-{node}")
            network.cut(node)
            waiting += send()
            simulation.sleep(3)
        cluster.brokers[9] = SimulatedBroker(cluster=cluster, id=9)
        cluster.seed = 9
        cluster.topics["t"].leaders[:] = [9] * 8
        for delivery in waiting:
            delivery.result(20)
        producer.close(20)

    simulation.run(program)


@contextlib.contextmanager
def full_listener() -> Iterator[tuple[str, int]]:
    """An address that answers no packet: the backlog of its listener is full."""
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()


@pytest.mark.rule("network.connect.silent")
def test_a_silent_address_of_the_system_is_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    with SocketBroker(cluster.brokers[1]).serving() as servers, full_listener() as silent:
        host, port = servers.rsplit(":", 1)
        cluster.address = NAME, int(port)
        system = socket.getaddrinfo

        def resolved(name: str, *given: object, **options: object) -> object:
            if name != NAME or options.get("flags"):
                return system(name, *given, **options)  # type: ignore[arg-type]
            kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
            return [(*kind, silent), (*kind, (host, int(port)))]

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        with caplog.at_level(logging.WARNING), Producer(bootstrap_servers=f"{NAME}:{port}") as producer:
            producer.send("t", b"value").result(20)

    assert f"127.0.0.1, an address of bootstrap server at {NAME}:{port}, did not accept a connection" in caplog.text
