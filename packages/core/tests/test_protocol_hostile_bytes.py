"""Bytes that are no message raise ProtocolError and cost no memory; `test_protocol_fuzz` has many more of them."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import pytest
from golden import all_cases

from ottla.errors import ProtocolError
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    Codec,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    peek_error_code,
    read_response_header,
)
from ottla.protocol.messages.metadata import MAX_BROKERS, MAX_TOPICS

pytestmark = pytest.mark.unmeasured

GENUINE = [
    pytest.param(case.codec, body, id=f"{case.label}{mark}")
    for case in all_cases()
    for mark, body in (("", case.body), ("-tagged", case.with_unknown_tag))
    if body is not None
]
every_genuine = pytest.mark.parametrize(("codec", "body"), GENUINE)


@every_genuine
def test_a_message_cut_short_anywhere_is_refused(codec: Codec[Any], body: bytes) -> None:
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            codec.decode(body[:length])


@every_genuine
def test_bytes_after_a_message_are_refused(codec: Codec[Any], body: bytes) -> None:
    with pytest.raises(ProtocolError, match=rf"ends after {len(body)} bytes, but {len(body) + 1} came"):
        codec.decode(body + b"\0")


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (METADATA.response(0), "7fffffff"),
        (METADATA.response(9), "00000000 ffffffff0f"),
        (METADATA.response(0), "00000000 00000001 0000 0000 00000001 0000 00000000 00000000 7fffffff"),
        (API_VERSIONS.response(3), "0000 ffffffff0f"),
        (API_VERSIONS.response(3), "0000 01 00000000 01 00 ffffffff0f ffffffff0f"),
        (API_VERSIONS.response(3), "0000 01 00000000 ffffffff0f"),
        (PRODUCE.request(3), "ffff 0001 00000000 00000001 0000 00000001 00000000 7fffffff"),
        (PRODUCE.request(9), "ffffffff0f"),
    ],
)
def test_a_huge_length_is_refused_before_memory_is_allocated_for_it(codec: Codec[Any], body: str) -> None:
    hostile = bytes.fromhex(body)
    with pytest.raises(ProtocolError):
        codec.decode(hostile)  # compiles the decoder, so that only decoding is measured below

    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            codec.decode(hostile)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000


@pytest.mark.parametrize(
    ("codec", "body", "sentence"),
    [
        (METADATA.response(0), "ffffffff", "brokers is null, which is not allowed"),
        (METADATA.response(0), "fffffffe", "brokers has the negative length -2"),
        (METADATA.response(9), "00000000 00", "brokers is null"),
        (METADATA.request(1), "fffffffe", "topics has the negative length -2"),
        (
            METADATA.request(1),
            "00000002 0001 61",
            "topics has the length 2, which does not fit in the 3 bytes",
        ),
        (METADATA.request(1), "00000001 0002 61", r"topics\[\]\.name has the length 2, which does not fit"),
        (METADATA.request(0), "00000001 0002 c328", "'utf-8' codec can't decode"),
        (METADATA.request(9), "8080808080 01", "continues after 5 bytes"),
        (METADATA.request(9), "ffffffff1f", "does not fit in 32 bits"),
        (
            PRODUCE.response(10),
            "01 00000000 01 00 02 0100",
            "node_endpoints does not end where its size says",
        ),
        (API_VERSIONS.response(4), "0000 01 00000000 01 63 05 00", "a tagged field has the length 5"),
    ],
)
def test_the_error_says_which_message_and_field_is_wrong(codec: Codec[Any], body: str, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence) as caught:
        codec.decode(bytes.fromhex(body))

    assert codec.label in str(caught.value)


@pytest.mark.parametrize("version", [5, 12])
@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (MetadataResponse(brokers=[MetadataResponseBroker()] * (MAX_BROKERS + 1)), "brokers"),
        (MetadataResponse(topics=[MetadataResponseTopic()] * (MAX_TOPICS + 1)), "topics"),
        (
            MetadataResponse(
                topics=[
                    MetadataResponseTopic(partitions=[MetadataResponsePartition(replica_nodes=[1] * (MAX_BROKERS + 1))])
                ]
            ),
            "topics[].partitions[].replica_nodes",
        ),
    ],
    ids=["brokers", "topics", "replicas"],
)
def test_more_items_than_any_cluster_has_are_refused_before_allocation(
    version: int, answer: MetadataResponse, field: str
) -> None:
    body = METADATA.response(version).encode(answer)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=rf"{re.escape(field)} has \d+ items; at most \d+ are accepted"):
            METADATA.response(version).decode(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_null_is_read_only_where_the_version_allows_it() -> None:
    assert METADATA.request(1).decode(bytes.fromhex("ffffffff")).topics is None
    with pytest.raises(ProtocolError, match="topics is null"):
        METADATA.request(0).decode(bytes.fromhex("ffffffff"))


def test_a_response_too_short_for_its_header_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no correlation id"):
        read_response_header(METADATA, 9, b"\0\0\0")
    with pytest.raises(ProtocolError, match="the bytes end inside"):
        read_response_header(METADATA, 9, bytes(4))


def test_an_api_versions_response_without_an_error_code_is_refused() -> None:
    with pytest.raises(ProtocolError, match="1 bytes is too short for an error code"):
        peek_error_code(b"\0")


def test_a_message_is_read_from_any_kind_of_buffer() -> None:
    value = MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name="é" * 200,
                partitions=[
                    MetadataResponsePartition(partition_index=n, replica_nodes=list(range(n))) for n in range(300)
                ],
            )
        ]
    )
    for version in (5, 12):
        codec = METADATA.response(version)
        body = codec.encode(value)

        assert value == codec.decode(body) == codec.decode(bytearray(body)) == codec.decode(memoryview(body))
