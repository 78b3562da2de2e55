"""A channel frames bytes, whatever pieces they come and go in."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConnectionFailedError, ProtocolMismatchError, ResponseTooLargeError
from ottla.interfaces import Buffer, Interest
from ottla.network.selector.channel import Channel


class ScriptedLayer:
    """A layer that takes and gives bytes in pieces of set sizes."""

    def __init__(self, incoming: bytes = b"", *, pieces: Sequence[int] = (), closed_by_peer: bool = False) -> None:
        self.incoming = bytearray(incoming)
        self.pieces = list(pieces)
        self.outgoing = bytearray()
        self.flushed = True
        self.closed_by_peer = closed_by_peer
        self.reads = 0

    def handshake(self) -> bool:
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        piece = self.pieces.pop(0) if self.pieces else 1 << 30
        taken = b"".join(chunks)[:piece]
        self.outgoing += taken
        return len(taken)

    def flush(self) -> bool:
        return self.flushed

    def read_into(self, buffer: memoryview) -> int | None:
        self.reads += 1
        if not self.incoming:
            return 0 if self.closed_by_peer else None
        size = min(len(buffer), self.pieces.pop(0) if self.pieces else 1 << 30, len(self.incoming))
        if size == 0:
            return None
        buffer[:size] = self.incoming[:size]
        del self.incoming[:size]
        return size

    def interest(self) -> Interest:
        return Interest.NONE

    def may_read(self) -> bool:
        return False

    def close(self) -> None:
        pass


def make_channel(layer: ScriptedLayer) -> Channel:
    channel = Channel(layer, peer="broker:9092", max_response_size=1_000)
    assert channel.handshake()
    return channel


def content(channel: Channel) -> bytes | None:
    answer = channel.read()
    return None if answer is None else bytes(answer)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.rule("selector.send.partial")
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.lists(st.integers(0, 9), max_size=300))
def test_chunks_arrive_in_order_however_the_layer_splits_them(chunks: list[bytes], pieces: list[int]) -> None:
    layer = ScriptedLayer(pieces=pieces)
    channel = make_channel(layer)
    channel.send(chunks)

    for _ in range(len(pieces) + 1):
        if channel.write():
            break

    assert bytes(layer.outgoing) == b"".join(chunks)
    assert not channel.sending


@pytest.mark.rule("selector.receive.whole")
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5), st.lists(st.integers(0, 7), max_size=200))
def test_responses_are_found_however_they_are_split(bodies: list[bytes], pieces: list[int]) -> None:
    channel = make_channel(ScriptedLayer(b"".join(map(framed, bodies)), pieces=pieces))
    answers: list[bytes] = []

    for _ in range(len(pieces) + len(bodies)):
        answer = channel.read()
        if answer is not None:
            answers.append(bytes(answer))
        if len(answers) == len(bodies):
            break

    assert answers == bodies


@pytest.mark.rule("selector.receive.one")
def test_one_read_returns_one_response_even_if_more_arrived() -> None:
    channel = make_channel(ScriptedLayer(framed(b"first") + framed(b"second")))

    assert [content(channel), content(channel), content(channel)] == [b"first", b"second", None]


@pytest.mark.rule("selector.receive.whole")
@given(st.lists(st.integers(0, 9_000), min_size=1, max_size=5), st.lists(st.integers(1, 6_000), max_size=50))
def test_responses_of_any_size_are_found_in_any_pieces(sizes: list[int], pieces: list[int]) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    layer = ScriptedLayer(b"".join(map(framed, bodies)), pieces=pieces)
    channel = Channel(layer, peer="broker:9092", max_response_size=9_000)
    assert channel.handshake()

    assert [content(channel) for _ in bodies] == bodies
    assert not channel.may_read
    assert content(channel) is None


def test_small_responses_that_arrived_together_take_one_read_of_the_layer() -> None:
    layer = ScriptedLayer(framed(b"first") + framed(b"second") + framed(b"third"))
    channel = make_channel(layer)

    assert [content(channel) for _ in range(3)] == [b"first", b"second", b"third"]
    assert layer.reads == 1


@pytest.mark.rule("selector.receive.held")
def test_bytes_read_ahead_are_announced_once_they_contain_a_size() -> None:
    layer = ScriptedLayer(framed(b"first") + framed(b"second")[:3])
    channel = make_channel(layer)
    assert not channel.may_read

    assert content(channel) == b"first"
    assert not channel.may_read  # the size itself is not here yet

    layer.incoming += framed(b"second")[3:] + framed(b"third")
    assert content(channel) == b"second"
    assert channel.may_read

    assert content(channel) == b"third"
    assert not channel.may_read


@pytest.mark.rule("selector.receive.held", "selector.receive.bounded")
def test_a_wrong_size_that_was_read_ahead_is_refused_at_once() -> None:
    channel = make_channel(ScriptedLayer(framed(b"ok") + (1_001).to_bytes(4, "big")))
    assert content(channel) == b"ok"

    assert channel.may_read
    with pytest.raises(ResponseTooLargeError):
        channel.read()


@pytest.mark.rule("selector.send.flushed")
def test_a_send_is_complete_only_when_the_layer_has_flushed() -> None:
    layer = ScriptedLayer()
    layer.flushed = False
    channel = make_channel(layer)
    channel.send([b"request"])

    assert not channel.write()
    assert channel.sending

    layer.flushed = True
    assert channel.write()


@pytest.mark.rule("selector.interest.write")
def test_the_socket_is_watched_for_writing_only_during_a_send() -> None:
    layer = ScriptedLayer(pieces=[1])
    channel = make_channel(layer)
    assert channel.interest == Interest.READ

    channel.send([b"request"])
    assert channel.interest == Interest.READ | Interest.WRITE

    assert channel.write()
    assert channel.interest == Interest.READ


def test_a_peer_that_closes_is_named_in_the_error() -> None:
    channel = make_channel(ScriptedLayer(closed_by_peer=True))

    with pytest.raises(ConnectionFailedError, match="broker:9092 closed the connection"):
        channel.read()


def test_a_response_cut_off_by_a_close_is_not_delivered() -> None:
    channel = make_channel(ScriptedLayer(framed(b"answer")[:-1], closed_by_peer=True))

    with pytest.raises(ConnectionFailedError):
        channel.read()


@pytest.mark.rule("selector.receive.room")
def test_a_large_size_takes_no_memory_before_its_bytes_arrive() -> None:
    layer = ScriptedLayer((100_000_000).to_bytes(4, "big") + bytes(10))
    channel = Channel(layer, peer="broker:9092", max_response_size=100_000_000)
    channel.handshake()
    tracemalloc.start()

    assert channel.read() is None

    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000


@pytest.mark.rule("selector.receive.room")
@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1 << 21, 5_000_000])
def test_the_buffer_of_a_large_response_grows_as_bytes_arrive(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    channel = Channel(
        ScriptedLayer(framed(body) + framed(b"next"), pieces=[3, 9, 700_001]), peer="b:1", max_response_size=size
    )
    channel.handshake()

    assert content(channel) == body
    assert content(channel) == b"next"


@pytest.mark.rule("selector.receive.bounded")
@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", (1_001).to_bytes(4, "big")])
def test_an_impossible_size_is_refused_before_memory_is_allocated(prefix: bytes) -> None:
    channel = make_channel(ScriptedLayer(prefix + b"rest"))

    with pytest.raises(ProtocolMismatchError, match="no Kafka listener"):
        channel.read()


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        (b"\x15\x03\x03\x00", "a TLS alert.*security.protocol=SSL"),
        (b"\x15\x03\x01\x00", "a TLS alert"),
        (b"\x16\x03\x03\x00", "a TLS handshake.*security.protocol=SSL"),
        (b"HTTP", "a web server.*bootstrap.servers"),
        (b"SSH-", "an SSH server"),
        (b"\x15\x02\x03\x00", "no Kafka listener"),
    ],
)
def test_other_protocols_are_recognised_and_the_error_has_a_remedy(first: bytes, reported: str) -> None:
    channel = make_channel(ScriptedLayer(first + b"rest"))

    with pytest.raises(ProtocolMismatchError, match=reported):
        channel.read()


@pytest.mark.rule("selector.receive.bounded")
def test_a_response_above_the_limit_is_refused_after_earlier_responses() -> None:
    channel = make_channel(ScriptedLayer(framed(b"ok") + framed(bytes(1_000)) + (1_001).to_bytes(4, "big")))
    assert content(channel) == b"ok"
    assert content(channel) == bytes(1_000)

    with pytest.raises(ResponseTooLargeError, match=r"1001 bytes, and receive\.message\.max\.bytes allows 1000"):
        channel.read()


def test_a_negative_size_is_not_kafka_even_after_a_response() -> None:
    channel = make_channel(ScriptedLayer(framed(b"ok") + b"\xff\xff\xff\xff"))
    assert content(channel) == b"ok"

    with pytest.raises(ProtocolMismatchError, match="no Kafka listener"):
        channel.read()


def test_an_empty_response_is_delivered() -> None:
    channel = make_channel(ScriptedLayer(framed(b"")))

    assert content(channel) == b""
