"""The few requests that a cluster of tests needs, each on a socket of its own.

So the harness needs no Kafka client. Metadata v4, CreateTopics v4 and ListOffsets v1 are older than flexible
encoding and known to 4.x brokers. Metadata asks for no topic to be created.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

import attrs

Address = tuple[str, int]

LIST_OFFSETS = 2
METADATA = 3
CREATE_TOPICS = 19
ANSWER_WITHIN = 20.0  # seconds


@attrs.frozen(kw_only=True)
class Metadata:
    """The ids of the brokers that a node knows, and the leaders (-1: none) of the topic asked for."""

    brokers: frozenset[int]
    leaders: dict[int, int]


@attrs.frozen(kw_only=True)
class Refusal:
    """The error code and text with which a broker refused a request."""

    code: int
    message: str


def metadata(address: Address, *, topic: str | None = None, timeout: float = ANSWER_WITHIN) -> Metadata:
    """What a node knows; `OSError` when it does not answer in time."""
    topics = [] if topic is None else [topic]
    body = struct.pack(">i", len(topics)) + b"".join(map(_string, topics)) + b"\0"
    answer = _Fields(_call(address, METADATA, 4, body, timeout))
    answer.number("i")  # throttle time
    brokers = frozenset(_broker(answer) for _ in range(answer.number("i")))
    answer.string()  # cluster id
    answer.number("i")  # controller
    leaders: dict[int, int] = {}
    for _ in range(answer.number("i")):
        answer.number("h")
        answer.string()
        answer.number("b")
        leaders |= dict(_partition(answer) for _ in range(answer.number("i")))
    return Metadata(brokers=brokers, leaders=leaders)


def create_topic(
    address: Address, topic: str, *, partitions: int, replication: int, config: Mapping[str, str]
) -> Refusal | None:
    """Create a topic; None when it was created, which other nodes learn a little later."""
    settings = b"".join(_string(key) + _string(value) for key, value in config.items())
    wanted = _string(topic) + struct.pack(">ihii", partitions, replication, 0, len(config)) + settings
    within = struct.pack(">ib", int(ANSWER_WITHIN * 1000), 0)
    answer = _Fields(_call(address, CREATE_TOPICS, 4, struct.pack(">i", 1) + wanted + within, 2 * ANSWER_WITHIN))
    answer.number("i")  # throttle time
    answer.number("i")  # one topic
    answer.string()
    code, message = answer.number("h"), answer.string()
    return Refusal(code=code, message=message or "") if code else None


def end_offsets(
    address: Address, topic: str, partitions: Sequence[int], *, timeout: float = ANSWER_WITHIN
) -> dict[int, int]:
    """The offsets that come next in those of the partitions that this node serves as their leader."""
    if not partitions:
        return {}
    latest = b"".join(struct.pack(">iq", partition, -1) for partition in partitions)
    body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">i", len(partitions)) + latest
    answer = _Fields(_call(address, LIST_OFFSETS, 1, body, timeout))
    answer.number("i")  # one topic
    answer.string()
    found = [_offset(answer) for _ in range(answer.number("i"))]
    return {partition: offset for partition, error, offset in found if not error}


def _call(address: Address, api_key: int, version: int, body: bytes, timeout: float) -> bytes:
    """The body of the answer, past its header v0."""
    request = struct.pack(">hhih", api_key, version, 1, -1) + body
    with socket.create_connection(address, timeout) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        length = _Fields(_exactly(4, answers.read(4))).number("i")
        return _exactly(length, answers.read(length))[4:]


def _exactly(length: int, received: bytes) -> bytes:
    if len(received) != length:
        raise ConnectionResetError(f"the broker closed the connection after {len(received)} of {length} bytes")
    return received


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _broker(answer: _Fields) -> int:
    number = answer.number("i")
    answer.string()
    answer.number("i")
    answer.string()
    return number


def _partition(answer: _Fields) -> tuple[int, int]:
    answer.number("h")
    partition, leader = answer.number("i"), answer.number("i")
    for _ in ("replicas", "in-sync replicas"):
        for _ in range(answer.number("i")):
            answer.number("i")
    return partition, leader


def _offset(answer: _Fields) -> tuple[int, int, int]:
    partition, error = answer.number("i"), answer.number("h")
    answer.number("q")  # timestamp
    return partition, error, answer.number("q")


class _Fields:
    """The big-endian fields of an answer, in turn."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        value: int = struct.unpack_from(">" + code, self._data, self._at)[0]
        self._at += struct.calcsize(">" + code)
        return value

    def string(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()
