"""Connections that nothing uses: when they are retired, and what is logged when a broker ends one."""

from __future__ import annotations

import logging

import pytest

from machine import Machine
from ottla.errors import ConnectionRetiredError, RequestTimeoutError, TlsHandshakeError
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from simulated_producer import simulated


def machine_with_topic(*leaders: int, **settings: float) -> Machine:
    """A machine that has a connection to each leader of topic t, and none to a bootstrap server."""
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    machine = Machine(cluster, **settings)  # type: ignore[arg-type]  # every setting is a number
    machine.metadata.use("t", machine.clock())
    for partition in range(len(leaders)):
        machine.send(b"first", partition=partition)
    machine.run_until_idle()
    return machine


def until(machine: Machine, moment: float) -> None:
    """Rounds until a moment on the clock."""
    while machine.clock() < moment:
        machine.sender.run_once(machine.clock(), until=moment)


def deliver(machine: Machine, partition: int) -> None:
    machine.send(b"value", partition=partition)
    machine.run_until_idle()


def ends(machine: Machine, seconds: float) -> list[list[int]]:
    """The connections that end in this time, poll by poll."""
    seen = []
    end = machine.clock() + seconds
    while machine.clock() < end:
        machine.sender.run_once(machine.clock(), until=end)
        if machine.network.disconnected:
            seen.append(list(machine.network.disconnected))
    return seen


# Retired by us


@pytest.mark.rule("network.idle.oldest", "network.idle.due")
def test_idle_connections_are_closed_on_time_without_other_events() -> None:
    machine = machine_with_topic(1, 2, 3, max_idle=60.0)
    used_at = {}
    for broker in (2, 1, 3):
        until(machine, machine.clock() + 10.0)
        deliver(machine, broker - 1)
        used_at[broker] = machine.clock()
    machine.network.waits.clear()
    ended_at: dict[int, float] = {}
    last_due = machine.clock() + 60.0
    while machine.clock() <= last_due and len(ended_at) < 3:
        machine.round()
        ended_at.update(dict.fromkeys(machine.network.disconnected, machine.clock()))

    assert list(ended_at) == [2, 1, 3]
    assert ended_at == pytest.approx({broker: at + 60.0 for broker, at in used_at.items()})
    assert len(machine.network.waits) == 3
    assert all(isinstance(error, ConnectionRetiredError) for error in machine.network.disconnected.values())


@pytest.mark.rule("network.idle.due")
def test_all_idle_connections_are_closed_in_one_poll() -> None:
    machine = machine_with_topic(1, 2, 3, max_idle=60.0)
    for partition in (2, 0, 1):
        deliver(machine, partition)
        machine.clock.advance(1.0)
    machine.clock.advance(70.0)

    assert ends(machine, 5.0) == [[3, 1, 2]]


@pytest.mark.rule("network.idle.served")
def test_a_connection_used_in_the_same_poll_is_not_idle() -> None:
    machine = machine_with_topic(1, max_idle=60.0)
    machine.network.held.add(1)
    delivery = machine.send(b"value")
    until(machine, machine.clock() + 25.0)
    machine.clock.advance(36.0)
    machine.network.held.clear()
    machine.round()
    assert delivery.done()
    answered_at = machine.clock()
    until(machine, answered_at + 59.0)

    assert machine.client._connections[1].stage.value == "ready"
    assert ends(machine, 2.0) == [[1]]


@pytest.mark.rule("network.idle.served")
def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    machine = machine_with_topic(1, max_idle=5.0, request_timeout=30.0)
    machine.network.held.add(1)
    delivery = machine.send(b"slow")
    connects = machine.network.connects
    until(machine, machine.clock() + 20.0)
    machine.network.held.clear()
    machine.run_until_idle()

    assert delivery.exception() is None
    assert machine.log() == [b"first", b"slow"]
    assert machine.network.connects == connects


@pytest.mark.rule("network.idle.served")
def test_a_connection_used_with_acks_0_is_not_idle() -> None:
    machine = machine_with_topic(1, acks=0, max_idle=60.0)
    connects = machine.network.connects
    for _ in range(4):
        until(machine, machine.clock() + 50.0)
        deliver(machine, 0)

    assert machine.network.connects == connects
    assert ends(machine, 61.0) == [[1]]


@pytest.mark.rule("network.idle.oldest")
def test_a_closed_idle_connection_is_opened_again_at_once_when_needed() -> None:
    machine = machine_with_topic(1, max_idle=60.0)
    until(machine, machine.clock() + 61.0)
    needed_at = machine.clock()
    deliver(machine, 0)

    assert machine.clock() == needed_at
    assert machine.log() == [b"first", b"value"]


@pytest.mark.rule("network.idle.silent")
def test_a_request_timeout_replaces_connections_that_were_idle_meanwhile() -> None:
    machine = machine_with_topic(1, 2, 3, request_timeout=30.0)
    until(machine, machine.clock() + 40.0)
    machine.network.held.update({1, 2, 3})  # as behind a gateway that has forgotten all idle connections
    machine.cluster.create("new", 1)
    machine.metadata.use("new", machine.clock())
    asked_at = machine.clock()
    while not machine.network.disconnected:
        machine.sender.run_once(machine.clock(), until=asked_at + 60.0)
    ended = [*machine.network.disconnected.values()]
    machine.network.held.clear()
    until(machine, machine.clock() + 1.0)

    assert {type(error) for error in ended} == {RequestTimeoutError, ConnectionRetiredError}
    assert len(ended) == 3
    assert "new" in machine.metadata.cluster.topics
    assert machine.clock() - asked_at == pytest.approx(31.0, abs=1.0)


@pytest.mark.rule("network.idle.silent")
def test_a_request_timeout_leaves_connections_that_were_used_meanwhile() -> None:
    machine = machine_with_topic(1, 2, 3, request_timeout=30.0)
    until(machine, machine.clock() + 40.0)
    machine.network.held.add(1)
    machine.send(b"slow", partition=0)
    until(machine, machine.clock() + 1.0)
    machine.send(b"value", partition=1)

    assert [set(each) for each in ends(machine, 30.0)] == [{1, 3}]


@pytest.mark.rule("network.idle.silent")
def test_requests_of_two_silent_brokers_have_timeouts_of_their_own() -> None:
    """The second one is not idle: records were sent on it, and their error says that they got no answer."""
    machine = machine_with_topic(1, 2, request_timeout=30.0)
    until(machine, machine.clock() + 40.0)
    machine.network.held.update({1, 2})
    for partition in range(2):
        machine.send(b"value", partition=partition)
    end = machine.clock() + 31.0
    ended = []
    while machine.clock() < end:
        machine.sender.run_once(machine.clock(), until=end)
        ended += [type(error) for error in machine.network.disconnected.values()]

    assert ended == [RequestTimeoutError] * 2


@pytest.mark.rule("network.idle.silent", "network.acks-0")
def test_a_request_timeout_leaves_connections_with_records_of_acks_0() -> None:
    """Their broker may not have read these yet, and nothing would say so."""
    machine = machine_with_topic(1, 2, 3, acks=0, request_timeout=30.0)
    until(machine, machine.clock() + 40.0)
    machine.network.held.update({1, 2, 3})
    for partition in range(3):
        machine.send(b"value", partition=partition)
    until(machine, machine.clock() + 1.0)
    machine.cluster.create("new", 1)
    machine.metadata.use("new", machine.clock())
    machine.metadata.request_update()

    [ended] = ends(machine, 30.5)
    assert len(ended) == 1


@pytest.mark.rule("network.idle.off")
def test_without_a_limit_no_idle_connection_is_closed() -> None:
    with simulated(1, config={"connections.max.idle.ms": -1, "metadata.max.age.ms": 10**9}) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        simulation.clock.advance(100_000.0)
        simulation.round(until=simulation.clock())
        simulation.round(until=simulation.clock())

        assert not simulation.network.disconnected


def test_the_configuration_says_when_a_connection_is_idle() -> None:
    with simulated(1, config={"connections.max.idle.ms": 7_000}) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        used_at = simulation.clock()
        simulation.run_until(lambda: simulation.network.disconnected)

        assert simulation.clock() == pytest.approx(used_at + 7.0)


@pytest.mark.rule("network.idle.quiet")
def test_closing_an_idle_connection_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    machine = machine_with_topic(1, max_idle=60.0)
    caplog.clear()
    until(machine, machine.clock() + 61.0)

    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [("DEBUG", "test: broker 1 at broker-1:9092 had no request for connections.max.idle.ms")]


# Ended by a broker


def loud(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


@pytest.mark.rule("network.idle.quiet")
def test_brokers_that_close_idle_connections_are_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, 2, 3)
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    for broker in (1, 2, 3):
        machine.network.cut(broker)
    until(machine, machine.clock() + 2.0)
    for partition in range(3):
        deliver(machine, partition)

    assert loud(caplog) == []
    assert caplog.text.count("no request was in flight") == 3
    assert not machine.metadata.last_error
    assert [len(machine.log(partition=partition)) for partition in range(3)] == [2, 2, 2]


@pytest.mark.rule("network.idle.quiet")
def test_a_broker_that_keeps_closing_connections_is_logged_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    machine = machine_with_topic(1)
    began = machine.clock()
    while machine.clock() < began + 120.0:
        deliver(machine, 0)
        until(machine, machine.clock() + 2.0)
        machine.network.cut(1)
        until(machine, machine.clock() + 1.0)

    assert 2 <= caplog.text.count("the broker may be restarting") <= 5
    assert caplog.text.count("is connected again") <= 5


@pytest.mark.rule("network.idle.quiet")
def test_a_disconnect_with_a_request_in_flight_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    machine.network.held.add(1)
    machine.send(b"value")
    until(machine, machine.clock() + 1.0)
    caplog.clear()
    machine.network.cut(1)
    machine.round()

    assert any("broker 1 closed the connection" in line for line in loud(caplog))
    assert machine.client._connections[1].failures == 1


@pytest.mark.rule("network.idle.quiet")
def test_a_connection_that_never_carried_a_request_may_close_quietly(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[2] = SimulatedBroker(cluster=machine.cluster, id=2)
    machine.metadata.request_update()
    until(machine, machine.clock() + 1.0)
    while not machine.client.ready(2, machine.clock()):
        machine.round()
    until(machine, machine.clock() + 60.0)
    assert not machine.client._connections[2].received_any
    caplog.clear()
    machine.network.cut(2)
    until(machine, machine.clock() + 1.0)

    assert loud(caplog) == []


@pytest.mark.rule("network.idle.quiet")
def test_a_security_alert_on_an_idle_connection_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    caplog.clear()
    machine.network.retire(1, TlsHandshakeError("the broker does not trust us any more"))
    until(machine, machine.clock() + 1.0)

    assert any("does not trust us any more" in line for line in loud(caplog))


@pytest.mark.rule("network.idle.quiet")
def test_a_broker_that_closes_after_apiversions_is_failing(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, 2, 2)
    machine.network.cut(1)
    until(machine, machine.clock() + 1.0)
    for failures in range(3):
        while not machine.client.ready(1, machine.clock()):
            machine.round()
        assert machine.client._connections[1].failures == failures
        machine.network.cut(1)
        machine.round()

    assert any("broker 1 closed the connection" in line for line in loud(caplog))


@pytest.mark.rule("network.idle.quiet")
def test_the_first_failure_after_a_quiet_close_is_logged_as_the_first(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, 2)
    caplog.clear()
    machine.network.hosts.refusing |= {"broker-1"}
    machine.network.cut(1)
    until(machine, machine.clock() + 1.0)
    machine.send(b"value")
    until(machine, machine.clock() + 1.0)

    assert any("could not connect to broker-1:9092" in line for line in loud(caplog))


@pytest.mark.rule("network.idle.quiet")
def test_a_quiet_close_requests_metadata_and_reconnects_after_backoff() -> None:
    machine = machine_with_topic(1, 2)
    machine.network.cut(1)
    machine.client.poll(0.0, machine.clock())

    assert machine.metadata.due_at() <= machine.clock() + 0.12
    assert machine.client.ready_at(1, machine.clock()) == pytest.approx(machine.clock() + 0.05)


@pytest.mark.rule("network.idle.quiet")
def test_an_unsolicited_response_is_not_a_quiet_close(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    caplog.clear()
    machine.network.link(1).answer(b"\0\0\0\1")
    until(machine, machine.clock() + 1.0)

    assert any("a response without a request" in line for line in loud(caplog))


# Requests without a response


@pytest.mark.rule("network.acks-0")
def test_closing_an_idle_acks_0_connection_is_not_logged_as_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    config = {"acks": 0, "connections.max.idle.ms": 700, "metadata.max.age.ms": 10**6}
    with simulated(1, config=config) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        simulation.run_until(lambda: simulation.network.disconnected)

        assert isinstance(simulation.network.disconnected[1], ConnectionRetiredError)
        assert simulation.log() == [b"value"]
        simulation.producer.close()
    assert loud(caplog) == []


@pytest.mark.rule("network.acks-0")
def test_close_with_acks_0_waits_for_the_response_to_a_last_request() -> None:
    with simulated(1, config={"acks": 0}) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        asked = len(simulation.cluster.brokers[1].requests)
        simulation.network.held.add(1)
        simulation.network.schedule.later(2.0, simulation.network.held.clear)
        closed_at = simulation.clock()
        simulation.producer.close(timeout=10.0)

        assert simulation.cluster.brokers[1].requests[asked:] == [("ApiVersions", 0)]
        assert simulation.clock() - closed_at == pytest.approx(2.0)


@pytest.mark.rule("network.acks-0")
def test_close_with_acks_0_waits_for_no_response_after_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, config={"acks": 0}) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        simulation.network.held.add(1)
        closed_at = simulation.clock()
        simulation.producer.close(timeout=1.0)

        assert simulation.clock() - closed_at == pytest.approx(1.0)
    assert "could not confirm" not in caplog.text


@pytest.mark.rule("network.acks-0")
@pytest.mark.parametrize(("seconds", "warned"), [(29.0, True), (31.0, False)])
def test_acks_0_records_may_be_lost_for_as_long_as_a_request_may_take(
    seconds: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_with_topic(1, acks=0, request_timeout=30.0)
    deliver(machine, 0)
    until(machine, machine.clock() + seconds)
    caplog.clear()
    machine.network.cut(1)
    machine.round()

    assert any("with acks=0 may be lost" in line for line in loud(caplog)) is warned


@pytest.mark.rule("network.acks-0", "network.lost.wordless")
def test_no_login_is_suggested_after_records_were_written(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(2, acks=0)
    for _ in range(100):
        deliver(machine, 0)
    machine.network.cut(2)
    until(machine, machine.clock() + 1.0)

    assert "may be lost: broker 2 closed the connection" in caplog.text
    assert "login" not in caplog.text


@pytest.mark.rule("network.acks-0")
def test_a_broker_that_takes_records_with_acks_0_works_again() -> None:
    machine = machine_with_topic(1, acks=0)
    connection = machine.client._connections[1]
    connection.failures = 3
    deliver(machine, 0)

    assert connection.failures == 0


@pytest.mark.rule("network.lost.wordless")
def test_a_disconnect_after_the_first_request_suggests_a_login(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(SimulatedCluster.of(1))
    broker = machine.cluster.brokers[1]
    while not machine.client._connections.accepted:
        machine.round()
    broker.silent = True
    while broker.requests[-1][0] != "Metadata":
        machine.round()
    machine.network.cut(1)
    machine.round()

    assert "a listener that requires a login does that" in caplog.text


@pytest.mark.rule("network.lost.wordless")
def test_no_login_is_suggested_without_a_request_in_flight(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, 2)
    machine.network.cut(1)
    until(machine, machine.clock() + 1.0)
    while not machine.client.ready(1, machine.clock()):
        machine.round()
    caplog.clear()
    machine.network.cut(1)
    machine.round()

    assert "broker 1 closed the connection" in caplog.text
    assert "login" not in caplog.text


@pytest.mark.rule("network.lost.wordless")
def test_no_login_is_suggested_once_the_broker_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    deliver(machine, 0)
    machine.cluster.brokers[1].silent = True
    machine.send(b"unanswered")
    machine.round()
    machine.network.cut(1)
    machine.round()

    assert "broker 1 closed the connection" in caplog.text
    assert "login" not in caplog.text
