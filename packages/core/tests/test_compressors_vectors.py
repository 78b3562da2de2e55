"""Compressed data as Kafka 4.3's own readers take it: streams put one behind the other, padding, and damage.

`compressed.json` has for each case what Java reads; null: it refuses.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.errors import CorruptBatchError
from ottla.interfaces import Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd

CASES: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "vectors" / "compressed.json").read_text())
CODECS: Final[dict[str, Compressor]] = {
    "gzip": Gzip(-1),
    "lz4": Lz4(lz4.frame, 9),
    "snappy": Snappy(cramjam),
    "zstd": Zstd(zstandard, 3),
}
DAMAGE_THAT_JAVA_PASSES_OVER: Final = {
    ("lz4", "bad checksum"),
    ("snappy", "one byte behind"),
    ("snappy", "one zero behind"),
    ("snappy", "second cut in its magic"),
    ("zstd", "no bytes"),
    ("zstd", "second cut"),
    ("zstd", "second cut early"),
    ("zstd", "second cut in its magic"),
}
"""No client writes these; here they are refused."""

MANY: Final = 5_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['codec']}-{case['case']}")
def test_data_is_read_or_refused_as_by_java(case: dict[str, Any]) -> None:
    codec, packed = CODECS[case["codec"]], bytes.fromhex(case["hex"])
    refused = case["java"] is None or (case["codec"], case["case"]) in DAMAGE_THAT_JAVA_PASSES_OVER

    if refused:
        with pytest.raises(CorruptBatchError, match=case["codec"]):
            codec.decompress(packed, limit=1000)
    else:
        plain = codec.decompress(packed, limit=1000)
        assert plain.hex() == case["java"]


def test_every_difference_from_java_in_reading_is_a_test_case() -> None:
    assert {(case["codec"], case["case"]) for case in CASES if case["java"] is not None} > DAMAGE_THAT_JAVA_PASSES_OVER


@pytest.mark.parametrize("name", ["gzip", "snappy", "zstd"])
def test_the_limit_applies_to_all_streams_together(name: str) -> None:
    codec = CODECS[name]
    packed = codec.compress([bytes(40_000)], level=None) * 3

    assert codec.decompress(packed, limit=120_000) == bytes(120_000)
    with pytest.raises(CorruptBatchError, match="more than the 119999 bytes"):
        codec.decompress(packed, limit=119_999)


@pytest.mark.parametrize("name", ["gzip", "snappy", "zstd"])
@pytest.mark.parametrize("text", [b"", b"text"])
def test_thousands_of_concatenated_streams_are_read(name: str, text: bytes) -> None:
    codec = CODECS[name]
    packed = codec.compress([text], level=None)

    assert codec.decompress(packed * MANY, limit=1 << 20) == text * MANY
    assert codec.decompress(memoryview(packed * MANY), limit=len(text) * MANY) == text * MANY


def gzip_of_size(text: bytes, size: int) -> bytes:
    """A member with an extra field in its header, as long as it takes."""
    plain = CODECS["gzip"].compress([text], level=None)
    extra = size - len(plain) - 2
    return plain[:3] + b"\4" + plain[4:10] + struct.pack("<H", extra) + bytes(extra) + plain[10:]


def zstd_of_size(text: bytes, size: int) -> bytes:
    """A frame behind one that is there to be skipped, as long as it takes."""
    plain = CODECS["zstd"].compress([text], level=None)
    return struct.pack("<II", 0x184D2A50, size - len(plain) - 8) + bytes(size - len(plain) - 8) + plain


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize(
    ("name", "of_size", "given_at_once"), [("gzip", gzip_of_size, 16 * 1024), ("zstd", zstd_of_size, 512)]
)
def test_a_stream_may_end_at_the_end_of_an_input_chunk(
    name: str, of_size: Callable[[bytes, int], bytes], given_at_once: int, beyond: int
) -> None:
    first = of_size(b"first ", given_at_once + beyond)
    assert len(first) == given_at_once + beyond

    for last in (b"", b"last"):
        packed = first + CODECS[name].compress([last], level=None)
        assert CODECS[name].decompress(packed, limit=1000) == b"first " + last
    assert CODECS[name].decompress(first, limit=1000) == b"first "
