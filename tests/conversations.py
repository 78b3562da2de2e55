"""The same requests to a real broker and to a simulated one, and their responses in a form that can be compared.

Requests are values of `ottla.protocol` or bytes, also wrong ones. A response is written down with names instead of
what differs between any two clusters: ids of producers and topics, hosts, ports, offsets behind markers.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Hashable, Sequence
from typing import Any, Final, Protocol

import attrs

from ottla.errors import ErrorCode, error_code
from ottla.protocol import Message, read_response_header, request_header
from ottla.protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest
from ottla.protocol.notation import ZERO_UUID
from ottla_testkit.kafka_cluster.admin_requests import Address
from ottla_testkit.simulation import SimulatedBroker
from ottla_testkit.simulation.login import HangUpError, Session
from ottla_testkit.simulation.pending_response import content_of

CLOSED: Final = "the broker closed the connection"
SECONDS: Final = 20.0
CLIENT_ID: Final = "conversation"
LOOK_AGAIN: Final = 0.02

ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
"""States of transactions without an open one."""

BUSY_CODES: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Codes of a coordinator that is busy with the end of a transaction, or with its own beginning."""

UNNAMED: Final = frozenset({"throttle_time_ms", "cluster_id", "finalized_features_epoch", "zk_migration_ready"})
"""Fields that say nothing about a request."""

UNORDERED: Final = frozenset(
    {"topics", "api_keys", "responses", "partition_responses", "results_by_topic_v3_and_below"}
)
"""Lists whose order means nothing."""

TEXTS: Final = frozenset({"error_message", "batch_index_error_message"})
"""Texts for people: a response has one, or has none."""


class Peer(Protocol):
    """A broker."""

    def exchange(self, frame: bytes) -> bytes | None:
        """Return the response to a request, both without their sizes; None if the broker closes the connection."""

    def send(self, frame: bytes) -> None:
        """Send a request that gets no response. If the broker closes the connection, the next request notices that."""

    def await_end(self, transactional_id: str) -> None:
        """Wait until no transaction of this id is open, and all markers of the last one are written."""


@attrs.define
class RealPeer:
    """A real broker, with one connection that is opened again after it was closed."""

    address: Address
    _socket: socket.socket | None = None

    def exchange(self, frame: bytes) -> bytes | None:
        try:
            self.send(frame)
            [size] = struct.unpack(">i", self._read(4))
            return self._read(size)
        except ConnectionError:
            self.close()
            return None

    def send(self, frame: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self.address, timeout=SECONDS)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def await_end(self, transactional_id: str) -> None:
        request = DESCRIBE_TRANSACTIONS.request(0).encode(
            DescribeTransactionsRequest(transactional_ids=[transactional_id])
        )
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self.exchange(request_header(DESCRIBE_TRANSACTIONS, 0, 7, CLIENT_ID) + request)
            assert answer is not None, "no transaction can be described"
            _correlation_id, offset = read_response_header(DESCRIBE_TRANSACTIONS, 0, answer)
            [found] = DESCRIBE_TRANSACTIONS.response(0).decode(memoryview(answer)[offset:]).transaction_states
            if found.transaction_state in ENDED:
                return
            assert time.monotonic() < deadline, f"the transaction of {transactional_id} is {found.transaction_state}"
            time.sleep(LOOK_AGAIN)

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise ConnectionResetError
            found += part
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@attrs.define
class SimulatedPeer:
    """A simulated broker, with one connection."""

    broker: SimulatedBroker
    _session: Session | None = attrs.field(factory=Session)

    def exchange(self, frame: bytes) -> bytes | None:
        response = None if self._session is None else self._respond(self._session, frame)
        if self._session is None:
            self._session = Session()
        return response

    def send(self, frame: bytes) -> None:
        assert self._session is not None, "one request without a response after the other"
        assert self._respond(self._session, frame) is None

    def await_end(self, transactional_id: str) -> None:
        """Markers are written at once."""

    def _respond(self, session: Session, frame: bytes) -> bytes | None:
        try:
            response = self.broker.respond(session, frame, 0.0)
        except HangUpError:
            self._session = None
            return None
        return content_of(response)


@attrs.define
class Conversation:
    """Requests to a peer. `lines` has each request's name and its response."""

    peer: Peer
    lines: list[str] = attrs.field(factory=list)
    names: dict[tuple[str, Hashable], str] = attrs.field(factory=dict)
    exact_offsets: bool = True

    def ask(
        self, title: str, message: Message[Any, Any], version: int, request: object, *, until_not_busy: bool = False
    ) -> Any:
        """Send a request, and note the response; *until_not_busy*: the first one that is not of a busy coordinator.

        None if the broker closes the connection.
        """
        body = request if isinstance(request, bytes) else message.request(version).encode(request)
        deadline = time.monotonic() + SECONDS
        while True:
            response = self._exchange(message, version, body)
            if not until_not_busy or not BUSY_CODES & set(codes(response)):
                break
            assert time.monotonic() < deadline, f"{title}: {shown(self, response)}"
            time.sleep(LOOK_AGAIN)
        self.lines.append(f"{title} ({message.name} {version}): {shown(self, response)}")
        return response

    def tell(self, message: Message[Any, Any], version: int, request: object) -> None:
        """Send a request without a response; the next one notices if the broker closes the connection."""
        self.peer.send(request_header(message, version, 7, CLIENT_ID) + message.request(version).encode(request))

    def ask_raw(self, title: str, frame: bytes) -> None:
        """Send any bytes, and note whether the broker closes the connection."""
        self.lines.append(f"{title}: {CLOSED if self.peer.exchange(frame) is None else 'a response'}")

    def _exchange(self, message: Message[Any, Any], version: int, body: bytes) -> Any:
        answer = self.peer.exchange(request_header(message, version, 7, CLIENT_ID) + body)
        if answer is None:
            return None
        if not message.min_version <= version <= message.max_version:
            version = 0  # an ApiVersions response for a version that the broker does not know
        _correlation_id, offset = read_response_header(message, version, answer)
        return message.response(version).decode(memoryview(answer)[offset:])

    def name(self, kind: str, value: Hashable) -> str:
        """Return a name for a value: the first one of its kind is 1, and so on."""
        count = sum(known == kind for known, _value in self.names)
        return self.names.setdefault((kind, value), f"{kind} {count + 1}")


def codes(value: Any) -> Sequence[int]:
    """Return the error codes in a response."""
    if isinstance(value, list):
        return [code for each in value for code in codes(each)]
    if not attrs.has(type(value)):
        return []
    found = [getattr(value, each.name) for each in attrs.fields(type(value)) if each.name.endswith("error_code")]
    inner = [getattr(value, each.name) for each in attrs.fields(type(value))]
    return [*found, *codes(inner)]


def shown(conversation: Conversation, value: Any, field: str = "", place: Hashable = None) -> str:
    """Return a response as text, without what has its usual value."""
    if value is None and not field:
        return CLOSED
    if isinstance(value, list):
        texts = [shown(conversation, each, field, place) for each in value]
        return f"[{', '.join(sorted(texts) if field in UNORDERED else texts)}]"
    if attrs.has(type(value)):
        fields = {each.name: getattr(value, each.name) for each in attrs.fields(type(value))}
        inner = (place, fields.get("name"), fields.get("topic_id"), fields.get("index"))
        usual = type(value)()
        parts: list[str] = []
        for name, each in fields.items():
            text = shown(conversation, each, name, inner)
            as_usual = text == shown(conversation, getattr(usual, name), name, inner)
            if name not in UNNAMED and (name.endswith("error_code") or not as_usual):
                parts.append(f"{name}={text}")
        return f"({' '.join(parts)})"
    return _plain(conversation, value, field, place)


def _plain(conversation: Conversation, value: Any, field: str, place: Hashable) -> str:
    if field.endswith("error_code"):
        return error_code(value).name
    if field in TEXTS:
        return "none" if value is None else "text"
    if field == "log_append_time_ms" and value >= 0:
        return "time"
    if field == "producer_id" and value >= 0:
        return conversation.name("producer", value)
    if field == "topic_id" and value != ZERO_UUID:
        return conversation.name("topic", bytes(value))
    if field in ("host", "port", "rack") and value not in ("", -1):
        return field
    if field == "base_offset" and value >= 0 and not conversation.exact_offsets:
        return conversation.name(f"offset in {place}", value).rpartition(" ")[2]
    return repr(value)
