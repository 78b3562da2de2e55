"""All requirements for a `Transport` and its layers.

```python
class TestMine(TransportConformance):
    @pytest.fixture
    def transport(self):
        return MyTransport()

    @pytest.fixture
    def peer(self):
        return MyPeer  # takes a connected socket; PlainPeer where nothing changes the bytes
```

The suite moves the bytes between the two itself, so that it can stop them, cut them and insert others.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import Interest, Target, Transport, TransportLayer
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.peer import Peer
from ottla_testkit.conformance.harness.session import LayerSession, compare
from ottla_testkit.conformance.harness.wire import PIECE, Pair, Wire, tcp_pair

AHEAD: Final = 256 * 1024
_ABOUT: Final = 16 * 1024
_MANY: Final = 10_000_000
_CUTS: Final = 12
_SIP: Final = 512
_NOT_WRITTEN: Final = "what the far end got is not what was written"
_NOT_SAID: Final = "what was read is not what the far end sent"

MakePeer = Callable[[socket.socket], Peer]
Begin = Callable[..., LayerSession]

GARBAGE: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    b"\x00" * 600,
    b"\xff" * 600,
    b"\x15\x03\x01\x00\x02\x02\x28",
    b"\x05\xff",
)


class TransportConformance:
    """Subclass it as `Test...`, and give the fixtures `transport` and `peer`."""

    host = "localhost"
    """Host name of the broker that the layers are opened for."""
    port = 9092
    timeout = 10.0
    """Seconds after which a call fails as blocking, and an exchange as stuck."""

    @pytest.fixture
    def transport(self) -> Transport:
        """The transport under test."""
        raise NotImplementedError("give a fixture `transport` that returns your Transport")

    @pytest.fixture
    def peer(self) -> MakePeer:
        """A function that makes the peer of one connection, on a non-blocking socket."""
        raise NotImplementedError("give a fixture `peer` that returns a callable: a socket to a Peer")

    def socket_pair(self) -> Pair:
        """Two connected sockets of the kind that the transport gets."""
        return tcp_pair()

    @pytest.fixture
    def begin(self, transport: Transport, peer: MakePeer) -> Iterator[Begin]:
        """Open connections whose handshake has not begun."""
        begun: list[LayerSession] = []

        def begin(*, roomy: bool = False) -> LayerSession:
            wire = Wire(self.socket_pair, roomy=roomy)
            layer = transport.open(wire.layer_end, self.host, self.port)
            talk = LayerSession(layer=layer, wire=wire, peer=peer(wire.peer_end), timeout=self.timeout)
            begun.append(talk)
            return talk

        with contextlib.ExitStack() as stack:
            yield begin
            for talk in begun:
                stack.callback(talk.close)

    @pytest.fixture
    def chance(self) -> random.Random:
        """Random numbers; their seed is printed."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        return random.Random(seed)

    # The transport

    def test_targets_are_none_or_a_sequence_of_targets(self, transport: Transport) -> None:
        for host in (self.host, "another.example.com"):
            targets: Any = transport.targets(host, self.port)
            check(
                targets is None
                or (isinstance(targets, Sequence) and all(isinstance(target, Target) for target in targets)),
                f"targets({host!r}, {self.port}) returned {targets!r}; it must be None or a sequence of Target",
            )

    def test_it_has_every_method_of_the_contract(self, transport: Transport, peer: MakePeer) -> None:
        check(isinstance(transport, Transport), f"{transport!r} lacks a method of ottla.interfaces.Transport")
        wire = Wire(self.socket_pair, roomy=True)
        with contextlib.closing(wire):
            layer: object = transport.open(wire.layer_end, self.host, self.port)
            check(isinstance(layer, TransportLayer), f"{layer!r} lacks a method of ottla.interfaces.TransportLayer")

    def test_two_connections_do_not_disturb_each_other(self, begin: Begin) -> None:
        one, other = begin(), begin()
        one.turn()
        other.open()
        one.open()
        one.peer.write(b"for one")
        one.turn_of_the_wire()
        other.exchange(b"by the other", b"for the other")
        one.send(b"by one")
        one.until(
            lambda: one.settled and one.peer.received == b"by one" and one.received == b"for one",
            "of two connections of one transport, the first does not get its own bytes, or not only those",
        )

    # The handshake

    def test_a_handshake_with_a_silent_peer_waits_without_spinning(self, begin: Begin) -> None:
        talk = begin()
        for _ in range(3):
            if talk.layer.handshake():
                return
        interest = talk.layer.interest()
        check(
            interest is not Interest.NONE,
            "the handshake is not done, and interest() is NONE: handshake() will never be called again",
        )
        check(
            not talk.events,
            f"the peer is silent, the handshake is not done, and interest() is {interest!r}, for which the socket is "
            "ready all the time: the I/O thread would spin",
        )

    def test_a_handshake_and_later_data_work_byte_by_byte(self, begin: Begin) -> None:
        talk = begin()
        talk.piece = 1
        talk.open()
        talk.exchange(b"one byte at a time", b"and back again, one by one")

    def test_a_complete_handshake_stays_complete_and_sends_nothing_more(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        talk.exchange(b"ping", b"pong")
        response = talk.wire.from_layer.carried
        for _ in range(3):
            check(talk.layer.handshake(), "handshake() returned False after it had returned True")
        talk.turn()
        check(
            talk.wire.from_layer.carried == response,
            f"handshake() sent {talk.wire.from_layer.carried - response} bytes after it was done",
        )
        talk.exchange(b"ping", b"pong")

    def test_data_after_the_last_byte_of_the_handshake_is_not_lost(self, begin: Begin) -> None:
        talk = begin()
        talk.peer.write(b"early")
        talk.open()
        talk.until(lambda: len(talk.received) >= 5, "what the far end said right after the handshake was not read")
        check(talk.received == b"early", f"{bytes(talk.received)!r} was read, for b'early'")

    def test_a_peer_that_closes_or_crashes_anywhere_is_an_error_or_the_end(self, begin: Begin) -> None:
        whole = _length(begin())
        places = sorted({round(whole * step / _CUTS) for step in range(_CUTS + 1)} | {1, 2})
        for place in places:
            for how in (Wire.hang_up, Wire.reset):
                _cut(begin(), place, how)

    def test_garbage_instead_of_a_handshake_is_an_error_or_ignored(self, begin: Begin, chance: random.Random) -> None:
        for garbage in (*GARBAGE, *(chance.randbytes(chance.randrange(1, 600)) for _ in range(20))):
            talk = begin()
            talk.turn()
            talk.wire.to_layer.allowed = 0  # the peer's bytes do not arrive any more
            talk.wire.say(garbage)
            talk.run_out(f"a peer said {garbage[:24]!r}...")

    def test_garbage_between_bytes_of_the_peer_is_data_or_an_error(self, begin: Begin, chance: random.Random) -> None:
        for _ in range(20):
            talk = begin()
            talk.open()
            talk.exchange(b"ping", b"pong")
            talk.wire.say(chance.randbytes(chance.randrange(1, 600)))
            talk.run_out("a peer said garbage after the handshake")

    # Writing

    def test_chunks_of_any_kind_and_size_arrive_in_order(self, begin: Begin, chance: random.Random) -> None:
        talk = begin()
        talk.open()
        parts = [chance.randbytes(size) for size in (1, 61, 700_000, 17, 16_384, AHEAD, 2, 300_000)]
        small = [chance.randbytes(3) for _ in range(3000)]
        talk.send(parts[0], bytearray(parts[1]), memoryview(parts[2]), *parts[3:], *small)
        whole = b"".join(parts + small)
        talk.until(
            lambda: talk.settled and len(talk.peer.received) >= len(whole), "what was written has not all arrived"
        )
        compare(bytes(talk.peer.received), whole, _NOT_WRITTEN)

    def test_writing_nothing_writes_nothing(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        check(talk.layer.write([]) == 0, "write([]) took something")
        check(talk.layer.write([b"", memoryview(b"")]) == 0, "write() of empty chunks took something")
        check(talk.layer.flush(), "nothing was written, and flush() says that something waits")

    def test_a_peer_that_does_not_read_lets_the_layer_buffer_at_most_256_kb(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        taken = talk.fill()
        check(talk.layer.write([b"more"]) == 0, "write() took bytes although it had just said that it is full")
        gone = talk.wire.from_layer.carried
        maximum = AHEAD + _ABOUT
        check(
            talk.comes_alone(lambda: taken - (talk.wire.from_layer.carried - gone) <= maximum),
            f"{taken - (talk.wire.from_layer.carried - gone)} bytes were taken ahead of the socket; about {AHEAD} are "
            "the most, for they are in no account",
        )

    def test_writing_continues_when_a_full_socket_is_drained(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        pattern = bytes(range(256)) * 4096
        talk.send(*[pattern] * 4)
        for _ in range(50):  # the peer does nothing
            talk.turn_of_the_layer()
        talk.until(lambda: talk.settled and len(talk.peer.received) >= len(pattern) * 4, "writing does not go on")
        compare(bytes(talk.peer.received), pattern * 4, _NOT_WRITTEN)

    def test_flush_is_true_only_if_nothing_is_buffered(self, begin: Begin, chance: random.Random) -> None:
        talk = begin()
        talk.open()
        written = 0
        for _ in range(60):
            written += talk.layer.write([chance.randbytes(chance.randrange(1, 100_000))])
            if talk.layer.flush():
                talk.arrives_alone(written)
            else:
                talk.turn_of_the_wire()

    def test_a_flush_ends_once_the_peer_reads(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        written = talk.fill()
        talk.send(b"!")
        talk.until(lambda: talk.settled, "flush() never says that everything has left")
        talk.arrives_alone(written + 1)

    # Reading

    def test_a_silent_peer_gives_none_and_not_the_end(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        talk.exchange(b"ping", b"pong")
        for _ in range(3):
            got = talk.read(100)
            check(got != b"", "read_into() returned 0 while the peer is silent: 0 is for a peer that has closed")
            check(got is None, f"read_into() gave {got!r}, which the peer never said")

    @pytest.mark.parametrize("room", [1, 7, 4096])
    def test_reads_of_any_size_return_every_byte_once_without_an_event(
        self, begin: Begin, chance: random.Random, room: int
    ) -> None:
        talk = begin()
        talk.open()
        talk.room = room
        said = chance.randbytes(room * 300)
        talk.peer.write(said)
        talk.until(
            lambda: len(talk.received) >= len(said),
            "bytes have come that are not read (when the layer holds some, may_read() must say so)",
        )
        compare(bytes(talk.received), said, _NOT_SAID)

    def test_the_end_comes_after_the_last_byte_and_remains(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        last = b"last words" * 3000
        talk.peer.write(last)
        talk.peer.finish()
        talk.until(lambda: talk.over or len(talk.received) >= len(last), "the peer's last words were not read")
        compare(bytes(talk.received), last, _NOT_SAID)
        talk.until_over("the peer has ended its side in order, and read_into() does not return 0")
        check(talk.ended, f"a peer that ended in order is 0 from read_into(), and not {talk.failure!r}")
        with contextlib.suppress(OSError, OttlaError):
            check(not talk.read(10), "read_into() gave bytes after the end")

    # Reading and writing

    def test_large_amounts_pass_in_both_directions_at_once(self, begin: Begin, chance: random.Random) -> None:
        talk = begin(roomy=True)
        talk.open()
        talk.exchange(chance.randbytes(_MANY), chance.randbytes(_MANY))

    def test_an_idle_connection_causes_no_wakeups(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        talk.exchange(b"ping", b"pong")
        while talk.read(1000):
            pass
        interest = talk.layer.interest()
        check(
            not interest & Interest.WRITE,
            f"nothing waits to be written, and interest() is {interest!r}: a socket that can be written to would wake "
            "the I/O thread all the time",
        )
        check(not talk.events, "nothing happens, and the socket is ready for what the layer waits for")

    def test_details_for_the_doctor_are_pairs_of_texts(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        talk.layer.details()

    # Closing

    @pytest.mark.parametrize("stage", ["opened", "begun", "half-way", "ready", "full", "hung up", "failed"])
    def test_closing_is_possible_at_any_stage_and_more_than_once(self, begin: Begin, stage: str) -> None:
        talk = begin()
        _bring_to(stage, talk)
        talk.layer.close()
        check(talk.wire.layer_end.fileno() == -1, f"close() left the socket open (stage: {stage})")
        talk.layer.close()

    def test_the_peer_notices_a_close(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        talk.exchange(b"ping", b"pong")
        talk.layer.close()
        talk.ended = True
        talk.until(lambda: talk.peer.ended, "the peer did not see that the layer has closed", ends=True)

    def test_flushed_data_arrives_although_the_layer_closes(self, begin: Begin) -> None:
        talk = begin()
        talk.open()
        written = talk.fill()
        talk.send(b"!")
        talk.piece = _SIP  # so that the last bytes have left the layer, but not the system
        talk.until(lambda: talk.settled, "flush() never says that everything has left")
        talk.piece = PIECE
        talk.layer.close()
        if not talk.comes_alone(lambda: len(talk.peer.received) > written):
            fail(
                f"close() threw away {written + 1 - len(talk.peer.received)} bytes that flush() said had left: "
                "a reset does that"
            )


def _length(talk: LayerSession) -> int:
    """Return the number of bytes that reach the layer in a handshake and a small exchange."""
    talk.open()
    talk.exchange(b"ping", b"pong")
    return talk.wire.to_layer.carried


def _cut(talk: LayerSession, place: int, how: Callable[[Wire], None]) -> None:
    talk.wire.to_layer.allowed = place
    talk.peer.write(b"pong")
    talk.send(b"ping")
    talk.until(  # handshakes vary in length: signatures differ by some bytes
        lambda: talk.over or talk.wire.to_layer.carried >= place or talk.received == b"pong",
        f"the first {place} bytes do not come",
        ends=True,
    )
    how(talk.wire)
    talk.until_over(f"the peer was gone after {place} bytes ({how.__name__}), and the layer does not report it")


def _bring_to(stage: str, talk: LayerSession) -> None:
    if stage == "begun":
        talk.turn()
    elif stage == "half-way":
        talk.piece = 1
        for _ in range(20):
            talk.turn()
    elif stage in ("ready", "full"):
        talk.open()
        if stage == "full":
            talk.fill()
    elif stage in ("hung up", "failed"):
        talk.turn()
        talk.wire.reset()
        if stage == "failed":
            talk.until_over("the peer has crashed, and the layer does not report it")
