"""Connections over their whole life: versions, backoff, addresses, time-outs, metadata first."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import pytest

from machine import Machine
from ottla.errors import (
    CertificateExpiredError,
    ConnectionFailedError,
    ConnectionRetiredError,
    ErrorCode,
    NameResolutionError,
    ProtocolMismatchError,
    RequestTimeoutError,
    TopicUnavailableError,
)
from ottla.interfaces import Target
from ottla.network import Completion, Request
from ottla.network.api_versions import read_api_versions
from ottla.network.selector_interface import Address
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE, MetadataRequest, ProduceRequest
from ottla_testkit.simulation import KnownResponse, SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.pending_response import Response, content_of


def machine_of(*brokers: int, **settings: float) -> Machine:
    return Machine(SimulatedCluster.of(*brokers), **settings)  # type: ignore[arg-type]  # every setting is a number


def rounds(machine: Machine, count: int = 20) -> None:
    for _ in range(count):
        machine.client.poll(0.01, machine.clock())


def connected(machine: Machine, node: int = 1) -> bool:
    return machine.client.ready(node, machine.clock())


def ask(machine: Machine, node: int = 1) -> list[Completion]:
    """Send a metadata request; its completion will be in the list."""
    completions: list[Completion] = []
    machine.client.send(
        node,
        Request(
            message=METADATA,
            body=lambda version: [METADATA.request(version).encode(MetadataRequest(topics=[]))],
            on_complete=completions.append,
        ),
        machine.clock(),
    )
    return completions


def make_ready(machine: Machine, node: int = 1) -> None:
    machine.metadata.request_update()
    for _ in range(50):
        if connected(machine, node):
            return
        machine.client.poll(0.1, machine.clock())
    raise AssertionError(f"broker {node} never got ready")


@pytest.mark.rule("network.version.first", "network.metadata.due")
def test_the_first_requests_are_apiversions_and_metadata() -> None:
    machine = machine_of(1)

    rounds(machine)

    names = [name for name, _version in machine.cluster.brokers[1].requests]
    assert names[:2] == ["ApiVersions", "Metadata"]
    assert list(machine.metadata.cluster.brokers) == [1]


@pytest.mark.rule("network.version.fallback")
def test_a_broker_without_our_newest_apiversions_gets_version_0() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].versions[API_VERSIONS.key] = (0, 2)

    rounds(machine)

    asked = [version for name, version in machine.cluster.brokers[1].requests if name == "ApiVersions"]
    assert asked[:2] == [API_VERSIONS.max_version, 0]
    assert list(machine.metadata.cluster.brokers) == [1]


@pytest.mark.rule("network.version.fallback")
def test_apiversions_falls_back_to_the_highest_version_the_broker_names() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].versions[API_VERSIONS.key] = (0, 3)

    rounds(machine)

    asked = [version for name, version in machine.cluster.brokers[1].requests if name == "ApiVersions"]
    assert asked[:2] == [API_VERSIONS.max_version, 3]
    assert machine.client.features.levels == {"transaction.version": 2}  # which version 0 does not report


@pytest.mark.rule("network.version.fallback")
@pytest.mark.parametrize(
    "refusal",
    [
        bytes.fromhex("0023"),  # nothing behind the code
        bytes.fromhex("0023 00000000"),  # Kafka 0.10.2 to 2.3
        bytes.fromhex("0023 00000001 0012 0000"),  # breaks off
        bytes.fromhex("0023 00000001 0000 0000 0009"),  # supports Produce only
        bytes.fromhex("0023 00000001 0012 0000 0004"),  # offers the very version that it refuses
        bytes.fromhex("0023 00000001 0012 0000 7fff"),
        bytes.fromhex("0023 00000001 0012 0000 ffff"),
    ],
)
def test_apiversions_falls_back_to_0_if_the_refusal_names_no_version(refusal: bytes) -> None:
    api_versions = read_api_versions(4, memoryview(refusal))

    assert api_versions.ask_again_with == 0


@pytest.mark.rule("network.version.fallback")
def test_bytes_behind_a_refusal_do_not_hide_the_version_that_it_names() -> None:
    refusal = bytes.fromhex("0023 00000001 0012 0000 0003 00000000")  # a throttle time that version 0 does not have

    assert read_api_versions(4, memoryview(refusal)).ask_again_with == 3


def test_the_listener_of_a_broker_that_was_never_reached_is_doubted() -> None:
    """Also that of the broker 0, which is not one of the servers in bootstrap.servers; those have negative ids."""
    machine = machine_of(0, 1)
    machine.network.hosts.refusing.add("broker-0")
    while (error := machine.client.obstacles.failure(0)) is None:
        connected(machine, 0)
        machine.client.poll(0.1, machine.clock())

    assert "broker 0 at broker-0:9092 was never reached at this address, which it advertises" in str(error)


def test_the_listener_of_a_broker_that_was_reached_once_is_not_doubted() -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.network.hosts.refusing.add("broker-1")
    machine.network.cut(1)
    while (error := machine.client.obstacles.failure(1)) is None or "could not connect" not in str(error):
        connected(machine)
        machine.client.poll(0.1, machine.clock())

    assert "advertised.listeners" not in str(error)


@pytest.mark.rule("network.version.highest")
def test_the_highest_version_supported_by_both_is_used() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].versions[METADATA.key] = (0, 7)

    rounds(machine)

    assert ("Metadata", 7) in machine.cluster.brokers[1].requests


def test_a_broker_without_a_connection_supports_no_versions() -> None:
    machine = machine_of(1)
    make_ready(machine)
    assert machine.client.supported_versions(1, METADATA) is not None
    machine.network.cut(1)
    while machine.client.obstacles.failure(1) is None:
        machine.client.poll(0.0, machine.clock())

    assert machine.client.supported_versions(1, METADATA) is None  # it may come back with other versions


@pytest.mark.rule("network.metadata.first")
def test_while_metadata_is_due_no_broker_is_ready() -> None:
    machine = machine_of(1)
    make_ready(machine)

    machine.metadata.use("a new topic", machine.clock())

    assert not connected(machine)


@pytest.mark.rule("metadata.bootstrap")
def test_a_bootstrap_connection_is_closed_once_the_brokers_are_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_of(1)
    make_ready(machine)
    rounds(machine)

    assert -1 not in {connection.broker.id for connection in machine.client._connections}
    assert caplog.text == ""  # it is no fault, and nothing to warn of


@pytest.mark.rule("network.flight.limit", "network.ready.all")
def test_no_more_requests_are_in_flight_than_allowed() -> None:
    machine = machine_of(1, max_in_flight=2)
    make_ready(machine)
    machine.cluster.brokers[1].silent = True
    for _ in range(2):
        ask(machine)
        machine.client.poll(0.0, machine.clock())

    assert not connected(machine)
    assert machine.client.in_flight() == 2


@pytest.mark.rule("network.flight.written")
def test_a_second_request_waits_until_the_first_is_written() -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.network.takes.extend([10, 0])

    completions = ask(machine)
    assert not connected(machine)
    machine.client.poll(0.0, machine.clock())  # the socket takes nothing
    assert not connected(machine)
    machine.client.poll(0.0, machine.clock())

    assert connected(machine)
    rounds(machine, 1)
    assert completions[0].error is None


@pytest.mark.rule("network.flight.timeout")
def test_a_request_timeout_closes_the_connection_and_fails_its_requests() -> None:
    machine = machine_of(1, request_timeout=3.0)
    make_ready(machine)
    machine.cluster.brokers[1].silent = True
    first = ask(machine)
    machine.client.poll(0.0, machine.clock())
    second = ask(machine)
    started = machine.clock()
    while not (first and second):
        machine.client.poll(10.0, machine.clock())

    assert machine.clock() - started == pytest.approx(3.0, abs=0.1)
    assert isinstance(first[0].error, RequestTimeoutError)
    assert "request.timeout.ms" in str(first[0].error)
    assert second[0].error is first[0].error


@pytest.mark.rule("network.flight.fifo")
def test_responses_complete_in_the_order_of_the_requests() -> None:
    machine = machine_of(1)
    make_ready(machine)
    order: list[int] = []

    def note(number: int, _completion: Completion) -> None:
        order.append(number)

    for number in range(3):
        request = Request(
            message=METADATA,
            body=lambda version: [METADATA.request(version).encode(MetadataRequest(topics=[]))],
            on_complete=functools.partial(note, number),
        )
        machine.client.send(1, request, machine.clock())
        machine.client.poll(0.0, machine.clock())
    rounds(machine)

    assert order == [0, 1, 2]


@pytest.mark.rule("network.poll.callback")
def test_a_completion_that_raises_stops_no_other_and_fails_the_round() -> None:
    machine = machine_of(1)
    make_ready(machine)

    def fail(_completion: Completion) -> None:
        raise ZeroDivisionError("a fault of ours")

    body = METADATA.request(1).encode(MetadataRequest(topics=[]))
    machine.client.send(
        1,
        Request(message=METADATA, body=lambda _version: [body], on_complete=fail, ceiling=1),
        machine.clock(),
    )
    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        machine.client.poll(0.0, machine.clock())
    after = ask(machine)
    rounds(machine)

    assert after[0].response is not None


@pytest.mark.rule("network.poll.callback")
def test_two_completions_that_raise_stop_no_third_one(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(1)
    make_ready(machine)

    def fails(text: str) -> None:
        def fail(_completion: Completion) -> None:
            raise ZeroDivisionError(text)

        body = METADATA.request(1).encode(MetadataRequest(topics=[]))
        request = Request(message=METADATA, body=lambda _version: [body], on_complete=fail, ceiling=1)
        machine.client.send(1, request, machine.clock())

    del machine.client._connections[1].versions[METADATA.key]  # so that all of them complete in one poll
    fails("the first fault")
    fails("the second fault")
    third = ask(machine)
    with pytest.raises(ZeroDivisionError, match="the first fault"):
        machine.client.poll(0.0, machine.clock())

    assert len(third) == 1
    [record] = [record for record in caplog.records if "request failed" in record.message]
    assert record.message == "test: completing a Metadata request failed"
    assert "the second fault" in str(record.exc_info)


@pytest.mark.rule("network.flight.fifo")
def test_a_response_to_another_request_closes_the_connection() -> None:
    machine = machine_of(1)
    make_ready(machine)
    broker = machine.cluster.brokers[1]
    answer = SimulatedBroker.answer

    def shifted(frame: bytes) -> KnownResponse:
        correct = content_of(answer(broker, frame))
        assert correct is not None
        return KnownResponse((int.from_bytes(correct[:4], "big") + 1).to_bytes(4, "big") + correct[4:])

    broker.answer = shifted  # type: ignore[method-assign]  # a peer that breaks the protocol
    completions = ask(machine)
    rounds(machine)

    assert isinstance(completions[0].error, ConnectionFailedError)
    assert "unreadable" in str(completions[0].error)


def test_bytes_after_a_response_are_ignored() -> None:
    machine = machine_of(1)
    make_ready(machine)
    broker = machine.cluster.brokers[1]
    answer = SimulatedBroker.answer

    def sloppy(frame: bytes) -> KnownResponse:
        return KnownResponse((content_of(answer(broker, frame)) or b"") + b"\0")

    broker.answer = sloppy  # type: ignore[method-assign]
    completions = ask(machine)

    rounds(machine)

    assert completions[0].error is None


@pytest.mark.rule("network.connect.reset")
def test_a_broker_that_fails_after_every_connect_is_retried_less_often() -> None:
    machine = machine_of(1)
    broker = machine.cluster.brokers[1]
    answer = SimulatedBroker.answer

    def greet_only(frame: bytes) -> Response:
        return answer(broker, frame) if frame[:2] == b"\0\x12" else KnownResponse(frame[4:8] + b"\xff" * 40)

    broker.answer = greet_only  # type: ignore[method-assign]  # a broken peer
    while machine.clock() < 30:
        machine.client.poll(30 - machine.clock(), machine.clock())

    tries = sum(name == "ApiVersions" for name, _version in broker.requests)
    assert 30 <= tries <= 36  # a few quick ones, then one a second


@pytest.mark.rule("network.flight.fifo")
def test_an_invalid_response_closes_the_connection() -> None:
    machine = machine_of(1)
    make_ready(machine)
    broker = machine.cluster.brokers[1]
    garbage = b"\xff" * 40
    broker.answer = lambda frame: KnownResponse(frame[4:8] + garbage)  # type: ignore[method-assign]  # a hostile peer
    completions = ask(machine)

    rounds(machine)

    assert isinstance(completions[0].error, ConnectionFailedError)


@pytest.mark.rule("network.connect.backoff")
def test_a_broker_that_is_down_is_retried_with_growing_pauses() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].up = False
    tries: list[float] = []
    connect = machine.network.connect

    def count(node: int, target: Target, host: str, port: int) -> None:
        tries.append(machine.clock())
        connect(node, target, host, port)

    machine.network.connect = count  # type: ignore[method-assign]  # to look on
    while machine.clock() < 10:
        machine.client.poll(10.0 - machine.clock(), machine.clock())

    pauses = [round(later - earlier, 2) for earlier, later in itertools.pairwise(tries)]
    assert pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert set(pauses[5:]) == {1.0}


@pytest.mark.rule("network.lost.log")
def test_an_outage_is_logged_once_and_not_for_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].up = False

    while machine.clock() < 10:
        machine.client.poll(10.0 - machine.clock(), machine.clock())

    assert [record.levelname for record in caplog.records if record.name.endswith("connection_log")] == ["WARNING"]


@pytest.mark.rule("network.connect.setup")
def test_a_connect_without_a_response_ends_with_the_setup_timeout() -> None:
    machine = machine_of(1, setup_timeout=10.0)
    machine.network.hosts.black_holes.add("seed")
    while machine.metadata.last_error is None:
        machine.client.poll(60.0, machine.clock())

    assert machine.clock() == pytest.approx(10.0)
    assert "socket.connection.setup.timeout.ms" in str(machine.metadata.last_error)


@pytest.mark.rule("network.connect.resolves")
def test_a_name_without_an_address_is_retried_and_reported() -> None:
    machine = machine_of(1)
    machine.network.names.unresolvable.add("seed")
    rounds(machine, 5)

    with pytest.raises(TopicUnavailableError, match="'seed' has no address") as caught:
        machine.metadata.wait_for("t", partition=None, timeout=0)
    assert isinstance(caught.value.__cause__, NameResolutionError)

    machine.network.names.unresolvable.clear()
    make_ready(machine)


@pytest.mark.rule("network.poll.returns")
def test_an_idle_client_sleeps_until_its_metadata_is_old() -> None:
    machine = machine_of(1)
    make_ready(machine)
    rounds(machine)
    machine.network.waits.clear()

    machine.client.poll(1e6, machine.clock())

    assert machine.network.waits[0] > 290


@pytest.mark.rule("network.shutdown")
def test_shutdown_completes_requests_in_flight() -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.cluster.brokers[1].silent = True
    completions = ask(machine)

    machine.client.shutdown()

    assert isinstance(completions[0].error, ConnectionFailedError)


@pytest.mark.rule("network.shutdown")
def test_in_a_forked_child_only_descriptors_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.cluster.brokers[1].silent = True
    completions = ask(machine)
    closed: list[dict[str, bool]] = []
    monkeypatch.setattr(machine.network, "shutdown", lambda **how: closed.append(how))

    machine.client.shutdown(forked=True)

    assert closed == [{"forked": True}]  # the parent's sockets stay open
    assert completions == []


def test_a_round_waits_for_events_unless_a_connection_is_being_made() -> None:
    machine = machine_of(1)
    machine.network.awaits_events = True
    found = [machine.client.awaits_events]
    machine.client.poll(0.0, machine.clock())
    found.append(machine.client.awaits_events)
    make_ready(machine)
    found.append(machine.client.awaits_events)
    machine.network.cut(1)
    while machine.client.obstacles.failure(1) is None:
        machine.client.poll(0.0, machine.clock())
    found.append(machine.client.awaits_events)

    assert found == [True, False, True, True]


@pytest.mark.rule("network.connect.resolves")
def test_a_slow_name_lookup_delays_nothing_else() -> None:
    machine = machine_of(1, 2)
    make_ready(machine)
    machine.network.names.slow.add("broker-2")
    completions = ask(machine)

    assert not machine.client.ready(2, machine.clock())
    rounds(machine, 3)

    assert completions[0].error is None
    machine.network.names.slow.clear()
    make_ready(machine, 2)


@pytest.mark.rule("network.connect.setup")
def test_an_endless_name_lookup_ends_with_the_setup_timeout() -> None:
    machine = machine_of(1, setup_timeout=10.0)
    machine.network.names.slow.add("seed")

    with pytest.raises(
        TopicUnavailableError, match=r"was not ready within .* \(the client was still looking up the name\)"
    ):
        wait_until_timeout(machine)


def wait_until_timeout(machine: Machine) -> None:
    machine.run(11.0)
    machine.metadata.wait_for("t", partition=None, timeout=0.0)


def send_unanswered(machine: Machine) -> None:
    """A request that the broker does not answer, as Produce with acks=0."""
    request = Request(
        message=PRODUCE,
        body=lambda version: [PRODUCE.request(version).encode(ProduceRequest(acks=0))],
        on_complete=lambda _completion: None,
        expects_response=False,
    )
    machine.client.send(1, request, machine.clock())
    machine.client.poll(0.0, machine.clock())


@pytest.mark.rule("network.acks-0")
def test_acks_0_records_are_confirmed_by_a_later_response() -> None:
    machine = machine_of(1)
    make_ready(machine)
    assert not machine.client.flush_unacknowledged(machine.clock())
    send_unanswered(machine)
    asked = len(machine.cluster.brokers[1].requests)

    assert machine.client.flush_unacknowledged(machine.clock())
    assert machine.client.flush_unacknowledged(machine.clock())
    rounds(machine, 3)

    assert machine.cluster.brokers[1].requests[asked:] == [("ApiVersions", 0)]
    assert not machine.client.flush_unacknowledged(machine.clock())


@pytest.mark.rule("network.acks-0")
def test_a_broker_that_reads_slowly_is_asked_to_confirm_afterwards() -> None:
    """Another request, in the middle of one that is being written, would be read as a part of it."""
    machine = machine_of(1)
    make_ready(machine)
    send_unanswered(machine)
    asked = len(machine.cluster.brokers[1].requests)
    in_flight = machine.client._connections[1].in_flight
    in_flight.writing = True
    assert machine.client.flush_unacknowledged(machine.clock())
    assert not in_flight.asked_to_confirm

    in_flight.writing = False
    assert machine.client.flush_unacknowledged(machine.clock())
    rounds(machine, 3)
    assert machine.cluster.brokers[1].requests[asked:] == [("ApiVersions", 0)]


@pytest.mark.rule("network.acks-0")
def test_a_response_to_an_ordinary_request_confirms_as_well() -> None:
    machine = machine_of(1)
    make_ready(machine)
    send_unanswered(machine)
    ask(machine)
    rounds(machine, 3)

    assert not machine.client.flush_unacknowledged(machine.clock())


@pytest.mark.rule("network.acks-0")
def test_a_response_to_an_earlier_request_confirms_nothing() -> None:
    machine = machine_of(1)
    make_ready(machine)
    ask(machine)
    machine.client.poll(0.0, machine.clock())
    send_unanswered(machine)

    assert machine.client.flush_unacknowledged(machine.clock())


@pytest.mark.rule("network.acks-0")
def test_a_connection_lost_before_it_confirmed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(1)
    make_ready(machine)
    send_unanswered(machine)

    machine.network.cut(1)
    rounds(machine, 2)

    assert not machine.client.flush_unacknowledged(machine.clock())
    assert "records that were sent to broker 1 at broker-1:9092 with acks=0 may be lost" in caplog.text


# Beginning again


@pytest.mark.rule("metadata.again.lost")
def test_when_no_known_broker_remains_the_client_rebootstraps() -> None:
    machine = machine_of(1, 2)
    make_ready(machine)
    machine.cluster.brokers[1].up = machine.cluster.brokers[2].up = False
    machine.cluster.brokers[7] = SimulatedBroker(cluster=machine.cluster, id=7)
    machine.cluster.seed = 7
    machine.metadata.request_update()

    machine.run(5.0)

    assert set(machine.metadata.cluster.brokers) == {7}


@pytest.mark.rule("metadata.again.lost")
def test_one_remaining_broker_prevents_a_rebootstrap() -> None:
    machine = machine_of(1, 2)
    make_ready(machine)
    machine.cluster.brokers[1].up = False
    machine.metadata.request_update()

    machine.run(5.0)

    assert machine.metadata.cluster.brokers.keys() == {2}
    assert machine.client.supported_versions(-1, METADATA) is None


@pytest.mark.rule("metadata.again.off")
def test_without_rebootstrap_the_known_brokers_are_retried_forever() -> None:
    machine = Machine(SimulatedCluster.of(1), rebootstraps=False)
    make_ready(machine)
    machine.cluster.brokers[1].up = False
    machine.metadata.request_update()

    machine.run(20.0)

    assert not machine.metadata.cluster.bootstrap
    machine.cluster.brokers[1].up = True
    make_ready(machine)


@pytest.mark.rule("metadata.again.trigger")
def test_without_metadata_for_long_the_client_rebootstraps() -> None:
    machine = Machine(SimulatedCluster.of(1), rebootstrap_trigger=60.0)
    make_ready(machine)
    machine.cluster.metadata_code = ErrorCode.UNKNOWN_SERVER_ERROR
    machine.metadata.request_update()

    machine.run(55.0)
    assert not machine.metadata.cluster.bootstrap

    machine.run(15.0)
    assert machine.metadata.cluster.bootstrap


@pytest.mark.rule("metadata.again.asked")
def test_a_broker_may_request_a_rebootstrap() -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.cluster.metadata_code = ErrorCode.REBOOTSTRAP_REQUIRED
    machine.metadata.request_update()
    machine.run(0.2)
    assert machine.metadata.cluster.bootstrap

    machine.cluster.metadata_code = ErrorCode.NONE
    machine.run(2.0)

    assert not machine.metadata.cluster.bootstrap


@pytest.mark.rule("metadata.again.asked")
def test_a_rebootstrap_fails_requests_to_earlier_brokers() -> None:
    machine = machine_of(1, 2)
    make_ready(machine, 2)
    make_ready(machine, 1)
    machine.network.held.add(1)
    asked = ask(machine, 1)
    machine.cluster.metadata_code = ErrorCode.REBOOTSTRAP_REQUIRED
    machine.metadata.request_update()
    machine.run(0.2)

    [completion] = asked
    assert isinstance(completion.error, ConnectionRetiredError)


@pytest.mark.rule("network.gone.answers")
def test_a_broker_that_moved_is_not_waited_for_at_its_old_address() -> None:
    machine = machine_of(1, 2)
    make_ready(machine, 2)
    make_ready(machine, 1)
    machine.network.held.add(1)
    asked = ask(machine, 1)
    machine.cluster.address = ("elsewhere", 9092)
    machine.metadata.request_update()
    machine.run(0.2)

    [completion] = asked
    assert isinstance(completion.error, ConnectionRetiredError)


# Refusals that waiting does not mend


@pytest.mark.rule("network.refused")
@pytest.mark.parametrize("protocol", [True, False], ids=["other protocol", "unresolvable"])
def test_a_refusal_by_all_before_any_success_is_raised_at_once(protocol: bool) -> None:
    machine = machine_of(1)
    (machine.network.hosts.other_protocol if protocol else machine.network.names.unresolvable).add("seed")
    rounds(machine, 5)

    with pytest.raises(TopicUnavailableError) as caught:
        machine.metadata.wait_for("t", partition=None, timeout=3600.0)

    assert isinstance(caught.value.__cause__, ProtocolMismatchError | NameResolutionError)
    assert machine.clock() < 1.0


@pytest.mark.rule("network.refused")
def test_a_server_that_accepts_after_all_clears_the_fatal_error() -> None:
    machine = machine_of(1)
    machine.cluster.create("t", 1)
    machine.network.hosts.other_protocol.add("seed")
    rounds(machine, 5)
    machine.network.hosts.other_protocol.clear()
    machine.metadata.use("t", machine.clock())
    machine.run(3.0)

    assert machine.metadata.wait_for("t", partition=None, timeout=0.0).leaders == (1,)


@pytest.mark.rule("network.refused")
def test_after_the_first_success_another_protocol_is_only_an_outage() -> None:
    machine = machine_of(1)
    make_ready(machine)
    machine.network.cut(1)
    machine.network.hosts.other_protocol |= {"broker-1", "seed"}
    machine.run(5.0)
    machine.network.hosts.other_protocol.clear()
    machine.cluster.create("t", 1)
    machine.metadata.use("t", machine.clock())
    machine.run(3.0)

    assert machine.metadata.wait_for("t", partition=None, timeout=0.0).leaders == (1,)


def with_addresses(machine: Machine, *hosts: str) -> Machine:
    """The machine, whose bootstrap server's name has an address for each of these hosts."""

    def resolve(host: str, port: int, *, canonical: bool = False) -> Sequence[Address]:
        return [Address(host=each, target=Target(0, each)) for each in (hosts if host == "seed" else [host])]

    machine.network.resolve = resolve  # type: ignore[method-assign]
    return machine


UNTRUSTED = CertificateExpiredError("its certificate has expired")


@pytest.mark.rule("network.refused")
@pytest.mark.parametrize("protocol", [True, False], ids=["other protocol", "certificate"])
def test_a_refusal_at_one_address_of_a_name_is_no_refusal_yet(protocol: bool) -> None:
    machine = with_addresses(machine_of(1), "bad", "good")
    machine.cluster.create("t", 1)
    if protocol:
        machine.network.hosts.other_protocol.add("bad")
    else:
        machine.network.hosts.untrusted["bad"] = UNTRUSTED
    machine.metadata.use("t", machine.clock())
    while machine.metadata.cluster.bootstrap:
        machine.round()
        assert machine.metadata.fatal_error is None
    machine.run(1.0)

    assert machine.metadata.wait_for("t", partition=None, timeout=0.0).leaders == (1,)


@pytest.mark.rule("network.refused")
@pytest.mark.parametrize("hosts", [("bad", "down"), ("down", "bad"), ("bad", "bad")])
def test_a_certificate_refused_at_one_address_and_no_other_is_raised(hosts: tuple[str, ...]) -> None:
    machine = with_addresses(machine_of(1), *hosts)
    machine.network.hosts.untrusted["bad"] = UNTRUSTED
    machine.network.hosts.refusing.add("down")
    rounds(machine, 10)

    with pytest.raises(CertificateExpiredError):
        machine.metadata.wait_for("t", partition=None, timeout=3600.0)
    assert machine.clock() < 1.0


@pytest.mark.rule("network.refused")
def test_a_refusal_at_every_address_names_each_with_its_error() -> None:
    machine = with_addresses(machine_of(1), "other", "down", "bad", "worse")
    machine.network.hosts.other_protocol.add("other")
    machine.network.hosts.refusing.add("down")
    machine.network.hosts.untrusted.update(dict.fromkeys(("bad", "worse"), UNTRUSTED))
    machine.metadata.use("t", machine.clock())
    machine.run(5.0)

    error = machine.metadata.fatal_error
    assert isinstance(error, CertificateExpiredError)
    assert error.__cause__ is UNTRUSTED
    own, *others = str(error).split("; at ")
    assert own == f"{UNTRUSTED}; so at bad, worse"
    assert [each.partition(":")[0] for each in others] == ["other", "down"]


@pytest.mark.rule("network.refused")
@pytest.mark.parametrize(("down", "other"), [("down", "; at down: "), ("bad too", "; so at bad, bad too")])
def test_two_addresses_of_a_name_are_both_named(down: str, other: str) -> None:
    machine = with_addresses(machine_of(1), "bad", down)
    machine.network.hosts.untrusted.update(dict.fromkeys(("bad", "bad too"), UNTRUSTED))
    machine.network.hosts.refusing.add("down")
    machine.metadata.use("t", machine.clock())
    machine.run(5.0)

    assert other in str(machine.metadata.fatal_error)


@pytest.mark.rule("network.lost.wordless")
def test_a_disconnect_before_any_response_suggests_tls_or_sasl(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].silent = True
    rounds(machine, 3)
    machine.network.cut(1)
    rounds(machine, 2)

    assert "closed the connection; it never responded: a listener that expects TLS or SASL" in caplog.text
