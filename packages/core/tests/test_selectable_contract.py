"""The contract that a network client relies on, for the real selector and for the simulated network.

A test double that keeps more than this would hide faults: it is held to the same promises as the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from both_networks import MORE_THAN_A_SOCKET_TAKES, ListeningNetwork, PollResult, Simulated, Sockets

from ottla.errors import ConnectionFailedError, ProtocolMismatchError
from ottla_testkit.simulation import LinkConditions
from real_selector import framed

NETWORKS: dict[str, Callable[[], ListeningNetwork]] = {
    "sockets": Sockets,
    "simulated": lambda: Simulated(LinkConditions()),
    "simulated-far-away": lambda: Simulated(LinkConditions(round_trip=0.05, jitter=0.01)),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Iterator[ListeningNetwork]:
    made = NETWORKS[request.param]()
    yield made
    made.close()


# Connecting


@pytest.mark.rule("selector.connect.reported")
def test_a_connection_is_reported_once_when_it_is_ready(network: ListeningNetwork) -> None:
    network.begin(1)
    reported = network.until(lambda reported: reported.connected)

    assert reported == PollResult(connected=[1])
    assert network.poll(0.0).nothing


@pytest.mark.rule("selector.connect.reported")
def test_a_refused_connection_is_reported_with_its_error(network: ListeningNetwork) -> None:
    network.begin_refused(1)
    reported = network.until(lambda reported: reported.disconnected)

    assert isinstance(reported.disconnected[1], ConnectionFailedError)
    assert "ECONNREFUSED" in str(reported.disconnected[1])
    assert not reported.connected


def test_an_id_can_be_reused_once_its_disconnect_was_reported(network: ListeningNetwork) -> None:
    network.connect(1)
    with pytest.raises(AssertionError, match="a connection id exists once"):
        network.begin(1)
    network.selectable.close(1, ConnectionFailedError("enough"))
    network.poll()

    network.begin(1)
    assert network.until(lambda reported: reported.connected).connected == [1]


def test_nothing_is_sent_before_the_connection_is_ready(network: ListeningNetwork) -> None:
    network.begin(1)

    with pytest.raises(AssertionError, match="nothing is sent before the connection is ready"):
        network.send(1, b"early")


# Writing


def test_a_request_that_fits_is_written_at_once_and_not_reported_again(network: ListeningNetwork) -> None:
    network.connect(1)

    assert network.send(1, b"request")
    assert network.poll(0.0).sent == []
    assert network.requests(1, 1) == [b"request"]


def test_many_requests_are_written_between_two_polls_and_arrive_in_order(network: ListeningNetwork) -> None:
    network.connect(1)
    bodies = [b"%d" % number for number in range(20)]

    assert all(network.send(1, body) for body in bodies)
    assert network.requests(1, 20) == bodies


@pytest.mark.rule("selector.send.partial")
def test_a_request_that_does_not_fit_is_reported_once_fully_written(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    body = bytes(range(256)) * (MORE_THAN_A_SOCKET_TAKES // 256)

    assert not network.send(1, body)
    for _ in range(5):
        assert network.poll(0.01).nothing  # the peer does not read
    with pytest.raises(AssertionError, match="one send at a time"):
        network.send(1, b"another")

    peer.read_on()
    assert network.until(lambda reported: reported.sent) == PollResult(sent=[1])
    assert network.requests(1, 1) == [body]
    assert network.send(1, b"another")


def test_responses_are_received_while_a_request_is_partly_written(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    assert not network.send(1, bytes(MORE_THAN_A_SOCKET_TAKES))
    peer.send(framed(b"answer"))

    assert network.until(lambda reported: reported.received) == PollResult(received=[(1, b"answer")])


def test_a_request_after_close_is_not_written(network: ListeningNetwork) -> None:
    network.connect(1)
    network.selectable.close(1, ConnectionFailedError("enough"))

    assert not network.send(1, b"late")
    assert list(network.poll().disconnected) == [1]


def test_a_request_to_a_closed_peer_may_still_be_written(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.close()

    network.send(1, b"request")

    assert isinstance(network.until(lambda reported: reported.disconnected).disconnected[1], ConnectionFailedError)


# Reading


@pytest.mark.rule("selector.receive.one")
def test_responses_that_arrived_together_come_one_per_poll(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"one") + framed(b"two") + framed(b"three"))

    answers = [network.until(lambda reported: reported.received).received]
    now = network.clock()
    answers += [network.poll().received, network.poll().received]

    assert answers == [[(1, b"one")], [(1, b"two")], [(1, b"three")]]
    if isinstance(network, Simulated):
        assert network.clock() == now


@pytest.mark.rule("selector.receive.whole")
def test_a_response_in_pieces_is_received_when_it_is_complete(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    for byte in framed(b"answer")[:-1]:
        peer.send(bytes([byte]))
        assert network.poll().nothing  # a piece ends the wait all the same

    peer.send(b"r")
    assert network.poll().received == [(1, b"answer")]


def test_a_response_may_end_with_the_first_bytes_of_the_next_one(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    both = framed(b"one") + framed(b"two")

    peer.send(both[:9])
    assert network.until(lambda reported: reported.received).received == [(1, b"one")]
    peer.send(both[9:])
    assert network.until(lambda reported: reported.received).received == [(1, b"two")]


def test_one_poll_receives_from_every_readable_connection(network: ListeningNetwork) -> None:
    peers = [network.connect(node) for node in (1, 2, 3)]
    for number, peer in enumerate(peers, start=1):
        peer.send(framed(b"%d" % number))

    reported = network.until(lambda reported: len(reported.received) == 3)

    assert sorted(reported.received) == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_an_empty_response_is_received(network: ListeningNetwork) -> None:
    network.connect(1).send(framed(b""))

    assert network.until(lambda reported: reported.received).received == [(1, b"")]


def test_a_response_keeps_its_bytes_while_later_ones_arrive(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"first"))
    while not network.selectable.received:
        network.selectable.poll(0.05)
    [(_node, first)] = network.selectable.received
    peer.send(framed(b"other"))
    network.until(lambda reported: reported.received)

    assert bytes(first) == b"first"


@pytest.mark.rule("selector.receive.bounded")
def test_an_impossible_response_size_ends_the_connection(network: ListeningNetwork) -> None:
    network.connect(1).send(b"\xff\xff\xff\xff")

    assert isinstance(network.until(lambda reported: reported.disconnected).disconnected[1], ProtocolMismatchError)


# Endings


@pytest.mark.rule("selector.close.arrived")
def test_data_that_arrived_before_a_close_is_received_first(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"one") + framed(b"two"))
    peer.close()

    story: list[PollResult] = []
    while not story or not story[-1].disconnected:
        reported = network.poll()
        if not reported.nothing:
            story.append(reported)

    assert [reported.received for reported in story] == [[(1, b"one")], [(1, b"two")], []]
    assert [list(reported.disconnected) for reported in story] == [[], [], [1]]


def test_an_incomplete_response_is_never_received(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"answer")[:-1])
    peer.close()

    reported = network.until(lambda reported: reported.disconnected)

    assert reported.received == []
    assert isinstance(reported.disconnected[1], ConnectionFailedError)


@pytest.mark.rule("selector.close.reset")
def test_a_reset_in_the_middle_of_a_response_ends_the_connection(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"answer")[:3])
    peer.reset()

    reported = network.until(lambda reported: reported.disconnected)

    assert reported.received == []
    assert isinstance(reported.disconnected[1], ConnectionFailedError)


def test_a_disconnect_does_not_affect_other_connections(network: ListeningNetwork) -> None:
    peers = [network.connect(node) for node in (1, 2)]
    peers[0].reset()
    network.until(lambda reported: reported.disconnected)
    peers[1].send(framed(b"here"))

    assert network.until(lambda reported: reported.received).received == [(2, b"here")]


@pytest.mark.rule("selector.close.wanted")
def test_close_is_reported_by_the_next_poll_without_responses(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"unread"))
    reason = ConnectionFailedError("enough")

    network.selectable.close(1, reason)

    assert network.poll() == PollResult(disconnected={1: reason})
    assert network.poll(0.0).nothing


def test_closing_an_unknown_connection_is_not_reported(network: ListeningNetwork) -> None:
    network.selectable.close(7, ConnectionFailedError("enough"))

    assert network.poll(0.0).nothing


def test_data_written_before_close_still_arrives(network: ListeningNetwork) -> None:
    network.connect(1)
    assert network.send(1, b"last")
    network.selectable.close(1, ConnectionFailedError("enough"))
    network.poll()

    assert network.requests(1, 1) == [b"last"]


# Waiting


def test_a_poll_without_events_lasts_as_long_as_its_timeout(network: ListeningNetwork) -> None:
    network.connect(1)
    began = network.clock()

    assert network.poll(0.03).nothing
    assert network.clock() - began >= 0.029


def test_a_poll_with_timeout_zero_does_not_wait(network: ListeningNetwork) -> None:
    network.connect(1)
    began = network.clock()
    network.poll(0.0)
    network.poll(-1.0)

    if isinstance(network, Simulated):
        assert network.clock() == began


@pytest.mark.rule("selector.wakeup")
def test_a_wakeup_before_a_poll_ends_this_poll_only(network: ListeningNetwork) -> None:
    for _ in range(3):
        network.selectable.wakeup()
    assert network.poll().nothing

    began = network.clock()
    network.poll(0.03)
    assert network.clock() - began >= 0.029


@pytest.mark.rule("selector.wakeup")
def test_a_wakeup_from_another_thread_ends_a_wait(network: ListeningNetwork) -> None:
    network.later(network.selectable.wakeup)

    assert network.poll().nothing


def test_a_name_is_resolved_between_polls_and_ends_a_wait(network: ListeningNetwork) -> None:
    assert network.resolve() is None
    assert network.poll().nothing

    addresses = network.resolve()
    assert addresses
    assert addresses[0].host == "localhost"
    assert network.resolve() is None  # an answer is taken once


def test_events_are_reported_by_one_poll_only(network: ListeningNetwork) -> None:
    peer = network.connect(1)
    peer.send(framed(b"answer"))
    network.until(lambda reported: reported.received)
    peer.close()
    network.until(lambda reported: reported.disconnected)

    assert network.poll(0.0).nothing
