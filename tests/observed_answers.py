"""The responses of brokers, as a proxy or a simulated network sees them: which request got which codes."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs

from ottla.errors import ErrorCode, error_code
from ottla.protocol import METADATA, PRODUCE, Message, read_response_header
from ottla_testkit.proxy import CuttingProxy, Direction
from ottla_testkit.simulation.brokers import MESSAGES

BY_KEY: Final = {message.key: message for message in MESSAGES.values()}


@attrs.frozen(order=True)
class Answer:
    """What a broker said in a state of the cluster: the request, its version, and what says something about it."""

    state: str
    api: str
    version: int
    said: str


class Observed:
    """The answers that were seen, and how often."""

    def __init__(self) -> None:
        self.state = ""
        self.answers: Counter[Answer] = Counter()

    def note(self, request: bytes, response: bytes) -> None:
        """Add a response; both are frames without their size."""
        key, version = struct.unpack_from(">hh", request)
        message = BY_KEY.get(key)
        if message is None:  # of logins
            return
        _correlation_id, offset = read_response_header(message, version, response)
        content = message.response(version).decode(memoryview(response)[offset:])
        for said in sorted(set(_said(message, content))):
            self.answers[Answer(self.state, message.name, version, said)] += 1


class RecordingProxy(CuttingProxy):
    """A proxy that has the responses noted that it has forwarded completely."""

    def __init__(self, target_host: str, target_port: int, observed: Observed) -> None:
        super().__init__(target_host, target_port)
        self._observed = observed
        self._tapes: dict[socket.socket, _Tape] = {}  # of the ends that have sent these bytes

    def _pair(self, client: socket.socket, target: socket.socket) -> None:
        super()._pair(client, target)
        requests: dict[int, bytes] = {}
        self._tapes[client], self._tapes[target] = _Tape(requests), _Tape(requests)

    def _send(self, end: socket.socket) -> None:
        waiting = self._waiting[end]
        super()._send(end)
        tape = self._tapes[end]
        for frame in tape.frames(waiting[: len(waiting) - len(self._waiting[end])]):
            if self._ways[end] is Direction.OUT:
                tape.requests[int.from_bytes(frame[4:8], "big")] = frame
            elif (request := tape.requests.pop(int.from_bytes(frame[:4], "big"), None)) is not None:
                self._observed.note(request, frame)


@attrs.define
class _Tape:
    """The bytes in one direction of a connection; `requests` are those without a response, by correlation id."""

    requests: dict[int, bytes]
    _rest: bytes = b""

    def frames(self, more: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete now."""
        self._rest += more
        while len(self._rest) >= 4 and len(self._rest) >= 4 + (size := int.from_bytes(self._rest[:4], "big")):
            frame, self._rest = self._rest[4 : 4 + size], self._rest[4 + size :]
            yield frame


def _said(message: Message[Any, Any], response: Any) -> Iterator[str]:
    """Yield what a response says: codes, and for Produce and Metadata what comes with them."""
    if message is PRODUCE:
        for topic in response.responses:
            for part in topic.partition_responses:
                given = [
                    *(["an offset"] if part.base_offset >= 0 else []),
                    *(["the first offset of the log"] if part.log_start_offset >= 0 else []),
                    *(["a leader"] if part.current_leader.leader_id >= 0 else []),
                    *(["a text"] if part.error_message else []),
                ]
                yield " with ".join([_name(part.error_code), *([" and ".join(given)] if given else [])])
        return
    if message is METADATA:
        for topic in response.topics:
            yield f"topic: {_name(topic.error_code)}"
            for partition in topic.partitions:
                leader = "a leader" if partition.leader_id >= 0 else "no leader"
                yield f"partition: {_name(partition.error_code)} with {leader}"
        return
    yield from map(_name, _codes(response))


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for each in value:
            yield from _codes(each)
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            content = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield content
            else:
                yield from _codes(content)


def _name(code: int) -> str:
    known = error_code(code)
    return known.name if isinstance(known, ErrorCode) else str(code)
