"""Record batch format v2 (magic 2): the 61-byte header before the records section."""
import struct
from crc32c import crc32c
HEADER_SIZE = 61
_AFTER_CRC = struct.Struct(">hiqqqhii")
_HEADER = struct.Struct(">qiibI")
def batch_header(chunks, *, codec_id, first_timestamp, max_timestamp, count, producer_id=-1, epoch=-1, sequence=-1, transactional=False):
    after = _AFTER_CRC.pack(codec_id | (16 if transactional else 0), count - 1, first_timestamp, max_timestamp, producer_id, epoch, sequence, count)
    crc = crc32c(after)
    size = 0
    for c in chunks:
        crc = crc32c(c, crc); size += len(c)
    return _HEADER.pack(0, HEADER_SIZE - 12 + size, -1, 2, crc) + after
