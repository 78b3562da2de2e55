"""Each codec packs what Kafka can read, unpacks what it packed, and is not to be bombed."""

from __future__ import annotations

import builtins
import random
import sys
import threading
import tracemalloc
import zlib
from types import ModuleType
from typing import Any

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, PluginNotFoundError, ProtocolError
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.compressors import gzip as gzip_plugin
from ottla.plugins.compressors import lz4 as lz4_plugin
from ottla.plugins.compressors import snappy as snappy_plugin
from ottla.plugins.compressors import zstd as zstd_plugin

pytestmark = pytest.mark.unmeasured

PLUGINS: dict[str, ModuleType] = {
    "gzip": gzip_plugin,
    "lz4": lz4_plugin,
    "snappy": snappy_plugin,
    "zstd": zstd_plugin,
}
CODEC_IDS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LIMIT = 1 << 24
MB = 1 << 20


def compressor(codec: str) -> Compressor:
    made: Compressor = PLUGINS[codec].ottla_compressor()
    return made


@pytest.fixture(params=list(PLUGINS))
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", PLUGINS)
@given(st.lists(st.binary(max_size=300) | st.builds(bytes, st.integers(0, 100_000)), max_size=5))
@settings(deadline=None, max_examples=40)
def test_compressed_data_is_decompressed(name: str, chunks: list[bytes]) -> None:
    packed = compressor(name).compress(chunks, level=None)

    assert b"".join(chunks) == compressor(name).decompress(packed, limit=LIMIT)


def test_chunks_of_any_buffer_type_are_compressed_as_one_text(codec: str) -> None:
    chunks: list[Buffer] = [b"one", bytearray(b"two"), memoryview(b"three")]

    packed = compressor(codec).compress(chunks, level=None)

    assert compressor(codec).decompress(memoryview(packed), limit=11) == b"onetwothree"
    for chunk in chunks:
        assert bytes(chunk) == compressor(codec).decompress(compressor(codec).compress([chunk], level=None), limit=5)


def test_each_codec_has_the_id_of_kafka(codec: str) -> None:
    assert CODEC_IDS[codec] == compressor(codec).codec_id


def test_decompression_stops_after_exactly_the_limit(codec: str) -> None:
    packed = compressor(codec).compress([bytes(70_000)], level=None)

    assert len(compressor(codec).decompress(packed, limit=70_000)) == 70_000
    with pytest.raises(ProtocolError, match="more than the 69999 bytes"):
        compressor(codec).decompress(packed, limit=69_999)


def test_data_cut_anywhere_is_refused(codec: str) -> None:
    rng = random.Random(4)
    packed = compressor(codec).compress([rng.randbytes(50), bytes(40_000)], level=None)

    for size in range(len(packed)):
        try:
            plain = compressor(codec).decompress(packed[:size], limit=LIMIT)
        except ProtocolError:
            continue
        # xerial's framing has no end mark: a cut between blocks shows only in the records behind it.
        assert codec == "snappy"
        assert len(plain) in (0, 32 * 1024)


@pytest.mark.parametrize("name", PLUGINS)
@given(noise=st.binary(max_size=200), front=st.integers(0, 20))
@settings(deadline=None)
def test_random_bytes_are_decompressed_or_refused(name: str, noise: bytes, front: int) -> None:
    real = compressor(name).compress([b"some text, some text"], level=None)
    for hostile in (noise, real[:front] + noise):
        try:
            assert len(compressor(name).decompress(hostile, limit=100_000)) <= 100_000
        except ProtocolError:
            continue


def test_flipped_bits_are_decompressed_or_refused(codec: str) -> None:
    packed = compressor(codec).compress([b"some text, some text" * 20], level=None)
    for position in range(len(packed)):
        for bit in range(8):
            flipped = bytearray(packed)
            flipped[position] ^= 1 << bit
            try:
                compressor(codec).decompress(flipped, limit=100_000)
            except ProtocolError:
                continue


def bomb(codec: str) -> bytes:
    """A gigabyte of zeros."""
    if codec == "gzip":
        stream = zlib.compressobj(1, zlib.DEFLATED, 31)
        return b"".join([stream.compress(bytes(MB)) for _ in range(1024)]) + stream.flush()
    if codec == "lz4":
        frames = lz4.frame.LZ4FrameCompressor(block_linked=False)
        return b"".join([frames.begin(), *[frames.compress(bytes(MB)) for _ in range(1024)], frames.flush()])
    if codec == "snappy":
        framed = compressor(codec).compress([bytes(32 * 1024)], level=None)
        return framed[:16] + framed[16:] * 32_768
    block = (128 * 1024 << 3 | 0b010).to_bytes(3, "little") + b"\0"  # RLE: 128 kB out of 4 bytes
    return bytes.fromhex("28b52ffd0070") + block * 8192 + b"\1\0\0"


def test_a_decompression_bomb_is_stopped_at_the_limit_in_little_memory(codec: str) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="more than the 1048576 bytes"):
            compressor(codec).decompress(packed, limit=MB)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < (4 if codec == "gzip" else 40) * MB  # only zlib can stop at a limit


def test_a_declared_size_is_not_trusted() -> None:
    snappy, zstd, framed = compressor("snappy"), compressor("zstd"), compressor("lz4")
    huge = bytes.fromhex("28b52ffda0") + (1 << 31).to_bytes(4, "little")[:4] + b"\1\0\0"
    with pytest.raises(ProtocolError, match="cannot unpack to"):
        snappy.decompress(b"\xff\xff\xff\x7f\0a", limit=1 << 40)
    with pytest.raises(ProtocolError):
        zstd.decompress(huge, limit=1 << 40)
    claims = lz4.frame.compress(bytes(100), store_size=True)
    for checksum in range(256):  # one of them is right for the header with the wrong size
        with pytest.raises(ProtocolError):
            framed.decompress(claims[:6] + b"\xff" * 8 + bytes((checksum,)) + claims[15:], limit=1 << 40)


def test_a_codec_may_be_used_by_many_threads_at_once(codec: str) -> None:
    shared = compressor(codec)
    rng = random.Random(3)
    texts = [bytes(rng.choices(b"abcdef", k=40_000)) for _ in range(8)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            packed = shared.compress([texts[number]], level=None)
            if shared.decompress(packed, limit=LIMIT) != texts[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 19)])
def test_the_level_of_a_call_is_used(name: str, low: int, high: int) -> None:
    rng = random.Random(1)
    text = [bytes(rng.choices(b"abcdefgh", [8, 7, 6, 5, 4, 3, 2, 1], k=60_000))]
    fast, small = (compressor(name).compress(text, level=level) for level in (low, high))

    assert len(small) < len(fast)


@pytest.mark.parametrize(("name", "default"), [("gzip", 6), ("lz4", 9), ("zstd", 3)])
def test_without_a_level_a_codec_uses_the_default_of_java(name: str, default: int) -> None:
    text = [b"some text, some text" * 300]

    assert compressor(name).compress(text, level=None) == compressor(name).compress(text, level=default)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("gzip", (-1, 1, 9, "3"), (0, 10, -2, "x", True, 2.5)),
        ("lz4", (1, 17, "9"), (0, 18, "", False)),
        ("zstd", (-131072, 0, 22, "-5"), (-131073, 23)),
    ],
)
def test_levels_are_those_of_java(name: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    def level(raw: Any) -> int | None:
        draft = ConfigDraft.read({"bootstrap.servers": "localhost:9092", f"compression.{name}.level": raw})
        return draft.finish().batching.compression_levels[CODEC_IDS[name]]

    assert [int(raw) for raw in good] == [level(raw) for raw in good]
    for raw in bad:
        with pytest.raises(ConfigError, match=f"compression.{name}.level: .* is not a whole number from"):
            level(raw)


def test_lz4_frames_can_be_read_by_java() -> None:
    info = lz4.frame.get_frame_info(compressor("lz4").compress([bytes(200_000)], level=None))

    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert info["content_size"] == 0


def test_the_default_of_lz4_is_the_fast_compressor() -> None:
    rng = random.Random(1)
    text = [bytes(rng.choices(b"abcdefgh", k=60_000))]
    lz4_codec = compressor("lz4")

    sizes = {level: len(lz4_codec.compress(text, level=level)) for level in (1, 8, 9, 10)}

    assert sizes[9] == max(sizes.values()) > sizes[1]


def test_snappy_has_the_framing_of_xerial() -> None:
    packed = compressor("snappy").compress([bytes(40_000)], level=None)

    assert bytes.fromhex("82534e415050590000000001000000 01".replace(" ", "")) == packed[:16]
    first = int.from_bytes(packed[16:20], "big")
    second = int.from_bytes(packed[20 + first : 24 + first], "big")
    assert 24 + first + second == len(packed)


def test_a_single_raw_block_of_snappy_is_read_too() -> None:
    framed = compressor("snappy").compress([b"text"], level=None)

    assert compressor("snappy").decompress(framed[20:], limit=4) == b"text"


@pytest.mark.parametrize(("name", "library"), [("lz4", "lz4"), ("snappy", "cramjam"), ("zstd", "zstandard")])
def test_a_missing_library_says_what_to_install(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(module: str, *rest: Any, **more: Any) -> Any:
        if module.partition(".")[0] == library:
            raise ImportError(module)
        return original(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(PluginNotFoundError, match=rf'pip install "ottla\[{name}\]"'):
        compressor(name)


def test_no_library_is_imported_before_its_codec_is_chosen() -> None:
    for module in PLUGINS.values():
        assert not {"lz4", "cramjam", "zstandard"} & {
            value.__name__.partition(".")[0] for value in vars(module).values() if isinstance(value, type(sys))
        }
