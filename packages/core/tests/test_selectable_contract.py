"""The contract that a network client relies on, for the real selector and for the simulated network.

A test double that keeps more than this would hide faults: it is held to the same promises as the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from both_networks import MORE_THAN_A_SOCKET_TAKES, Simulated, Sockets, Told, World

from ottla.errors import ConnectionFailedError, ProtocolMismatchError
from ottla_testkit.simulation import LinkConditions
from real_selector import framed

WORLDS: dict[str, Callable[[], World]] = {
    "sockets": Sockets,
    "simulated": lambda: Simulated(LinkConditions()),
    "simulated-far-away": lambda: Simulated(LinkConditions(round_trip=0.05, jitter=0.01)),
}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = WORLDS[request.param]()
    yield made
    made.close()


# Connecting


@pytest.mark.rule("selector.connect.reported")
def test_a_connection_is_reported_once_when_it_is_ready(world: World) -> None:
    world.begin(1)
    told = world.until(lambda told: told.connected)

    assert told == Told(connected=[1])
    assert world.poll(0.0).nothing


@pytest.mark.rule("selector.connect.reported")
def test_a_refused_connection_is_reported_with_its_error(world: World) -> None:
    world.begin_refused(1)
    told = world.until(lambda told: told.disconnected)

    assert isinstance(told.disconnected[1], ConnectionFailedError)
    assert "ECONNREFUSED" in str(told.disconnected[1])
    assert not told.connected


def test_an_id_can_be_reused_once_its_disconnect_was_reported(world: World) -> None:
    world.connect(1)
    with pytest.raises(AssertionError, match="a connection id exists once"):
        world.begin(1)
    world.selectable.close(1, ConnectionFailedError("enough"))
    world.poll()

    world.begin(1)
    assert world.until(lambda told: told.connected).connected == [1]


def test_nothing_is_sent_before_the_connection_is_ready(world: World) -> None:
    world.begin(1)

    with pytest.raises(AssertionError, match="nothing is sent before the connection is ready"):
        world.send(1, b"early")


# Writing


def test_a_request_that_fits_is_written_at_once_and_not_reported_again(world: World) -> None:
    world.connect(1)

    assert world.send(1, b"request")
    assert world.poll(0.0).sent == []
    assert world.requests(1, 1) == [b"request"]


def test_many_requests_are_written_between_two_polls_and_arrive_in_order(world: World) -> None:
    world.connect(1)
    bodies = [b"%d" % number for number in range(20)]

    assert all(world.send(1, body) for body in bodies)
    assert world.requests(1, 20) == bodies


@pytest.mark.rule("selector.send.partial")
def test_a_request_that_does_not_fit_is_reported_once_fully_written(world: World) -> None:
    peer = world.connect(1)
    body = bytes(range(256)) * (MORE_THAN_A_SOCKET_TAKES // 256)

    assert not world.send(1, body)
    for _ in range(5):
        assert world.poll(0.01).nothing  # the peer does not read
    with pytest.raises(AssertionError, match="one send at a time"):
        world.send(1, b"another")

    peer.read_on()
    assert world.until(lambda told: told.sent) == Told(sent=[1])
    assert world.requests(1, 1) == [body]
    assert world.send(1, b"another")


def test_responses_are_received_while_a_request_is_partly_written(world: World) -> None:
    peer = world.connect(1)
    assert not world.send(1, bytes(MORE_THAN_A_SOCKET_TAKES))
    peer.send(framed(b"answer"))

    assert world.until(lambda told: told.received) == Told(received=[(1, b"answer")])


def test_a_request_after_close_is_not_written(world: World) -> None:
    world.connect(1)
    world.selectable.close(1, ConnectionFailedError("enough"))

    assert not world.send(1, b"late")
    assert list(world.poll().disconnected) == [1]


def test_a_request_to_a_closed_peer_may_still_be_written(world: World) -> None:
    peer = world.connect(1)
    peer.close()

    world.send(1, b"request")

    assert isinstance(world.until(lambda told: told.disconnected).disconnected[1], ConnectionFailedError)


# Reading


@pytest.mark.rule("selector.receive.one")
def test_responses_that_arrived_together_come_one_per_poll(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"one") + framed(b"two") + framed(b"three"))

    answers = [world.until(lambda told: told.received).received]
    now = world.clock()
    answers += [world.poll().received, world.poll().received]

    assert answers == [[(1, b"one")], [(1, b"two")], [(1, b"three")]]
    if isinstance(world, Simulated):
        assert world.clock() == now


@pytest.mark.rule("selector.receive.whole")
def test_a_response_in_pieces_is_received_when_it_is_complete(world: World) -> None:
    peer = world.connect(1)
    for byte in framed(b"answer")[:-1]:
        peer.send(bytes([byte]))
        assert world.poll().nothing  # a piece ends the wait all the same

    peer.send(b"r")
    assert world.poll().received == [(1, b"answer")]


def test_a_response_may_end_with_the_first_bytes_of_the_next_one(world: World) -> None:
    peer = world.connect(1)
    both = framed(b"one") + framed(b"two")

    peer.send(both[:9])
    assert world.until(lambda told: told.received).received == [(1, b"one")]
    peer.send(both[9:])
    assert world.until(lambda told: told.received).received == [(1, b"two")]


def test_one_poll_receives_from_every_readable_connection(world: World) -> None:
    peers = [world.connect(node) for node in (1, 2, 3)]
    for number, peer in enumerate(peers, start=1):
        peer.send(framed(b"%d" % number))

    told = world.until(lambda told: len(told.received) == 3)

    assert sorted(told.received) == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_an_empty_response_is_received(world: World) -> None:
    world.connect(1).send(framed(b""))

    assert world.until(lambda told: told.received).received == [(1, b"")]


def test_a_response_keeps_its_bytes_while_later_ones_arrive(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"first"))
    while not world.selectable.received:
        world.selectable.poll(0.05)
    [(_node, first)] = world.selectable.received
    peer.send(framed(b"other"))
    world.until(lambda told: told.received)

    assert bytes(first) == b"first"


@pytest.mark.rule("selector.receive.bounded")
def test_an_impossible_response_size_ends_the_connection(world: World) -> None:
    world.connect(1).send(b"\xff\xff\xff\xff")

    assert isinstance(world.until(lambda told: told.disconnected).disconnected[1], ProtocolMismatchError)


# Endings


@pytest.mark.rule("selector.close.arrived")
def test_data_that_arrived_before_a_close_is_received_first(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"one") + framed(b"two"))
    peer.close()

    story: list[Told] = []
    while not story or not story[-1].disconnected:
        told = world.poll()
        if not told.nothing:
            story.append(told)

    assert [told.received for told in story] == [[(1, b"one")], [(1, b"two")], []]
    assert [list(told.disconnected) for told in story] == [[], [], [1]]


def test_an_incomplete_response_is_never_received(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"answer")[:-1])
    peer.close()

    told = world.until(lambda told: told.disconnected)

    assert told.received == []
    assert isinstance(told.disconnected[1], ConnectionFailedError)


@pytest.mark.rule("selector.close.reset")
def test_a_reset_in_the_middle_of_a_response_ends_the_connection(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"answer")[:3])
    peer.reset()

    told = world.until(lambda told: told.disconnected)

    assert told.received == []
    assert isinstance(told.disconnected[1], ConnectionFailedError)


def test_a_disconnect_does_not_affect_other_connections(world: World) -> None:
    peers = [world.connect(node) for node in (1, 2)]
    peers[0].reset()
    world.until(lambda told: told.disconnected)
    peers[1].send(framed(b"here"))

    assert world.until(lambda told: told.received).received == [(2, b"here")]


@pytest.mark.rule("selector.close.wanted")
def test_close_is_reported_by_the_next_poll_without_responses(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"unread"))
    reason = ConnectionFailedError("enough")

    world.selectable.close(1, reason)

    assert world.poll() == Told(disconnected={1: reason})
    assert world.poll(0.0).nothing


def test_closing_an_unknown_connection_is_not_reported(world: World) -> None:
    world.selectable.close(7, ConnectionFailedError("enough"))

    assert world.poll(0.0).nothing


def test_data_written_before_close_still_arrives(world: World) -> None:
    world.connect(1)
    assert world.send(1, b"last")
    world.selectable.close(1, ConnectionFailedError("enough"))
    world.poll()

    assert world.requests(1, 1) == [b"last"]


# Waiting


def test_a_poll_without_events_lasts_as_long_as_its_timeout(world: World) -> None:
    world.connect(1)
    began = world.clock()

    assert world.poll(0.03).nothing
    assert world.clock() - began >= 0.029


def test_a_poll_with_timeout_zero_does_not_wait(world: World) -> None:
    world.connect(1)
    began = world.clock()
    world.poll(0.0)
    world.poll(-1.0)

    if isinstance(world, Simulated):
        assert world.clock() == began


@pytest.mark.rule("selector.wakeup")
def test_a_wakeup_before_a_poll_ends_this_poll_only(world: World) -> None:
    for _ in range(3):
        world.selectable.wakeup()
    assert world.poll().nothing

    began = world.clock()
    world.poll(0.03)
    assert world.clock() - began >= 0.029


@pytest.mark.rule("selector.wakeup")
def test_a_wakeup_from_another_thread_ends_a_wait(world: World) -> None:
    world.later(world.selectable.wakeup)

    assert world.poll().nothing


def test_a_name_is_resolved_between_polls_and_ends_a_wait(world: World) -> None:
    assert world.resolve() is None
    assert world.poll().nothing

    addresses = world.resolve()
    assert addresses
    assert addresses[0].host == "localhost"
    assert world.resolve() is None  # an answer is taken once


def test_events_are_reported_by_one_poll_only(world: World) -> None:
    peer = world.connect(1)
    peer.send(framed(b"answer"))
    world.until(lambda told: told.received)
    peer.close()
    world.until(lambda told: told.disconnected)

    assert world.poll(0.0).nothing
