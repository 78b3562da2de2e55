"""How small the records of a topic get with a codec: what a batch may hold before it is compressed.

Kafka's own estimation. It believes bad news at once and good news slowly: a worse ratio counts in full or as a step,
whatever is more, and a better one only as a small step, so that batches seldom come out larger than wanted.
"""

from __future__ import annotations

import threading
from typing import Final

INITIAL: Final = 1.0
IMPROVING_STEP: Final = 0.005
DETERIORATING_STEP: Final = 0.05
CAUTION: Final = 1.05
"""A batch counts as full this much before the estimation says so."""


class CompressionRatios:
    """The estimations of one producer, by topic and codec; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt it, and come here
        self._ratios: dict[tuple[str, int], float] = {}

    def ratio(self, topic: str, *, codec_id: int) -> float:
        """Compressed to plain size, as it is estimated now."""
        return self._ratios.get((topic, codec_id), INITIAL)

    def plain_limit(self, topic: str, *, codec_id: int, batch_size: int) -> int:
        """How many plain bytes probably fit into *batch_size* compressed ones; without a codec, just as many."""
        return batch_size if codec_id == 0 else int(batch_size / (self.ratio(topic, codec_id=codec_id) * CAUTION))

    def observe(self, topic: str, *, codec_id: int, ratio: float) -> None:
        """Take in what a batch came to."""
        with self._lock:
            current = self.ratio(topic, codec_id=codec_id)
            if ratio > current:
                self._ratios[topic, codec_id] = max(current + DETERIORATING_STEP, ratio)
            elif ratio < current:
                self._ratios[topic, codec_id] = max(current - IMPROVING_STEP, ratio)

    def start_over(self, topic: str, *, codec_id: int, ratio: float) -> None:
        """A batch of this *ratio* was too large for the broker and is split: be careful again."""
        with self._lock:
            self._ratios[topic, codec_id] = max(INITIAL, ratio)
