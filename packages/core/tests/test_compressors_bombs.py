"""Unpacking stops at the limit, and until then takes the memory of the limit and not of what is claimed.

The libraries allocate behind Python's back, so the kernel is asked, in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

MB = 1 << 20
GB_OF_MB = 1024

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak of memory"),
    pytest.mark.unmeasured,
]

UNPACK = """
import sys
from ottla.plugins.compressors import gzip, lz4, snappy, zstd
from ottla.errors import CorruptBatchError

codec, path, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
plugin = {"gzip": gzip, "lz4": lz4, "snappy": snappy, "zstd": zstd}[codec]
compressor = plugin.ottla_compressor()
compressor.decompress(compressor.compress([bytes(100)], level=None), limit=100)
with open(path, "rb") as file:
    packed = file.read()

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

before = status("VmRSS")
try:
    compressor.decompress(packed, limit=limit)
except CorruptBatchError as error:
    print(status("VmHWM") - before, error)
"""


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = stream.compress(bytes(MB)) + stream.flush(zlib.Z_FULL_FLUSH)
    more = stream.compress(bytes(MB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return start + more * (GB_OF_MB - 1)


def lz4_bomb() -> bytes:
    frame = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return b"".join([frame.begin(), *(frame.compress(bytes(MB)) for _ in range(GB_OF_MB)), frame.flush()])


def snappy_bomb() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(4 * MB)))
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + (len(block).to_bytes(4, "big") + block) * 256


def zstd_bomb() -> bytes:
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join([*(stream.compress(bytes(MB)) for _ in range(GB_OF_MB)), stream.flush()])


def zstd_bomb_of_run_length_blocks() -> bytes:
    block = (128 * 1024 << 3 | 0b010).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0070") + block * 8192 + b"\1\0\0"


def snappy_that_claims_four_gigabytes() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + bytes(cramjam.snappy.compress_raw(bytes(1000)))[2:]


def zstd_that_claims_a_terabyte() -> bytes:
    return bytes.fromhex("28b52ffdc070") + (1 << 40).to_bytes(8, "little") + b"\x0b\0\0a"


@pytest.mark.parametrize(
    ("codec", "bomb", "limit", "said"),
    [
        ("gzip", gzip_bomb, MB, "more than the 1048576 bytes"),
        ("lz4", lz4_bomb, MB, "more than the 1048576 bytes"),
        ("snappy", snappy_bomb, MB, "more than the 1048576 bytes"),
        ("zstd", zstd_bomb, MB, "more than the 1048576 bytes"),
        ("zstd", zstd_bomb_of_run_length_blocks, MB, "more than the 1048576 bytes"),
        ("snappy", snappy_that_claims_four_gigabytes, 1 << 40, "cannot unpack to"),
        ("zstd", zstd_that_claims_a_terabyte, 1 << 41, "malformed zstd data"),
    ],
)
def test_a_decompression_bomb_takes_little_memory_until_it_is_stopped(
    codec: str, bomb: Callable[[], bytes], limit: int, said: str, tmp_path: Path
) -> None:
    packed = tmp_path / "bomb"
    packed.write_bytes(bomb())

    run = subprocess.run(
        [sys.executable, "-c", UNPACK, codec, str(packed), str(limit)], capture_output=True, text=True, check=True
    )

    grown, _, error = run.stdout.partition(" ")
    assert int(grown) < 64 * 1024
    assert said in error
