"""Tests that the compressor meets all requirements, and its own promises."""

from __future__ import annotations

import random
import sys
import threading

import cramjam
import pytest
import zstandard
from ottla.errors import PluginNotFoundError, ProtocolError
from ottla.interfaces import Compressor
from ottla_testkit.mock_producer import MockProducer

from ottla_compressor_cramjam_zstd import CramjamZstdCompressor
from ottla_compressor_cramjam_zstd.conformance import CramjamZstdConformance
from ottla_compressor_cramjam_zstd.plugin import ottla_compressor

CHOSEN = random.Random(7)
PLAIN = b"".join(b"order %d of customer %d;" % (CHOSEN.randrange(999), CHOSEN.randrange(97)) for _ in range(20_000))
LEVELS = (None, -131072, -1, 1, 3, 22)


@pytest.fixture
def compressor() -> Compressor:
    return CramjamZstdCompressor(cramjam)


class TestCramjamZstd(CramjamZstdConformance):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return CramjamZstdCompressor(cramjam)


@pytest.mark.parametrize("level", LEVELS)
def test_others_can_read_what_it_writes(compressor: Compressor, level: int | None) -> None:
    packed = compressor.compress([PLAIN[:7], b"", memoryview(PLAIN)[7:]], level=level)

    assert zstandard.ZstdDecompressor().decompress(packed) == PLAIN
    assert zstandard.get_frame_parameters(packed).content_size == len(PLAIN)


def test_it_reads_what_others_write(compressor: Compressor) -> None:
    # As Java writes it: a stream, whose frame has no size.
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    written = stream.compress(PLAIN) + stream.flush()

    assert compressor.decompress(written + written, limit=2 * len(PLAIN)) == 2 * PLAIN


def test_the_level_is_what_the_user_set(compressor: Compressor) -> None:
    sizes = [len(compressor.compress([PLAIN], level=level)) for level in (-131072, -50, 1, 22)]

    assert sizes == sorted(set(sizes), reverse=True)
    assert compressor.compress([PLAIN], level=None) == compressor.compress([PLAIN], level=3)


def test_the_limit_is_the_last_size_that_is_allowed(compressor: Compressor) -> None:
    packed = compressor.compress([PLAIN], level=None)

    assert compressor.decompress(memoryview(packed), limit=len(PLAIN)) == PLAIN
    with pytest.raises(ProtocolError, match="more than the allowed"):
        compressor.decompress(packed, limit=len(PLAIN) - 1)


def test_a_frame_of_many_more_bytes_than_guessed_is_read(compressor: Compressor) -> None:
    plain = bytes(5_000_000)

    assert compressor.decompress(compressor.compress([plain], level=None), limit=sys.maxsize) == plain


def test_a_changed_frame_is_malformed_or_has_the_same_bytes(compressor: Compressor) -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)
    refused = 0
    for _ in range(200):
        changed = bytearray(packed)
        changed[CHOSEN.randrange(5, len(packed))] ^= 1 + CHOSEN.randrange(255)
        try:
            assert compressor.decompress(changed, limit=len(PLAIN)) == PLAIN
        except ProtocolError:
            refused += 1

    assert refused > 190


def test_the_interpreter_lock_is_released_while_it_computes(compressor: Compressor) -> None:
    # Otherwise a table is compressed by one helper thread at a time, and the I/O thread waits for it.
    data = random.Random(7).randbytes(20_000_000)
    done = threading.Event()
    turns = 0

    def compress() -> None:
        compressor.compress([data], level=9)
        done.set()

    thread = threading.Thread(target=compress)
    thread.start()
    while not done.wait(0.001):
        turns += 1
    thread.join()

    assert turns > 5


def test_without_cramjam_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)

    with pytest.raises(PluginNotFoundError, match="pip install"):
        ottla_compressor()


@pytest.mark.parametrize("level", ["-131072", "22"])
def test_a_producer_sends_with_it(level: str) -> None:
    with MockProducer({"compression.type": "cramjam-zstd", "compression.zstd.level": level}) as producer:
        assert producer.send("orders", PLAIN).result().offset == 0
