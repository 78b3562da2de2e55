"""The requirements for the bytes that a transport layer writes and reads."""

from __future__ import annotations

import contextlib
import random
from typing import Final

import pytest

from ottla.errors import OttlaError
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.session import compare
from ottla_testkit.conformance.harness.transport_connections import Begin, TransportConnections

AHEAD: Final = 256 * 1024
_ABOUT: Final = 16 * 1024
_MANY: Final = 10_000_000
_NOT_WRITTEN: Final = "what the far end got is not what was written"
_NOT_AS_SENT: Final = "what was read is not what the far end sent"


class DataRequirements(TransportConnections):
    """The requirements of `TransportConformance` for bytes that are written and read."""

    # Writing

    def test_chunks_of_any_kind_and_size_arrive_in_order(self, begin: Begin, chance: random.Random) -> None:
        session = begin()
        session.open()
        parts = [chance.randbytes(size) for size in (1, 61, 700_000, 17, 16_384, AHEAD, 2, 300_000)]
        small = [chance.randbytes(3) for _ in range(3000)]
        session.send(parts[0], bytearray(parts[1]), memoryview(parts[2]), *parts[3:], *small)
        whole = b"".join(parts + small)
        session.until(
            lambda: session.all_taken and len(session.peer.received) >= len(whole),
            "what was written has not all arrived",
        )
        compare(bytes(session.peer.received), whole, _NOT_WRITTEN)

    def test_writing_nothing_writes_nothing(self, begin: Begin) -> None:
        session = begin()
        session.open()
        check(session.layer.write([]) == 0, "write([]) took something")
        check(session.layer.write([b"", memoryview(b"")]) == 0, "write() of empty chunks took something")
        check(session.layer.flush(), "nothing was written, and flush() says that something waits")

    def test_a_peer_that_does_not_read_lets_the_layer_buffer_at_most_256_kb(self, begin: Begin) -> None:
        session = begin()
        session.open()
        taken = session.fill()
        check(session.layer.write([b"more"]) == 0, "write() took bytes although it had just said that it is full")
        gone = session.wire.from_layer.carried
        maximum = AHEAD + _ABOUT
        check(
            session.comes_alone(lambda: taken - (session.wire.from_layer.carried - gone) <= maximum),
            f"{taken - (session.wire.from_layer.carried - gone)} bytes were taken ahead of the socket; about {AHEAD} "
            "are the maximum, because they are not charged to any memory limit",
        )

    def test_writing_continues_when_a_full_socket_is_drained(self, begin: Begin) -> None:
        session = begin()
        session.open()
        pattern = bytes(range(256)) * 4096
        session.send(*[pattern] * 4)
        for _ in range(50):  # the peer does nothing
            session.turn_of_the_layer()
        session.until(
            lambda: session.all_taken and len(session.peer.received) >= len(pattern) * 4, "writing does not go on"
        )
        compare(bytes(session.peer.received), pattern * 4, _NOT_WRITTEN)

    def test_flush_is_true_only_if_nothing_is_buffered(self, begin: Begin, chance: random.Random) -> None:
        session = begin()
        session.open()
        written = 0
        for _ in range(60):
            written += session.layer.write([chance.randbytes(chance.randrange(1, 100_000))])
            if session.layer.flush():
                session.arrives_alone(written)
            else:
                session.turn_of_the_wire()

    def test_a_flush_ends_once_the_peer_reads(self, begin: Begin) -> None:
        session = begin()
        session.open()
        written = session.fill()
        session.send(b"!")
        session.until(lambda: session.all_taken, "flush() never says that everything has left")
        session.arrives_alone(written + 1)

    # Reading

    def test_a_silent_peer_gives_none_and_not_the_end(self, begin: Begin) -> None:
        session = begin()
        session.open()
        session.exchange(b"ping", b"pong")
        for _ in range(3):
            got = session.read(100)
            check(got != b"", "read_into() returned 0 while the peer is silent: 0 is for a peer that has closed")
            check(got is None, f"read_into() gave {got!r}, which the peer never said")

    def test_a_lower_layer_that_may_always_read_is_read_until_it_has_none(self, begin: Begin) -> None:
        session = begin(always_may_read=True)
        session.open()
        session.exchange(b"ping", b"pong")
        check(session.read(100) is None, "read_into() gave bytes, and the peer is silent")

    @pytest.mark.parametrize("read_size", [1, 7, 4096])
    def test_reads_of_any_size_return_every_byte_once_without_an_event(
        self, begin: Begin, chance: random.Random, read_size: int
    ) -> None:
        session = begin()
        session.open()
        session.read_size = read_size
        said = chance.randbytes(read_size * 300)
        session.peer.write(said)
        session.until(
            lambda: len(session.received) >= len(said),
            "bytes have come that are not read (when the layer holds some, may_read() must say so)",
        )
        compare(bytes(session.received), said, _NOT_AS_SENT)

    def test_the_end_comes_after_the_last_byte_and_remains(self, begin: Begin) -> None:
        session = begin()
        session.open()
        last = b"last words" * 3000
        session.peer.write(last)
        session.peer.finish()
        session.until(lambda: session.over or len(session.received) >= len(last), "the peer's last words were not read")
        compare(bytes(session.received), last, _NOT_AS_SENT)
        session.until_over("the peer has ended its side in order, and read_into() does not return 0")
        check(session.ended, f"a peer that ended in order is 0 from read_into(), and not {session.failure!r}")
        with contextlib.suppress(OSError, OttlaError):
            check(not session.read(10), "read_into() gave bytes after the end")

    # Reading and writing

    def test_large_amounts_pass_in_both_directions_at_once(self, begin: Begin, chance: random.Random) -> None:
        session = begin(large_buffers=True)
        session.open()
        session.exchange(chance.randbytes(_MANY), chance.randbytes(_MANY))
