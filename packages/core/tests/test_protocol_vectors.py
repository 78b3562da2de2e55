"""Our bytes are those of the Java client, and we read its bytes as it does."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    Codec,
    Message,
    produce_request,
    read_response_header,
    request_header,
)
from ottla.protocol.notation import ArrayOf, Blob, Field, Fixed, StructOf, WireType, fields_of

VECTORS = Path(__file__).parent / "vectors"
MESSAGES: tuple[Message[Any, Any], ...] = (API_VERSIONS, METADATA, PRODUCE)
CORRELATION_ID = 0x01020304
CLIENT_ID = "client-é"


def cases_of(message: Message[Any, Any], kind: str) -> list[Any]:
    loaded: list[Any] = json.loads((VECTORS / f"api_{message.name}_{kind}.json").read_text())["cases"]
    return loaded


def every_case(*, having: str = "hex") -> pytest.MarkDecorator:
    cases = [
        pytest.param(message, kind, case, id=f"{message.name}-{kind}-v{case['version']}-{case['case']}")
        for message in MESSAGES
        for kind in ("request", "response")
        for case in cases_of(message, kind)
        if having in case
    ]
    return pytest.mark.parametrize(("message", "kind", "case"), cases)


def codec_of(message: Message[Any, Any], kind: str, version: int) -> Codec[Any]:
    return message.request(version) if kind == "request" else message.response(version)


def value_of(message: Message[Any, Any], kind: str, case: Any) -> Any:
    root = message.request_type if kind == "request" else message.response_type
    return struct_from(root, case["json"], case["version"])


def struct_from(kind: type, found: dict[str, Any], version: int) -> Any:
    present = {camel(field.name): field for field in fields_of(kind) if version in field.versions}
    required = {name for name, field in present.items() if field.tag is None}
    assert required <= found.keys() <= present.keys()
    return kind(**{present[name].name: field_from(present[name], v, version) for name, v in found.items()})


def field_from(field: Field, found: Any, version: int) -> Any:
    return None if found is None else value_from(field.type, found, version)


def value_from(kind: WireType, found: Any, version: int) -> Any:
    match kind:
        case Fixed("16s"):
            return base64.urlsafe_b64decode(found + "==")
        case Blob():
            return base64.b64decode(found)
        case ArrayOf(item):
            return [value_from(item, each, version) for each in found]
        case StructOf(inner):
            return struct_from(inner, found, version)
        case _:
            return found


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_every_declared_version_has_vectors(message: Message[Any, Any], kind: str) -> None:
    versions = {case["version"] for case in cases_of(message, kind)}

    assert set(range(message.min_version, message.max_version + 1)) == versions


@every_case()
def test_a_value_is_written_as_java_writes_it(message: Message[Any, Any], kind: str, case: Any) -> None:
    encoded = codec_of(message, kind, case["version"]).encode(value_of(message, kind, case))

    assert case["hex"] == encoded.hex()


@every_case()
def test_java_bytes_are_read_as_the_value_they_stand_for(message: Message[Any, Any], kind: str, case: Any) -> None:
    decoded = codec_of(message, kind, case["version"]).decode(bytes.fromhex(case["hex"]))

    assert value_of(message, kind, case) == decoded


@every_case(having="hexWithUnknownTag10001")
def test_a_tag_from_the_future_changes_nothing(message: Message[Any, Any], kind: str, case: Any) -> None:
    decoded = codec_of(message, kind, case["version"]).decode(bytes.fromhex(case["hexWithUnknownTag10001"]))

    assert value_of(message, kind, case) == decoded


@every_case(having="headerHex")
def test_headers_are_those_of_java(message: Message[Any, Any], kind: str, case: Any) -> None:
    expected = bytes.fromhex(case["headerHex"])

    if kind == "request":
        assert expected == request_header(message, case["version"], CORRELATION_ID, CLIENT_ID)
    else:
        assert (CORRELATION_ID, len(expected)) == read_response_header(message, case["version"], expected)


@pytest.mark.parametrize("case", cases_of(PRODUCE, "request"), ids=lambda case: f"v{case['version']}-{case['case']}")
def test_a_gathered_produce_request_is_written_as_java_writes_it(case: Any) -> None:
    request = value_of(PRODUCE, "request", case)
    chunks = produce_request(
        case["version"],
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topics=[
            (topic.name, topic.topic_id, [(p.index, [p.records]) for p in topic.partition_data])
            for topic in request.topic_data
        ],
    )

    assert case["hex"] == b"".join(chunks).hex()
