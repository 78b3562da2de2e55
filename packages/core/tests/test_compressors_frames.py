"""The bytes of each codec: what other libraries read of ours, and what we read of theirs."""

from __future__ import annotations

import gzip
import struct
import sys
from importlib import metadata
from types import ModuleType

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla import check_config
from ottla.errors import CorruptBatchError, PluginNotFoundError
from ottla.plugins.compressors import lz4 as lz4_plugin
from ottla.plugins.compressors import snappy as snappy_plugin
from ottla.plugins.compressors import zstd as zstd_plugin
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd

TEXTS = [b"", b"a", b"some text " * 30_000, bytes(range(256)) * 1000]
LIMIT = 1 << 20

texts = pytest.mark.parametrize("text", TEXTS, ids=len)


@texts
def test_other_libraries_read_our_compressed_data(text: bytes) -> None:
    assert text == gzip.decompress(Gzip(-1).compress([text]))
    assert text == lz4.frame.decompress(Lz4(lz4.frame, 9).compress([text]))
    assert text == zstandard.ZstdDecompressor().decompress(Zstd(zstandard, 3).compress([text]))
    framed, plain = Snappy(cramjam).compress([text])[16:], b""
    while framed:
        end = 4 + struct.unpack_from(">i", framed)[0]
        plain += bytes(cramjam.snappy.decompress_raw(framed[4:end]))
        framed = framed[end:]
    assert text == plain


@pytest.mark.parametrize("level", range(1, 18))
@texts
def test_lz4_frames_have_independent_64_kb_blocks_without_checksums(text: bytes, level: int) -> None:
    packed = Lz4(lz4.frame, level).compress([text])

    magic, flags, block_size = struct.unpack_from("<IBB", packed)
    assert magic == 0x184D2204
    assert flags == 0b01_1_0_0_0_0_0  # version 1, independent; no block checksums, size, checksum, dictionary
    assert block_size == 0b0_100_0000


@texts
def test_snappy_blocks_hold_at_most_32_kb(text: bytes) -> None:
    framed, sizes = Snappy(cramjam).compress([text])[16:], []
    while framed:
        end = 4 + struct.unpack_from(">i", framed)[0]
        sizes.append(cramjam.snappy.decompress_raw_len(framed[4:end]))
        framed = framed[end:]

    assert sum(sizes) == len(text)
    assert all(size == 32 * 1024 for size in sizes[:-1])


@pytest.mark.parametrize("content_checksum", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("block_linked", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_other_libraries_are_read(
    block_size: int, block_linked: bool, store_size: bool, content_checksum: bool
) -> None:
    for text in TEXTS:
        packed = lz4.frame.compress(
            text,
            block_size=block_size,
            block_linked=block_linked,
            store_size=store_size,
            content_checksum=content_checksum,
            block_checksum=content_checksum,
        )
        assert text == Lz4(lz4.frame, 9).decompress(packed, limit=LIMIT)


@pytest.mark.parametrize("level", [-5, 1, 12])
@texts
def test_zstd_frames_without_a_content_size_are_read(text: bytes, level: int) -> None:
    stream = zstandard.ZstdCompressor(level=level, write_checksum=True).compressobj()

    assert text == Zstd(zstandard, 3).decompress(stream.compress(text) + stream.flush(), limit=LIMIT)


def test_the_largest_zstd_window_is_read_and_a_larger_one_is_refused() -> None:
    codec = Zstd(zstandard, 3)
    largest, larger = (zstandard.ZstdCompressionParameters(window_log=log) for log in (27, 28))

    def packed(parameters: zstandard.ZstdCompressionParameters) -> bytes:
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return stream.compress(b"text") + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()

    assert codec.decompress(packed(largest), limit=LIMIT) == b"text"
    with pytest.raises(CorruptBatchError, match="malformed zstd"):
        codec.decompress(packed(larger), limit=LIMIT)


@texts
def test_snappy_is_read_as_one_raw_block_and_in_blocks_of_any_size(text: bytes) -> None:
    codec = Snappy(cramjam)
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(text), 50_000):
        block = bytes(cramjam.snappy.compress_raw(text[start : start + 50_000]))
        framed += struct.pack(">i", len(block)) + block

    assert text == codec.decompress(bytes(cramjam.snappy.compress_raw(text)), limit=LIMIT)
    assert text == codec.decompress(framed, limit=LIMIT)


@pytest.mark.parametrize("plugin", [lz4_plugin, snappy_plugin, zstd_plugin], ids=["lz4", "snappy", "zstd"])
def test_a_missing_library_names_an_extra_that_exists(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("lz4", "lz4.frame", "cramjam", "zstandard"):
        monkeypatch.setitem(sys.modules, library, None)
    codec = plugin.__name__.rpartition(".")[2]

    with pytest.raises(PluginNotFoundError, match=rf'compression\.type={codec} .*pip install "ottla\[{codec}\]"'):
        plugin.ottla_compressor()

    assert codec in (metadata.metadata("ottla").get_all("Provides-Extra") or ())


@pytest.mark.parametrize("codec", ["lz4", "snappy", "zstd"])
def test_a_missing_library_is_reported_before_a_producer_exists(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("lz4", "lz4.frame", "cramjam", "zstandard"):
        monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(PluginNotFoundError, match=rf'compression\.type={codec} .*pip install "ottla\[{codec}\]"'):
        check_config(bootstrap_servers="127.0.0.1:9", compression_type=codec)
    check_config(bootstrap_servers="127.0.0.1:9", compression_type="gzip")
