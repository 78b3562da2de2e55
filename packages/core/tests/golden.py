"""The messages that Kafka's Java client encoded, as cases with our values and their bytes."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from ottla.protocol import Codec, Message
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import ArrayOf, Blob, Fixed, StructOf, WireType, fields_of

VECTORS = Path(__file__).parent / "vectors"
KINDS = ("request", "response")
CORRELATION_ID = 0x01020304
CLIENT_ID = "client-é"


@attrs.frozen(kw_only=True)
class Case:
    """One message; `with_unknown_tag` and `header` are None where the file has none."""

    message: Message[Any, Any]
    kind: str
    version: int
    label: str
    body: bytes
    content: dict[str, Any]
    with_unknown_tag: bytes | None
    header: bytes | None

    @property
    def codec(self) -> Codec[Any]:
        return codec_of(self.message, self.kind, self.version)

    def value(self) -> Any:
        """The message as our structs, as a new copy."""
        return _struct(root_of(self.message, self.kind), self.content, self.version)


@functools.cache
def cases(message: Message[Any, Any], kind: str) -> tuple[Case, ...]:
    """The cases of one file."""
    return tuple(_case(message, kind, found) for found in _load(f"api_{message.name}_{kind}.json")["cases"])


def all_cases() -> Iterator[Case]:
    """The cases of all files."""
    for message in MESSAGES:
        for kind in KINDS:
            yield from cases(message, kind)


def files() -> set[tuple[str, str]]:
    """The name and kind of each file that is there."""
    found = (re.fullmatch(r"api_(\w+)_(request|response)", path.stem) for path in VECTORS.glob("api_*.json"))
    return {(match[1], match[2]) for match in found if match}


def schemas() -> dict[str, Any]:
    """Kafka's own schemas, those of 4.3.0 together with what 3.9.1 still had, by the names of the APIs."""
    schemas: dict[str, Any] = _load("api_schemas.json")
    return schemas


def codec_of(message: Message[Any, Any], kind: str, version: int) -> Codec[Any]:
    """A codec by the kind's name."""
    return message.request(version) if kind == "request" else message.response(version)


def root_of(message: Message[Any, Any], kind: str) -> type[Any]:
    """A struct by the kind's name."""
    root: type[Any] = message.request_type if kind == "request" else message.response_type
    return root


def plain(name: str) -> str:
    """A name as Kafka and we can both say it: `enable2Pc` and `enable_2pc` are the same."""
    return name.replace("_", "").lower()


def _load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def _case(message: Message[Any, Any], kind: str, found: dict[str, Any]) -> Case:
    tagged, header = found.get("hexWithUnknownTag10001"), found.get("headerHex")
    return Case(
        message=message,
        kind=kind,
        version=found["version"],
        label=f"{message.name}-{kind}-v{found['version']}-{found['case']}",
        body=bytes.fromhex(found["hex"]),
        content=found["json"],
        with_unknown_tag=None if tagged is None else bytes.fromhex(tagged),
        header=None if header is None else bytes.fromhex(header),
    )


def _struct(kind: type, content: dict[str, Any], version: int) -> Any:
    present = {plain(field.name): field for field in fields_of(kind) if version in field.versions}
    found = {plain(name): value for name, value in content.items()}
    required = {name for name, field in present.items() if field.tag is None}
    assert required <= found.keys() <= present.keys()
    return kind(
        **{
            present[name].name: None if value is None else _value(present[name].type, value, version)
            for name, value in found.items()
        }
    )


def _value(kind: WireType, found: Any, version: int) -> Any:
    match kind:
        case Fixed("16s"):
            return base64.urlsafe_b64decode(found + "==")
        case Blob():
            return base64.b64decode(found)
        case ArrayOf(item):
            return [_value(item, each, version) for each in found]
        case StructOf(inner):
            return _struct(inner, found, version)
        case _:
            return found
