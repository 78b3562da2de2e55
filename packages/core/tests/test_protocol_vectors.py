"""Our bytes are those of the Java client, and we read its bytes as it does."""

from __future__ import annotations

from typing import Any

import pytest
from golden import CLIENT_ID, CORRELATION_ID, KINDS, Case, all_cases, cases, files

from ottla.protocol import PRODUCE, Message, produce_request, read_response_header, request_header
from ottla.protocol.catalogue import MESSAGES

pytestmark = pytest.mark.unmeasured

CASES = list(all_cases())
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
every_tagged = pytest.mark.parametrize(
    "case", [case for case in CASES if case.with_unknown_tag], ids=lambda case: case.label
)
every_header = pytest.mark.parametrize("case", [case for case in CASES if case.header], ids=lambda case: case.label)


def test_every_api_has_vectors_and_every_vector_file_has_an_api() -> None:
    assert files() == {(message.name, kind) for message in MESSAGES for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_every_declared_version_has_vectors(message: Message[Any, Any], kind: str) -> None:
    found = cases(message, kind)

    without = set(range(message.min_version, message.max_version + 1)) - {case.version for case in found}
    assert not without, f"let Java's client write these versions of {message.name}, see vectors/README.md"
    assert all(message.min_version <= case.version <= message.max_version for case in found)
    assert {case.version for case in found if case.with_unknown_tag} == {
        case.version for case in found if message.flexible(case.version)
    }


@every_case
def test_a_value_is_written_as_by_java(case: Case) -> None:
    assert case.codec.encode(case.value()).hex() == case.body.hex()


@every_case
def test_java_bytes_are_read_as_their_value(case: Case) -> None:
    assert case.codec.decode(case.body) == case.value()


@every_tagged
def test_an_unknown_tag_changes_nothing(case: Case) -> None:
    assert case.with_unknown_tag is not None
    assert case.codec.decode(case.with_unknown_tag) == case.value()


@every_header
def test_headers_are_those_of_java(case: Case) -> None:
    assert case.header is not None
    if case.kind == "request":
        assert request_header(case.message, case.version, CORRELATION_ID, CLIENT_ID) == case.header
    else:
        header = read_response_header(case.message, case.version, case.header + case.body)
        assert header == (CORRELATION_ID, len(case.header))


@pytest.mark.parametrize("case", cases(PRODUCE, "request"), ids=lambda case: case.label)
def test_a_gathered_produce_request_is_written_as_by_java(case: Case) -> None:
    request = case.value()
    chunks = produce_request(
        case.version,
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topics=[
            (topic.name, topic.topic_id, [(p.index, [p.records]) for p in topic.partition_data])
            for topic in request.topic_data
        ],
    )

    assert b"".join(chunks).hex() == case.body.hex()
