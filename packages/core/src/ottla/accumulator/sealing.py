"""From columns to a partition's part of a request, encoded in one go and compressed; and back, to split a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.interfaces import Columns, Compressor
from ottla.recordbatch.codecs import ZSTD
from ottla.recordbatch.compression_ratio import CAUTION, CompressionRatios
from ottla.recordbatch.down_conversion import down_converted
from ottla.recordbatch.parse import Record, parse_batches
from ottla.recordbatch.refusals import zstd_is_newer
from ottla.recordbatch.section import Section, finish
from ottla.recordbatch.v2 import MAGIC as NEWEST_MAGIC


@attrs.frozen(kw_only=True)
class Takes:
    """What a broker takes: its newest record format, and whether it knows zstd."""

    magic: int = 2
    zstd: bool = True


def _everything(_node: int) -> Takes:
    return Takes()


class Sealer:
    """Seals batches with one codec, None: uncompressed, in the newest format that their broker takes.

    For the I/O thread, except `ratio` and `seal_columns`. *takes* tells what a broker can read.
    """

    def __init__(self, compressor: Compressor | None, *, takes: Callable[[int], Takes] = _everything) -> None:
        self._compressor = compressor
        self._takes = takes
        self.codec_id = 0 if compressor is None else compressor.codec_id
        self._compressors: Mapping[int, Compressor] = {} if compressor is None else {self.codec_id: compressor}
        self._ratios = CompressionRatios()

    def seal(self, batch: ProducerBatch, node: int) -> Section:
        """The batch's records as they go to this broker; its columns keep only what deliveries need.

        One that was sealed for a broker which took a newer format is converted. What the older one cannot hold is an
        UnsupportedVersionError.
        """
        takes = self._takes(node)
        magic = takes.magic
        if self.codec_id == ZSTD and magic == NEWEST_MAGIC and not takes.zstd:
            raise zstd_is_newer()
        if batch.sealed is not None:
            return down_converted(batch.sealed, magic=magic, compressors=self._compressors)
        section = finish(batch.columns.encode(magic), magic=magic, compressor=self._compressor)
        if section.codec_id:
            self._ratios.observe(batch.topic, codec_id=section.codec_id, ratio=section.ratio)
        return section

    def seal_columns(self, columns: Columns) -> Section:
        """Records as they go to a broker of today, before it is known which one; for any thread."""
        return finish(columns.encode(NEWEST_MAGIC), magic=NEWEST_MAGIC, compressor=self._compressor)

    def ratio(self, topic: str) -> float:
        """What part of their size a topic's records probably keep, with some caution."""
        return self._ratios.ratio(topic, codec_id=self.codec_id) * CAUTION if self.codec_id else 1.0

    def records(self, batch: ProducerBatch) -> Sequence[Record]:
        """What was sealed, read back because it was too large for the broker; its ratio is no longer trusted."""
        section = batch.sealed
        assert section is not None, "only what was sent can be too large"
        self._ratios.start_over(batch.topic, codec_id=section.codec_id, ratio=section.ratio)
        whole = b"".join(section.stamped())
        return [record for part in parse_batches(whole, compressors=self._compressors) for record in part.records]
