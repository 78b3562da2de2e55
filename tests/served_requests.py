"""Requests and their answers as one line each, the same for all producers that mean the same.

Producer ids are numbered in the order of their first use, and batches say which records they have.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.errors import ErrorCode, error_code
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE, Message
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, GROUP
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.recordbatch.parse import parse_batches
from ottla_testkit.simulation.brokers import MESSAGES

_ROUTINE: Final = (API_VERSIONS.key, METADATA.key)

_FORMER: Final = f"-> {ErrorCode.NOT_LEADER_OR_FOLLOWER.name}"


def is_routine(frame: bytes) -> bool:
    """Return whether a request only asks for versions or metadata: when a client does that is a matter of time."""
    return int.from_bytes(frame[:2], "big") in _ROUTINE


def contents(frame: bytes, topics: Mapping[bytes, str]) -> Mapping[str, tuple[str, int] | None]:
    """Return the name of a request, and the values of the records that it contains, with their partitions.

    *topics* are the names of topics by id.
    """
    message, version, body = _parts(frame)
    if message is None:
        return {}
    found: dict[str, tuple[str, int] | None] = {message.name: None}
    if message is PRODUCE:
        for topic in message.request(version).decode(body).topic_data:
            name = topic.name or topics.get(bytes(topic.topic_id), "?")
            for data in topic.partition_data:
                for batch in parse_batches(data.records or b"", compressors={}):
                    found.update({text(record.value): (name, data.index) for record in batch.records})
    return found


def text(value: bytes | None) -> str:
    """Return the value of a record without what fills it."""
    return (value or b"").rstrip(b"\0").decode()


def collapsed(lines: Sequence[str]) -> list[str]:
    """Return the lines without repeated attempts, whose number is a matter of time.

    These are a line that repeats the one before, and a batch that goes to its former leader once more.
    """
    return [
        line
        for place, line in enumerate(lines)
        if (place == 0 or lines[place - 1] != line) and not (line.endswith(_FORMER) and line in lines[:place])
    ]


class RequestNames:
    """Names for what requests contain, in the order in which it comes."""

    def __init__(self) -> None:
        self.topics: Mapping[bytes, str] = {}
        """The names of topics by id."""
        self._producers: dict[int, str] = {}

    def producer(self, producer_id: int, epoch: int) -> str:
        """Return a short name of a producer id with its epoch."""
        if producer_id < 0:
            return "none"
        return f"{self._producers.setdefault(producer_id, f'p{len(self._producers)}')}/{epoch}"

    def request(self, broker: int, frame: bytes) -> str:
        """Return what a request asks for."""
        message, version, body = _parts(frame)
        if message is None:
            return f"{broker}: request {int.from_bytes(frame[:2], 'big')}"
        request = message.request(version).decode(body)
        content = self._produced(request) if message is PRODUCE else self._asked(request)
        anywhere = message is FIND_COORDINATOR or (message is INIT_PRODUCER_ID and request.transactional_id is None)
        return f"{'any' if anywhere else broker}: {message.name} {version}{content}"

    def response(self, frame: bytes, response: bytes | None) -> str:
        """Return the error codes of a response."""
        message, version, _body = _parts(frame)
        if response is None or message is None:
            return "no response"
        content = message.response(version).decode(response[4 + message.flexible(version) :])
        codes = list(_codes(content))
        if message.name == "InitProducerId" and not any(codes):
            return self.producer(content.producer_id, content.producer_epoch)
        if message.name == "EndTxn" and not any(codes) and content.producer_id >= 0:
            return self.producer(content.producer_id, content.producer_epoch)
        return " ".join(error_code(code).name for code in codes)

    def _produced(self, request: Any) -> str:
        parts = []
        for topic in request.topic_data:
            name = topic.name or self.topics.get(bytes(topic.topic_id), "?")
            for data in topic.partition_data:
                for batch in parse_batches(data.records or b"", compressors={}):
                    owner = self.producer(batch.producer_id, batch.epoch)
                    number = "" if owner == "none" else f" {owner} #{batch.sequence}"
                    values = ",".join(text(each.value) for each in batch.records)
                    parts.append(f" {name}-{data.index}{number} [{values}]")
        return f" acks={request.acks}" + "".join(sorted(parts))

    def _asked(self, request: Any) -> str:
        words = []
        for prefix in ("v3_and_below_", ""):
            if getattr(request, f"{prefix}producer_id", -1) >= 0:
                words.append(
                    self.producer(getattr(request, f"{prefix}producer_id"), getattr(request, f"{prefix}producer_epoch"))
                )
        if hasattr(request, "key_type"):
            words.append("group" if request.key_type == GROUP else "transaction")
        if hasattr(request, "committed"):
            words.append("commit" if request.committed else "abort")
        for topic in getattr(request, "v3_and_below_topics", ()):
            words += [f"{topic.name}-{partition}" for partition in topic.partitions]
        return "".join(f" {word}" for word in words)


def _parts(frame: bytes) -> tuple[Message[Any, Any] | None, int, bytes]:
    key, version, _correlation, client_size = struct.unpack_from(">hhih", frame)
    message = MESSAGES.get(key)
    if message is None or not message.min_version <= version <= message.max_version:
        return None, version, b""
    return message, version, frame[10 + max(client_size, 0) + message.flexible(version) :]


def _codes(content: Any) -> Sequence[int]:
    """All error codes of a response, from the outside in."""
    found: list[int] = []
    for field in getattr(content, "__attrs_attrs__", ()):
        value = getattr(content, field.name)
        if field.name.endswith("error_code"):
            found.append(value)
        elif isinstance(value, list):
            found += [code for item in value for code in _codes(item)]
    nested = [code for code in found if code]
    return nested or found[:1]
