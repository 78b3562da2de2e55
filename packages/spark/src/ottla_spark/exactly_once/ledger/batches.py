"""Record batches of the ledger topic in Fetch responses, decompressed only as far as needed to read their keys.

Other tenants may write anything to the topic that brokers accept, with any codec. Brokers check batch headers but not
the records after them: a kilobyte of records may decompress to a megabyte.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import attrs

from ottla.errors import CorruptBatchError, ProtocolError
from ottla.interfaces import Buffer
from ottla.plugins.compressors.gzip import Gzip
from ottla.protocol.primitives import read_varint, read_varlong
from ottla.recordbatch.batch_header import BatchHeader, announced_size
from ottla.recordbatch.codecs import NONE
from ottla.recordbatch.header_v2 import HEADER_SIZE, LENGTH_OFFSET, MAGIC, MAGIC_OFFSET
from ottla.recordbatch.parse_v2 import batch_size, read_batch
from ottla.recordbatch.parsed_batches import ControlMarker, Record

GZIP: Final = 1

COMPRESSORS: Final = {GZIP: Gzip(-1)}
"""The codec of entries. Entries may also be uncompressed; those with another codec are not read."""

LARGEST_ENTRY: Final = 4 * 1024 * 1024
"""Maximum bytes of an entry with its key, decompressed: a batch of forty thousand tasks."""

_GZIP_FRAMING: Final = 16 + zlib.MAX_WBITS
_BEFORE_A_KEY: Final = 1 + 5 + 10 + 5 + 5
"""Maximum length of attributes, length, timestamp, offset and the size of the key."""

_PACKED: Final = 64 * 1024
"""Compressed bytes that zlib gets to decompress a key: its output is longer than its input, or nearly as long."""


@attrs.frozen(kw_only=True, eq=False)
class LedgerBatch:
    """A batch's header and the bytes after it. Fields that formats before v2 lack are -1 or False."""

    first_offset: int
    last_offset: int
    codec_id: int = NONE
    transactional: bool = False
    control: bool = False
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    count: int = -1
    whole: memoryview

    def has_key(self, key: bytes) -> bool:
        """Return whether the first record has this key. Raises CorruptBatchError if the record cannot be read."""
        if self.count == 0:
            return False  # compaction has left only the header
        start = self._start(len(key) + _BEFORE_A_KEY)
        try:
            _length, position = read_varint(start, 0)
            _timestamp, position = read_varlong(start, position + 1)
            _offset, position = read_varint(start, position)
            size, position = read_varint(start, position)
        except ProtocolError as error:
            raise CorruptBatchError(f"the batch at offset {self.first_offset}: {error}") from error
        return size == len(key) and start[position : position + size] == key

    def entry(self) -> Record:
        """Decode and return the batch's only record.

        Raises CorruptBatchError for a batch that no writer of entries makes.
        """
        if self.count != 1:
            raise CorruptBatchError(
                f"the batch at offset {self.first_offset} has {self.count} records, but that of an entry has one"
            )
        return self._read()[0]

    def marker(self) -> ControlMarker | None:
        """Return how a transaction ended, if this is a control batch."""
        found = read_batch(self.whole, compressors=COMPRESSORS, limit=LARGEST_ENTRY)
        return found.marker

    def _read(self) -> tuple[Record, ...]:
        return read_batch(self.whole, compressors=COMPRESSORS, limit=LARGEST_ENTRY).records

    def _start(self, maximum: int) -> memoryview:
        """Return the beginning of the records, decompressed: at most *maximum* bytes."""
        section = self.whole[HEADER_SIZE:]
        if self.codec_id == NONE:
            return section[:maximum]
        if self.codec_id != GZIP:
            raise CorruptBatchError(
                f"the batch at offset {self.first_offset} has codec {self.codec_id}, which entries never use"
            )
        try:
            return memoryview(zlib.decompressobj(_GZIP_FRAMING).decompress(section[:_PACKED], maximum))
        except zlib.error as error:
            raise CorruptBatchError(f"the batch at offset {self.first_offset} is not valid gzip: {error}") from error


def split(data: Buffer) -> Iterator[LedgerBatch]:
    """Yield the batches of a response without decompressing them; an incomplete last batch is left out."""
    view = memoryview(data)
    while len(view) > MAGIC_OFFSET:
        old = view[MAGIC_OFFSET] != MAGIC
        size = _old_size(view) if old else batch_size(view)
        if size > len(view):
            return
        yield _of_old_format(view[:size]) if old else _of_v2(view[:size])
        view = view[size:]


def _of_v2(view: memoryview) -> LedgerBatch:
    header = BatchHeader.read(view)
    return LedgerBatch(
        first_offset=header.base_offset,
        last_offset=header.base_offset + max(0, header.last_offset_delta),
        codec_id=header.codec_id,
        transactional=header.transactional,
        control=header.control,
        producer_id=header.producer_id,
        epoch=header.epoch,
        sequence=header.sequence,
        count=header.count,
        whole=view,
    )


def _of_old_format(view: memoryview) -> LedgerBatch:
    """Read a message of format v0 or v1, which is never an entry; its offset is that of its last record."""
    offset = int.from_bytes(view[:LENGTH_OFFSET], "big", signed=True)
    return LedgerBatch(first_offset=offset, last_offset=offset, count=0, whole=view)


def _old_size(view: memoryview) -> int:
    size = announced_size(view)
    if size <= MAGIC_OFFSET:
        raise CorruptBatchError(f"a message of {size} bytes is shorter than its header")
    return size
