"""The headers before the bodies, and the versions behind them."""

from __future__ import annotations

import pytest

from ottla.errors import UnsupportedVersionError
from ottla.protocol import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    choose_version,
    peek_error_code,
    produce_request,
    read_response_header,
    request_header,
)


def test_a_request_without_a_client_id_says_null() -> None:
    assert request_header(METADATA, 8, 7, None).hex() == "0003000800000007ffff"
    assert request_header(METADATA, 9, 7, None).hex() == "0003000900000007ffff00"


def test_the_response_body_starts_after_the_tagged_fields_of_its_header() -> None:
    assert read_response_header(METADATA, 8, bytes.fromhex("00000007 0101")) == (7, 4)
    assert read_response_header(METADATA, 9, bytes.fromhex("00000007 00 01")) == (7, 5)
    assert read_response_header(METADATA, 9, bytes.fromhex("00000007 01 05 02 ffff 01")) == (7, 9)


def test_an_api_versions_response_header_never_has_tagged_fields() -> None:
    assert read_response_header(API_VERSIONS, 4, memoryview(bytes.fromhex("00000007 0023 00000000"))) == (
        7,
        4,
    )


def test_the_error_code_of_an_api_versions_response_needs_no_version() -> None:
    assert peek_error_code(bytes.fromhex("0023 00000000")) == 35
    assert peek_error_code(memoryview(bytes.fromhex("0023 00000001 0012 0000 0004"))) == 35
    assert peek_error_code(bytes.fromhex("ffff")) == -1


def test_a_response_with_error_35_is_read_at_version_0() -> None:
    answer = API_VERSIONS.response(0).decode(bytes.fromhex("0023 00000001 0012 0000 0004"))

    assert answer.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]


def test_the_highest_version_supported_by_both_is_chosen() -> None:
    assert choose_version(PRODUCE, 0, 99) == 13
    assert choose_version(PRODUCE, 3, 9) == 9
    assert choose_version(PRODUCE, 0, 13, ceiling=12) == 12
    assert choose_version(PRODUCE, 0, 3, floor=3) == 3
    assert choose_version(PRODUCE, 0, 2) == 2


@pytest.mark.parametrize(
    ("broker_min", "broker_max", "floor", "ceiling", "sentence"),
    [
        (
            0,
            2,
            3,
            None,
            "no version of Produce fits: the broker takes 0 to 2, and this request needs 3 to 13",
        ),
        (14, 20, 0, None, "the broker takes 14 to 20, and this request needs 0 to 13"),
        (12, 13, 3, 11, "the broker takes 12 to 13, and this request needs 3 to 11"),
    ],
)
def test_without_a_common_version_the_error_names_both_ranges(
    broker_min: int, broker_max: int, floor: int, ceiling: int | None, sentence: str
) -> None:
    with pytest.raises(UnsupportedVersionError, match=sentence):
        choose_version(PRODUCE, broker_min, broker_max, floor=floor, ceiling=ceiling)


def test_an_undeclared_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="Metadata request v14 is not declared, only versions 0 to 13"):
        METADATA.request(14)
    with pytest.raises(UnsupportedVersionError, match="Metadata response v-1 is not declared"):
        METADATA.response(-1)
    with pytest.raises(UnsupportedVersionError, match="Produce request v14 is not declared"):
        produce_request(14, transactional_id=None, acks=1, timeout_ms=1, topics=[])


def test_a_codec_is_created_once() -> None:
    assert METADATA.request(9) is METADATA.request(9)
    assert METADATA.request(9).label != METADATA.response(9).label


def test_the_records_of_a_produce_request_are_referenced_not_copied() -> None:
    header, body = bytearray(61), memoryview(bytes(1000))
    chunks = produce_request(
        9, transactional_id=None, acks=-1, timeout_ms=1, topics=[("t", bytes(16), [(0, [header, body])])]
    )

    assert header is chunks[1]
    assert body is chunks[2]
