"""A broker whose answers are made from the messages' own declarations, with a hostile text in every field for text.

A field that is added to a message is filled here without a change of this module: what reads it is tested with it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import attrs

from ottla.errors import ErrorCode
from ottla.protocol import API_VERSIONS, Message
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import ArrayOf, Blob, Field, Fixed, StructOf, Text, WireType, fields_of
from wrong_peers import serving

TOPIC: Final = "t"
TRANSACTIONAL_ID: Final = "tx"
PASSWORD: Final = "hunter2/SECRET+42"
FORGED: Final = "2026-11-22 00:00:00 ERROR forged line"
FILLER: Final = "A"

_ID: Final = bytes(range(16))
_LONGEST_SHORT: Final = 32_767
_LONG: Final = 1_000_000

NAMES: Final[Mapping[str, str]] = {
    "name": TOPIC,
    "topic": TOPIC,
    "key": TRANSACTIONAL_ID,
    "group_id": TRANSACTIONAL_ID,
    "transactional_id": TRANSACTIONAL_ID,
    "transaction_state": "Ongoing",
    "mechanisms": "X-PLAIN",
}
"""Text fields that a client compares with what it has asked for; `host` is one more."""

_NUMBERS: Final[Mapping[str, int]] = {
    "leader_epoch": 1,
    "committed_offset": 5,
    "producer_id": 7,
    "transaction_timeout_ms": 60_000,
    "topic_authorized_operations": -(2**31),
    "cluster_authorized_operations": -(2**31),
    "max_version_level": 2,
    "finalized_features_epoch": 1,
}


def hostile_text(size: int) -> str:
    """Escape sequences, line breaks, bidirectional and invisible characters, markup, the password, and no end."""
    words = f"\x1b[2J\x1b]0;pwned\x07\r\n{FORGED}\r\u202e\u200b\u2028[bold red]x[/] it was {PASSWORD}, \u0301"
    return words + FILLER * (size - len(words.encode()))


@attrs.define(kw_only=True)
class HostileBroker:
    """One broker that leads topic `t`, coordinates everything and lets in who logs in by X-PLAIN.

    The answers of the API *spoilt* have hostile texts: where nothing is compared, and behind the right beginning in the
    fields *names*; and *code* where they have an error code. Versions above those of *newest* are not offered.
    """

    spoilt: int
    names: Collection[str] = ()
    code: ErrorCode = ErrorCode.NONE
    newest: Mapping[int, int] = attrs.Factory(dict)
    asked: set[int] = attrs.Factory(set)
    address: tuple[str, int] = ("", 0)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, for as long as the block lasts."""
        with serving(self._serve_connection) as (host, port):
            self.address = (host, port)
            yield f"{host}:{port}"

    def _serve_connection(self, peer: Any) -> None:
        with suppress(EOFError):
            while True:
                [size] = struct.unpack(">i", _exactly(peer, 4))
                frame = _exactly(peer, size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                message = next(each for each in MESSAGES if each.key == key)
                self.asked.add(key)
                peer.sendall(self._framed(message, version, correlation_id))

    def _framed(self, message: Message[Any, Any], version: int, correlation_id: int) -> bytes:
        value = _Filler(self, message, version).struct(message.response_type)
        if message is API_VERSIONS:
            value.api_keys = [
                type(value.api_keys[0])(
                    api_key=each.key,
                    min_version=each.min_version,
                    max_version=self.newest.get(each.key, each.max_version),
                )
                for each in MESSAGES
            ]
        body = message.response(version).encode(value)
        tags = bytes(message.flexible_response_header and message.flexible(version))
        answer = correlation_id.to_bytes(4, "big") + tags + body
        return len(answer).to_bytes(4, "big") + answer


@attrs.frozen
class _Filler:
    """Values for all that a version of a response has."""

    broker: HostileBroker
    message: Message[Any, Any]
    version: int

    def struct(self, kind: type) -> Any:
        made = kind()
        for field in fields_of(kind):
            if self.version in field.versions:
                setattr(made, field.name, self._value(field, field.type))
        return made

    def _value(self, field: Field, kind: WireType) -> Any:
        match kind:
            case Text():
                return self._text(field.name)
            case ArrayOf(item=item):
                return [self._value(field, item)]
            case StructOf(type=struct_type):
                return self.struct(struct_type)
            case Blob():
                return b""
            case Fixed(format="16s"):
                return _ID
            case Fixed(format="?"):
                return False
            case Fixed():
                return self._number(field.name)

    def _number(self, name: str) -> int:
        if name.endswith("error_code"):
            return self.broker.code if self.message.key == self.broker.spoilt else ErrorCode.NONE
        if name == "port":
            return self.broker.address[1]
        return _NUMBERS.get(name, 0)

    def _text(self, name: str) -> str:
        spoilt = self.message.key == self.broker.spoilt
        fitting = self.broker.address[0] if name == "host" else NAMES.get(name)
        if not spoilt or (fitting is not None and name not in self.broker.names):
            return fitting or ""
        # SaslHandshake has no compact strings in any version.
        size = _LONG if self.message.flexible(self.version) else _LONGEST_SHORT
        beginning = fitting or ""
        return beginning + hostile_text(size - len(beginning))


def text_fields(kind: type) -> Iterator[str]:
    """The names of all fields for text in a struct, and in those within it."""
    for field in fields_of(kind):
        inner: WireType = field.type
        while isinstance(inner, ArrayOf):
            inner = inner.item
        if isinstance(inner, Text):
            yield field.name
        elif isinstance(inner, StructOf):
            yield from text_fields(inner.type)


def _exactly(peer: Any, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = peer.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return bytes(got)
