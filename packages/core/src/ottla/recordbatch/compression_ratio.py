"""Estimated compression ratio of a topic and codec: it determines how much a batch may hold before compression.

Kafka's own estimation. A worse ratio counts in full or as a step, whichever is more; a better one only as a small step.
So batches seldom become larger than wanted.
"""

from __future__ import annotations

import threading
from typing import Final

INITIAL: Final = 1.0
IMPROVING_STEP: Final = 0.005
DETERIORATING_STEP: Final = 0.05
ESTIMATION_FACTOR: Final = 1.05
"""Safety factor on the estimated ratio: a batch is full a little earlier than estimated."""


class CompressionRatios:
    """The estimates of one producer, by topic and codec; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt it, and call this, too
        self._ratios: dict[tuple[str, int], float] = {}

    def ratio(self, topic: str, *, codec_id: int) -> float:
        """The current estimate of compressed size divided by uncompressed size."""
        return self._ratios.get((topic, codec_id), INITIAL)

    def observe(self, topic: str, *, codec_id: int, ratio: float) -> None:
        """Update the estimate with the ratio of a batch."""
        with self._lock:
            current = self.ratio(topic, codec_id=codec_id)
            if ratio > current:
                self._ratios[topic, codec_id] = max(current + DETERIORATING_STEP, ratio)
            elif ratio < current:
                self._ratios[topic, codec_id] = max(current - IMPROVING_STEP, ratio)

    def start_over(self, topic: str, *, codec_id: int, ratio: float) -> None:
        """Reset the estimate after a batch of this *ratio* was too large for the broker and is split."""
        with self._lock:
            self._ratios[topic, codec_id] = max(INITIAL, ratio)
