"""Hostile record batches and hostile compressed data: what is sent to `parse_batches` and to every codec.

Batches are Java's and our own, in every format. An accident happens to the bytes on the wire, to the same with checksum
and length put right again, or to the records before they are compressed: so each layer gets its share.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c
from fuzzing import Bounds, Target, spoiled

from ottla.interfaces import Compressor
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.compressors.lz4 import Lz4
from ottla.plugins.compressors.snappy import Snappy
from ottla.plugins.compressors.zstd import Zstd
from ottla.recordbatch.lz4_in_v0 import with_right_checksum
from ottla.recordbatch.parse import parse_batches

UNPACKED: Final = 16 * 1024
"""The maximum size of an unpacked batch or text here; hostile ones try to exceed it."""

LARGEST: Final = 2_000
"""Genuine batches above this are left out: they show nothing more, and take long."""

FORMATS: Final = (0, 1, 2)
CODECS: Final = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMPRESSORS: Final[dict[int, Compressor]] = {
    compressor.codec_id: compressor for compressor in (Gzip(1), Snappy(cramjam), Lz4(lz4.frame, 9), Zstd(zstandard, 1))
}

_VECTORS: Final = Path(__file__).parent / "vectors" / "batches.json"
_CODEC_MASK: Final = 0b111
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_COUNTED_FROM: Final = 12
_MAGIC_AT: Final = 16


@attrs.frozen(kw_only=True)
class Layout:
    """Positions in a format of fields to correct after a mutation. From `records_from` on it may be compressed."""

    checksum_at: int
    checked_from: int
    checksum: Callable[[bytes], int]
    codec_at: int
    records_from: int


_LAYOUTS: Final = (
    # In v0 and v1 the compressed records are the value of a message without a key, behind the size of the value.
    Layout(checksum_at=12, checked_from=16, checksum=zlib.crc32, codec_at=17, records_from=26),
    Layout(checksum_at=12, checked_from=16, checksum=zlib.crc32, codec_at=17, records_from=34),
    Layout(checksum_at=17, checked_from=21, checksum=crc32c, codec_at=22, records_from=61),
)


def batches(magic: int) -> Target:
    """`parse_batches` under fire with what were batches of this format."""
    genuine = [batch for batch in genuine_batches() if batch[_MAGIC_AT] == magic]
    opened = [_opened(batch) for batch in genuine if magic == 2 or _codec_id(batch)]
    records = [plain for _head, plain in opened]

    def corrupt(chance: random.Random) -> bytes:
        match chance.randrange(5):
            case 0:
                return spoiled(genuine, chance)
            case 1:
                return put_right(spoiled(genuine, chance)) + chance.choice(genuine)
            case 2:
                return put_right(spoiled(genuine, chance))
            case _:
                head, _plain = chance.choice(opened)
                return _closed(head, _spoiled_records(magic, records, chance))

    return Target(
        label=f"batches of format v{magic}",
        read=_read_batches,
        spoiled=corrupt,
        bounds=Bounds(steps=2_000, steps_per_byte=20, memory=300_000, memory_per_byte=200),
        unpacked=UNPACKED,
    )


def codec(name: str) -> Target:
    """A codec's `decompress` under fire, with what it and others write."""
    compressor = COMPRESSORS[CODECS[name]]
    texts = [b"", b"text", bytes(3000), b"some text " * 200, random.Random(1).randbytes(300)]
    genuine = [compressor.compress([text], level=None) for text in texts]
    genuine += [form(text) for form in _FORMS[name] for text in texts]
    genuine += [genuine[1] + genuine[0] + genuine[3], genuine[2] * 6]

    def read(data: bytes) -> None:
        plain = compressor.decompress(data, limit=UNPACKED)
        assert len(plain) <= UNPACKED, f"{len(plain)} bytes came out"

    return Target(
        label=name,
        read=read,
        spoiled=lambda chance: spoiled(genuine, chance),
        bounds=Bounds(steps=1_000, steps_per_byte=5, memory=600_000, memory_per_byte=20),
        unpacked=UNPACKED,
    )


def put_right(batch: bytes) -> bytes:
    """Bytes that are to be one batch, with the length and the checksum that this has, if there is room for them."""
    layout = _layout(batch)
    if layout is None or len(batch) < layout.checked_from:
        return batch
    fixed = bytearray(batch)
    _LENGTH.pack_into(fixed, _LENGTH_AT, len(batch) - _COUNTED_FROM)
    struct.pack_into(">I", fixed, layout.checksum_at, layout.checksum(batch[layout.checked_from :]))
    return bytes(fixed)


def genuine_batches() -> Sequence[bytes]:
    """Java's batches, one by one."""
    cases: list[dict[str, Any]] = json.loads(_VECTORS.read_text())
    found = [batch for case in cases if "hex" in case for batch in _apart(bytes.fromhex(case["hex"]))]
    return [batch for batch in found if len(batch) <= LARGEST]


def _apart(batches: bytes) -> Iterator[bytes]:
    while batches:
        size = _COUNTED_FROM + _LENGTH.unpack_from(batches, _LENGTH_AT)[0]
        yield batches[:size]
        batches = batches[size:]


def _opened(batch: bytes) -> tuple[bytes, bytes]:
    """The header of a batch, and its records before compression."""
    layout, codec_id = _LAYOUTS[batch[_MAGIC_AT]], _codec_id(batch)
    head, packed = batch[: layout.records_from], batch[layout.records_from :]
    if (batch[_MAGIC_AT], codec_id) == (0, CODECS["lz4"]):
        packed = bytes(with_right_checksum(packed))
    return head, COMPRESSORS[codec_id].decompress(packed, limit=1 << 20) if codec_id else packed


def _closed(head: bytes, records: bytes) -> bytes:
    """The batch with these records, right on the outside."""
    codec_id = _codec_id(head)
    packed = COMPRESSORS[codec_id].compress([records], level=None) if codec_id else records
    if head[_MAGIC_AT] < 2:
        head = head[: -_LENGTH.size] + _LENGTH.pack(len(packed))
    return put_right(head + packed)


def _spoiled_records(magic: int, records: Sequence[bytes], chance: random.Random) -> bytes:
    if magic == 2 or chance.random() < 0.5:
        return spoiled(records, chance)
    inside = list(_apart(chance.choice(records)))
    at = chance.randrange(len(inside))
    inside[at] = put_right(spoiled([inside[at]], chance))
    return b"".join(inside)


def _layout(batch: bytes) -> Layout | None:
    if len(batch) <= _MAGIC_AT or batch[_MAGIC_AT] not in FORMATS:
        return None
    return _LAYOUTS[batch[_MAGIC_AT]]


def _codec_id(batch: bytes) -> int:
    return batch[_LAYOUTS[batch[_MAGIC_AT]].codec_at] & _CODEC_MASK


def _read_batches(data: bytes) -> None:
    for batch in parse_batches(data, compressors=COMPRESSORS, limit=UNPACKED):
        assert len(batch.records) <= len(data) + UNPACKED, f"{len(batch.records)} records came out"


def _lz4_form(**options: Any) -> Callable[[bytes], bytes]:
    return lambda text: bytes(lz4.frame.compress(text, **options))


def _zstd_stream(text: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    return stream.compress(text) + stream.flush()


_FORMS: Final[Mapping[str, Sequence[Callable[[bytes], bytes]]]] = {
    "gzip": [lambda text: gzip.compress(text, 9)],
    "lz4": [_lz4_form(block_linked=True, store_size=True), _lz4_form(content_checksum=True, block_checksum=True)],
    "snappy": [lambda text: bytes(cramjam.snappy.compress_raw(text))],
    "zstd": [_zstd_stream, lambda text: b"\x50\x2a\x4d\x18\3\0\0\0abc" + _zstd_stream(text)],
}
"""The same texts as other writers put them."""
