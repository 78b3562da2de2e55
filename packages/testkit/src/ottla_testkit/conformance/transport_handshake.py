"""The requirements for a transport layer until its connection is ready."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ottla.interfaces import Interest
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.session import LayerSession
from ottla_testkit.conformance.harness.transport_connections import Begin, TransportConnections
from ottla_testkit.conformance.harness.wire import Wire

_CUTS: Final = 12

GARBAGE: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    b"\x00" * 600,
    b"\xff" * 600,
    b"\x15\x03\x01\x00\x02\x02\x28",
    b"\x05\xff",
)


class HandshakeRequirements(TransportConnections):
    """The requirements of `TransportConformance` for handshakes."""

    def test_a_handshake_with_a_silent_peer_waits_without_spinning(self, begin: Begin) -> None:
        session = begin()
        for _ in range(3):
            if session.layer.handshake():
                return
        interest = session.layer.interest()
        check(
            interest is not Interest.NONE,
            "the handshake is not done, and interest() is NONE: handshake() will never be called again",
        )
        check(
            not session.events,
            f"the peer is silent, the handshake is not done, and interest() is {interest!r}, for which the socket is "
            "ready all the time: the I/O thread would spin",
        )

    def test_a_handshake_and_later_data_work_byte_by_byte(self, begin: Begin) -> None:
        session = begin()
        session.piece = 1
        session.open()
        session.exchange(b"one byte at a time", b"and back again, one by one")

    def test_a_complete_handshake_stays_complete_and_sends_nothing_more(self, begin: Begin) -> None:
        session = begin()
        session.open()
        session.exchange(b"ping", b"pong")
        response = session.wire.from_layer.carried
        for _ in range(3):
            check(session.layer.handshake(), "handshake() returned False after it had returned True")
        session.turn()
        check(
            session.wire.from_layer.carried == response,
            f"handshake() sent {session.wire.from_layer.carried - response} bytes after it was done",
        )
        session.exchange(b"ping", b"pong")

    def test_data_after_the_last_byte_of_the_handshake_is_not_lost(self, begin: Begin) -> None:
        session = begin()
        session.peer.write(b"early")
        session.open()
        session.until(
            lambda: len(session.received) >= 5, "what the far end said right after the handshake was not read"
        )
        check(session.received == b"early", f"{bytes(session.received)!r} was read, for b'early'")

    def test_a_peer_that_closes_or_crashes_anywhere_is_an_error_or_the_end(self, begin: Begin) -> None:
        whole = _length(begin())
        places = sorted({round(whole * step / _CUTS) for step in range(_CUTS + 1)} | {1, 2})
        for place in places:
            for how in (Wire.hang_up, Wire.reset):
                _cut(begin(), place, how)

    def test_garbage_instead_of_a_handshake_is_an_error_or_ignored(self, begin: Begin, chance: random.Random) -> None:
        for garbage in (*GARBAGE, *(chance.randbytes(chance.randrange(1, 600)) for _ in range(20))):
            begin_with_garbage(begin, garbage)

    def test_garbage_between_bytes_of_the_peer_is_data_or_an_error(self, begin: Begin, chance: random.Random) -> None:
        for _ in range(20):
            session = begin()
            session.open()
            session.exchange(b"ping", b"pong")
            session.wire.say(chance.randbytes(chance.randrange(1, 600)))
            session.run_out("a peer said garbage after the handshake")


def _length(session: LayerSession) -> int:
    """Return the number of bytes that reach the layer in a handshake and a small exchange."""
    session.open()
    session.exchange(b"ping", b"pong")
    return session.wire.to_layer.carried


def begin_with_garbage(begin: Begin, garbage: bytes) -> LayerSession:
    """Send garbage to a layer in place of the rest of its handshake, and run it until it ends."""
    session = begin()
    session.turn()
    session.wire.to_layer.allowed = 0  # the peer's bytes do not arrive any more
    session.wire.say(garbage)
    session.run_out(f"a peer said {garbage[:24]!r}...")
    return session


def _cut(session: LayerSession, place: int, how: Callable[[Wire], None]) -> None:
    session.wire.to_layer.allowed = place
    session.peer.write(b"pong")
    session.send(b"ping")
    session.until(  # handshakes vary in length: signatures differ by some bytes
        lambda: session.over or session.wire.to_layer.carried >= place or session.received == b"pong",
        f"the first {place} bytes do not come",
        ends=True,
    )
    how(session.wire)
    session.until_over(f"the peer was gone after {place} bytes ({how.__name__}), and the layer does not report it")
