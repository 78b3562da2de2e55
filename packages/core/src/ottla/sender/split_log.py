"""Log lines about batches that brokers refused as too large: at most one for a topic in half a minute, with a count."""

from __future__ import annotations

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import counted
from ottla.errors.log_throttle import SILENCE_SECONDS
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)


class SplitLog:
    """The topics of one client whose batches were split. For the I/O thread, without a lock."""

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        self._silent: dict[str, tuple[float, int]] = {}

    def split(self, batch: ProducerBatch, parts: int, now: float) -> None:
        """Note that a batch is sent again in so many parts."""
        until, unlogged = self._silent.get(batch.topic, (now, 0))
        if now < until:
            self._silent[batch.topic] = (until, unlogged + 1)
            return
        self._silent[batch.topic] = (now + SILENCE_SECONDS, 0)
        more = f"; {counted(unlogged, 'more batch')} of the topic since the last line" if unlogged else ""
        logger.warning(
            "%s: %s-%d refused a too large batch of %s: sending it in %s, and smaller batches to this topic; raise the "
            "topic's max.message.bytes, or lower batch.size%s",
            self._client_id,
            batch.topic,
            batch.partition,
            counted(batch.count, "record"),
            counted(parts, "part"),
            more,
        )
