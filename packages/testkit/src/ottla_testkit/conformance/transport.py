"""All that the core expects of a transport, as tests to inherit.

```python
class TestMine(TransportConformance):
    @pytest.fixture
    def transport(self):
        return MyTransport(...)

    @pytest.fixture
    def serve(self):
        return my_half_of_a_server      # gets a connected socket, returns the one that speaks as the broker
```

The tests carry every byte between the layer and its peer, so they decide how many arrive at a time, when the socket is
full, and where a connection ends. A failure says which promise was broken and what to change.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, TypeAlias

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import Interest, Target, Transport
from ottla_testkit.conformance.link import Link
from ottla_testkit.conformance.peer import Serve

Links: TypeAlias = Callable[..., Link]

AHEAD: Final = 256 * 1024
"""What a layer may take ahead of the socket, about."""

_SLACK: Final = 64 * 1024
_LOTS: Final = 2_000_000
_PLACES: Final = 12
_SOURCE: Final = random.Random(7).randbytes(256 * 1024 + 1)


class TransportConformance:
    """Inherit it under a name that pytest collects, and give the fixtures `transport` and `serve`."""

    host: ClassVar[str] = "localhost"
    """The broker's name, as `open` is told; for TLS it has to be the certificate's."""

    port: ClassVar[int] = 9092

    patience: ClassVar[float] = 10.0
    """Seconds without any progress after which a test gives up."""

    @pytest.fixture
    def transport(self) -> Transport:
        """Yours."""
        raise NotImplementedError("give a fixture `transport` that returns your Transport")

    @pytest.fixture
    def serve(self) -> Serve:
        """The other half of your handshake, on a thread of its own; without a handshake: `return lambda sock: sock`."""
        raise NotImplementedError("give a fixture `serve` that returns a function from socket to socket")

    @pytest.fixture
    def links(self, transport: Transport, serve: Serve) -> Iterator[Links]:
        """Makes connections, with their peers, and closes them in the end."""
        with contextlib.ExitStack() as stack:

            def link(*, sip: int = 0) -> Link:
                made = Link(transport, serve, host=self.host, port=self.port, patience=self.patience, sip=sip)
                stack.callback(made.close)
                return made

            yield link

    # Opening

    def test_it_says_where_to_connect_and_says_so_again(self, transport: Transport) -> None:
        first, second = transport.targets(self.host, self.port), transport.targets(self.host, self.port)

        assert first == second, f"targets gave {first!r} and then {second!r}"
        assert first is None or (first and all(isinstance(target, Target) for target in first)), (
            f"targets gave {first!r}; it is None (resolve the name as usual) or some Target"
        )

    def test_a_layer_has_the_whole_contract(self, transport: Transport, links: Links) -> None:
        assert isinstance(transport, Transport), f"{transport!r} lacks a method of ottla.interfaces.Transport"
        links()

    def test_connections_know_nothing_of_each_other(self, links: Links) -> None:
        some = [links() for _ in range(5)]
        for link in reversed(some):
            link.shake_hands()
        for number, link in enumerate(some):
            link.send(b"%d" % number * 1000)
            link.peer.say(b"%d" % number * 500)

        for number, link in enumerate(some):
            self._hear(link, 500)
            self._be_heard(link, 1000)
            assert bytes(link.peer.got) == b"%d" % number * 1000, "bytes of another connection arrived"
            assert bytes(link.got) == b"%d" % number * 500, "bytes of another connection were read"

    # The handshake

    def test_a_handshake_goes_on_whenever_the_socket_says_so(self, links: Links) -> None:
        link = links()
        link.shake_hands()

        assert link.handshake(), "handshake was True and is False when asked again"

    def test_a_handshake_that_waits_says_what_it_waits_for(self, links: Links) -> None:
        link = links()
        if link.handshake():
            return
        for _ in range(5):
            assert link.interest(), (
                "handshake is not done and interest() is NONE: nobody would ever wake this connection"
            )
            assert not link.handshake(), "handshake became True though nothing arrived"
        link.shake_hands()

    def test_a_handshake_takes_bytes_one_by_one(self, links: Links) -> None:
        link = links()
        link.shake_hands(to_peer=1, to_layer=1)

        link.peer.say(b"welcome")
        self._hear(link, 7)
        assert bytes(link.got) == b"welcome", f"after a slow handshake the layer read {bytes(link.got)!r}"

    def test_a_handshake_gets_along_with_a_socket_that_takes_a_byte_at_a_time(self, links: Links) -> None:
        link = links(sip=1)
        link.shake_hands()

        link.send(b"hello")
        link.peer.say(b"welcome")
        self._be_heard(link, 5)
        self._hear(link, 7)

    def test_words_that_come_with_the_end_of_the_handshake_are_not_lost(self, links: Links) -> None:
        link = links()
        link.peer.say(b"welcome" * 100)
        self._hear(link, 700)

        assert bytes(link.got) == b"welcome" * 100, "what came right after the handshake was lost or changed"

    def test_an_end_at_any_place_of_the_handshake_is_told(self, links: Links) -> None:
        length = self._handshake_length(links)
        for reset in (False, True):
            for place in _places(length):
                link = links()
                self._carry_to_layer(link, place)
                link.cable.cut(reset=reset)

                how = "a reset" if reset else "an end"
                self._expect_the_end(link, f"{how} after {place} of the handshake's {length} bytes to the layer")
                link.close_layer()

    def test_a_stranger_is_told_by_an_error_and_no_other_way(self, links: Links) -> None:
        chance = _chance()
        for size in (1, 5, 300, 100_000):
            link = links()
            link.cable.to_layer.held += chance.randbytes(size)
            self._let_it_read(link)
            link.cable.cut(reset=False)
            self._expect_the_end(link, f"a stranger that says {size} bytes and hangs up")

    def test_bytes_changed_on_their_way_never_crash_the_layer(self, links: Links) -> None:
        length = self._handshake_length(links)
        chance = _chance()
        for place in _places(length):
            link = links()
            self._carry_to_layer(link, place)
            link.cable.to_layer.held += chance.randbytes(50)
            self._let_it_read(link)
            link.cable.cut(reset=True)
            self._expect_the_end(link, f"a handshake that is changed after {place} bytes")

    # Bytes out

    def test_chunks_of_any_kind_and_size_go_out_in_order(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        chance = _chance()
        sizes = [1, 0, 61, 16_384, 3, 300_000, 0, *(chance.randrange(40) for _ in range(2000)), 70_000]
        kinds = (bytes, bytearray, memoryview)
        chunks = [chance.choice(kinds)(chance.randbytes(size)) for size in sizes]
        wanted = b"".join(chunks)
        link.send(*chunks)
        self._be_heard(link, len(wanted))

        assert bytes(link.peer.got) == wanted, "the peer got other bytes than those that were written"

    def test_bytes_that_were_not_taken_go_out_later_and_once(self, links: Links) -> None:
        link = links(sip=7)
        link.shake_hands()
        wanted = bytes(range(256)) * 8
        link.send(wanted[:1000], wanted[1000:])
        self._be_heard(link, len(wanted))

        assert bytes(link.peer.got) == wanted, (
            "after partial writes the peer got other bytes than those that were written"
        )

    def test_a_full_socket_takes_nothing_and_waits_for_nobody(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        written = self._fill(link)

        assert link.write([b"more"]) == 0, "the socket is full, and write takes more"
        link.until(lambda: len(link.peer.got) >= written, "writing goes on when the socket has room")
        assert bytes(link.peer.got) == _pattern(written), "after the socket was full the peer got other bytes"

    def test_only_so_much_is_taken_ahead_of_the_socket(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        before = link.cable.to_peer.carried
        written = self._fill(link)
        while link.cable.carry(to_layer=0):
            pass
        in_sockets = link.cable.to_peer.carried - before

        ahead = written - in_sockets
        assert ahead <= AHEAD + _SLACK, f"{ahead} bytes were taken ahead of the socket; about {AHEAD} are allowed"

    def test_a_flush_is_true_only_when_the_socket_has_everything(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        written = self._fill(link)
        link.until(link.flush, "flushing", to_peer=4096, to_layer=0)

        self._without_layer(link, written, "flush was True, but the layer still had bytes that the socket had not")

    def test_a_write_and_a_flush_are_enough(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        for number in range(1, 50):
            link.send(b"x" * number)
            link.until(lambda: not link.sending, "flushing some bytes into an empty socket")
            self._without_layer(link, link.taken, "flush was True, but the peer did not get all")

    # Bytes in

    def test_nothing_to_read_is_none_and_not_the_end(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        for _ in range(3):
            assert link.read(100) is None, "nothing has come and the peer is there: read_into has to say None"

    def test_bytes_are_read_whatever_the_buffer(self, links: Links) -> None:
        for window, size in ((1, 3000), (7, 20_000), (100_000, 300_000)):
            link = links()
            link.window = window
            link.shake_hands()
            wanted = _pattern(size)
            link.peer.say(wanted)
            self._hear(link, size)
            assert bytes(link.got) == wanted, f"read_into with {window} bytes of buffer gave other bytes than were sent"

    def test_bytes_are_read_however_slowly_they_come(self, links: Links) -> None:
        link = links(sip=1)
        link.shake_hands()
        wanted = _pattern(2000)
        link.peer.say(wanted[:1000])
        link.until(lambda: len(link.got) >= 1000, "bytes that come one by one", to_layer=1)
        link.peer.say(wanted[1000:])
        self._hear(link, 2000)

        assert bytes(link.got) == wanted, "bytes that came one by one were lost or changed"

    def test_bytes_that_the_layer_holds_are_announced(self, links: Links) -> None:
        """The socket is empty, so `may_read` is all that the selector can go by."""
        link = links()
        link.shake_hands()
        link.window = 10
        link.peer.say(_pattern(5000))
        link.until(lambda: not link.peer.unsaid and not link.cable.to_layer.held, "carrying")
        self._hear(link, 5000)

        assert link.read(10) is None, "all was read, and read_into gives more"

    def test_lots_of_bytes_go_both_ways_at_once(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        out, back = _pattern(_LOTS), _pattern(_LOTS + 1)
        link.send(out)
        link.peer.say(back)
        link.until(
            lambda: len(link.got) >= len(back) and len(link.peer.got) >= len(out), "lots of bytes both ways"
        )  # fmt: skip

        assert bytes(link.peer.got) == out, "the peer got other bytes than those that were written"
        assert bytes(link.got) == back, "other bytes were read than the peer had sent"

    # Waiting

    def test_a_connection_without_work_lets_the_selector_sleep(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        link.send(b"hello")
        link.peer.say(b"welcome")
        self._be_heard(link, 5)
        self._hear(link, 7)
        assert link.read(100) is None, "read_into gave bytes that nobody sent"
        assert link.flush(), "everything was sent, and flush is False"

        wanted = link.interest()
        assert not wanted & Interest.WRITE, "nothing is to be sent, and interest() asks for WRITE: the selector spins"

    # The end

    def test_the_end_comes_after_all_bytes_and_stays(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        wanted = _pattern(50_000)
        link.window = 1000
        link.peer.say(wanted)
        link.until(lambda: not link.peer.unsaid, "sending before the end")
        link.peer.hang_up()
        link.until(lambda: link.ended, "the end that the peer made", peer=False)

        assert bytes(link.got) == wanted, "what was sent before the end was not all read"
        with contextlib.suppress(OSError, OttlaError):
            again = link.read(10)
            assert again == b"", f"read_into said 0, the end, and then {again!r}"

    def test_an_end_amid_bytes_is_told(self, links: Links) -> None:
        for reset in (False, True):
            link = links()
            link.shake_hands()
            self._be_amid_bytes(link)
            link.cable.cut(reset=reset)

            self._expect_the_end(link, "a reset" if reset else "an end")
            link.close_layer()

    def test_writing_to_a_peer_that_is_gone_fails_as_a_connection_does(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        link.cable.cut(reset=True)

        with contextlib.suppress(OSError, OttlaError):
            for _ in range(1000):
                link.write([bytes(100_000)])
                link.flush()
            pytest.fail("the peer is gone, and write and flush go on as if it were there")

    def test_bytes_that_were_flushed_arrive_before_the_end(self, links: Links) -> None:
        link = links()
        link.shake_hands()
        written = self._fill(link)
        link.send()
        link.until(lambda: not link.sending, "flushing", to_peer=4096)
        link.close_layer()
        link.ended = True
        link.until(lambda: link.peer.ended, "the end that the layer made")

        assert bytes(link.peer.got) == _pattern(written), "close took away bytes that were flushed"

    def test_closing_works_at_any_time_and_again(self, links: Links) -> None:
        for prepare in (_nothing, _one_call, _half_a_handshake, _handshake, _full_socket, _reset, _error_seen):
            link = links()
            with contextlib.suppress(OSError, OttlaError):
                prepare(link, self._fill)
            link.close_layer()
            assert link.cable.ours.fileno() == -1, f"close left the socket open ({prepare.__name__.strip('_')})"
            link.close_layer()

    # Helpers

    def _hear(self, link: Link, size: int) -> None:
        link.until(lambda: len(link.got) >= size, f"reading {size} bytes")

    def _be_heard(self, link: Link, size: int) -> None:
        link.until(lambda: len(link.peer.got) >= size and not link.sending, f"writing {size} bytes")

    def _fill(self, link: Link) -> int:
        """Write until the layer takes no more, which nobody helps it with; how much that was."""
        most = 64 * AHEAD
        while (chunk := _pattern(link.taken + 500_000)[link.taken :]) and link.write([chunk]):
            link.flush()
            assert link.taken <= most, f"write took {link.taken} bytes that nobody read: it has no limit"
        return link.taken

    def _without_layer(self, link: Link, size: int, what: str) -> None:
        """Let the peer hear *size* bytes, the layer not being asked for anything."""
        link.until(lambda: len(link.peer.got) >= size, what, layer=False)

    def _handshake_length(self, links: Links) -> int:
        link = links()
        link.shake_hands()
        return link.cable.to_layer.carried

    def _carry_to_layer(self, link: Link, size: int) -> None:
        """So many bytes of the peer's handshake, and no more."""
        lane = link.cable.to_layer
        lane.end = size
        with contextlib.suppress(OSError, OttlaError):
            # Handshakes are not all of one length: signatures are not.
            link.until(lambda: lane.carried >= size or link.shaken, "the handshake")
        link.visit()
        lane.end = None

    def _be_amid_bytes(self, link: Link) -> None:
        link.send(_pattern(_LOTS))
        link.peer.say(_pattern(_LOTS))
        link.until(lambda: len(link.got) > 100_000 or link.taken > 100_000, "lots of bytes both ways")

    def _let_it_read(self, link: Link) -> None:
        """Whatever is on its way to the layer, unless that ends the connection."""
        with contextlib.suppress(OSError, OttlaError):
            link.until(lambda: not link.cable.to_layer.held, "reading what a stranger says", peer=False)

    def _expect_the_end(self, link: Link, what: str) -> None:
        with contextlib.suppress(OSError, OttlaError):
            link.until(lambda: link.ended, f"{what} was not told", peer=False)


def _nothing(link: Link, fill: Callable[[Link], int]) -> None:
    """Right after `open`."""


def _one_call(link: Link, fill: Callable[[Link], int]) -> None:
    link.handshake()


def _half_a_handshake(link: Link, fill: Callable[[Link], int]) -> None:
    link.visit()
    link.cable.carry()
    link.visit()


def _handshake(link: Link, fill: Callable[[Link], int]) -> None:
    link.shake_hands()


def _full_socket(link: Link, fill: Callable[[Link], int]) -> None:
    link.shake_hands()
    fill(link)


def _reset(link: Link, fill: Callable[[Link], int]) -> None:
    link.shake_hands()
    link.cable.cut(reset=True)


def _error_seen(link: Link, fill: Callable[[Link], int]) -> None:
    link.shake_hands()
    link.cable.cut(reset=True)
    link.until(lambda: link.ended, "a reset", peer=False)


def _pattern(size: int) -> bytes:
    """The same bytes each time, repeated after 256 kB."""
    return (_SOURCE * (size // len(_SOURCE) + 1))[:size]


def _places(length: int) -> list[int]:
    """The first and last bytes of so many, and some between."""
    chance = _chance()
    between = chance.sample(range(length + 1), min(_PLACES, length + 1))
    return sorted({0, min(1, length), max(length - 1, 0), *between})


def _chance() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)
