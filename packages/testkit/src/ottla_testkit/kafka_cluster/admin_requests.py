"""The few requests that the testkit sends to brokers, each on a new connection.

So the harness needs no Kafka client. Every broker from 0.10.1 to 4.x knows Metadata v1 and ListOffsets v1, and every
broker from 0.11 on knows FindCoordinator v1. CreateTopics v1 and v2 differ in their responses: brokers before 0.11 know
only v1, 4.x brokers only v2.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

import attrs

Address = tuple[str, int]

LIST_OFFSETS = 2
METADATA = 3
FIND_COORDINATOR = 10
CREATE_TOPICS = 19
DELETE_TOPICS = 20
ANSWER_WITHIN = 20.0  # seconds


@attrs.frozen(kw_only=True)
class Metadata:
    """The brokers and the controller (-1: none) that a node knows, and the partitions of the requested topic."""

    addresses: Mapping[int, Address]
    controller: int
    partitions: dict[int, Partition]

    @property
    def brokers(self) -> frozenset[int]:
        """The ids of the brokers."""
        return frozenset(self.addresses)

    @property
    def leaders(self) -> dict[int, int]:
        """The leader of each partition, -1 where there is none."""
        return {number: partition.leader for number, partition in self.partitions.items()}


@attrs.frozen(kw_only=True)
class Partition:
    """A partition's leader (-1: none), its replicas, and its in-sync replicas."""

    leader: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


@attrs.frozen(kw_only=True)
class Refusal:
    """The error code and text with which a broker refused a request."""

    code: int
    message: str


def metadata(address: Address, *, topic: str | None = None, timeout: float = ANSWER_WITHIN) -> Metadata:
    """Return a node's metadata; `OSError` when it does not respond in time."""
    # -1 requests every topic. A request for one name may create it, which so old a version cannot prevent.
    answer = Fields(call(address, METADATA, 1, struct.pack(">i", 0 if topic is None else -1), timeout))
    addresses = dict(_broker(answer) for _ in range(answer.number("i")))
    controller = answer.number("i")
    topics = dict(_topic(answer) for _ in range(answer.number("i")))
    return Metadata(addresses=addresses, controller=controller, partitions=topics.get(topic, {}))


def create_topic(
    controller: Address, topic: str, *, api_version: int, partitions: int, replication: int, config: Mapping[str, str]
) -> Refusal | None:
    """Create a topic by CreateTopics v1 or v2; return None when it was created. Other nodes learn of it later."""
    settings = b"".join(_string(key) + _string(value) for key, value in config.items())
    wanted = _string(topic) + struct.pack(">ihii", partitions, replication, 0, len(config)) + settings
    within = struct.pack(">ib", int(ANSWER_WITHIN * 1000), 0)
    body = struct.pack(">i", 1) + wanted + within
    answer = Fields(call(controller, CREATE_TOPICS, api_version, body, 2 * ANSWER_WITHIN))
    if api_version > 1:
        answer.number("i")  # throttle time
    answer.number("i")  # one topic
    answer.string()
    code, message = answer.number("h"), answer.string()
    return Refusal(code=code, message=message or "") if code else None


def delete_topics(controller: Address, topics: Sequence[str]) -> Mapping[str, int]:
    """Delete topics by DeleteTopics v1, which brokers from 0.11 on know; return the error codes of those refused."""
    body = struct.pack(">i", len(topics)) + b"".join(map(_string, topics))
    body += struct.pack(">i", int(ANSWER_WITHIN * 1000))
    answer = Fields(call(controller, DELETE_TOPICS, 1, body, 2 * ANSWER_WITHIN))
    answer.number("i")  # throttle time
    codes = {answer.string() or "": answer.number("h") for _ in range(answer.number("i"))}
    return {topic: code for topic, code in codes.items() if code}


def end_offsets(
    address: Address, topic: str, partitions: Sequence[int], *, timeout: float = ANSWER_WITHIN
) -> dict[int, int]:
    """Return the end offsets of those of *partitions* that the node at *address* leads; the others are left out."""
    if not partitions:
        return {}
    latest = b"".join(struct.pack(">iq", partition, -1) for partition in partitions)
    body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">i", len(partitions)) + latest
    answer = Fields(call(address, LIST_OFFSETS, 1, body, timeout))
    answer.number("i")  # one topic
    answer.string()
    found = [_offset(answer) for _ in range(answer.number("i"))]
    return {partition: offset for partition, error, offset in found if not error}


def transaction_coordinator(address: Address, transactional_id: str, *, timeout: float = ANSWER_WITHIN) -> int:
    """Return the node that coordinates this id's transactions, according to a node; -1 while there is none."""
    answer = Fields(call(address, FIND_COORDINATOR, 1, _string(transactional_id) + b"\x01", timeout))
    answer.number("i")  # throttle time
    code, _message = answer.number("h"), answer.string()
    return -1 if code else answer.number("i")


def call(address: Address, api_key: int, version: int, body: bytes, timeout: float) -> bytes:
    """Send a request on a new connection, with header v1; return the response's body, without its header v0."""
    request = struct.pack(">hhih", api_key, version, 1, -1) + body
    with socket.create_connection(address, timeout) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        length = Fields(_exactly(4, answers.read(4))).number("i")
        return _exactly(length, answers.read(length))[4:]


def _exactly(length: int, received: bytes) -> bytes:
    if len(received) != length:
        raise ConnectionResetError(f"the broker closed the connection after {len(received)} of {length} bytes")
    return received


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _broker(answer: Fields) -> tuple[int, Address]:
    number = answer.number("i")
    host, port = answer.string() or "", answer.number("i")
    answer.string()  # rack
    return number, (host, port)


def _topic(answer: Fields) -> tuple[str | None, dict[int, Partition]]:
    answer.number("h")
    name = answer.string()
    answer.number("b")
    return name, dict(_partition(answer) for _ in range(answer.number("i")))


def _partition(answer: Fields) -> tuple[int, Partition]:
    answer.number("h")
    number, leader = answer.number("i"), answer.number("i")
    replicas, in_sync = (frozenset(answer.number("i") for _ in range(answer.number("i"))) for _ in range(2))
    return number, Partition(leader=leader, replicas=replicas, in_sync=in_sync)


def _offset(answer: Fields) -> tuple[int, int, int]:
    partition, error = answer.number("i"), answer.number("h")
    answer.number("q")  # timestamp
    return partition, error, answer.number("q")


class Fields:
    """Reader of a response's big-endian fields, one after the other."""

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

    def unsigned(self) -> int:
        """Read an unsigned varint, as in flexible versions."""
        value = shift = 0
        while (byte := self._data[self._at]) & 0x80:
            value |= (byte & 0x7F) << shift
            self._at, shift = self._at + 1, shift + 7
        self._at += 1
        return value | byte << shift

    def raw(self, count: int) -> bytes:
        """Read *count* bytes unchanged."""
        self._at += count
        return self._data[self._at - count : self._at]
