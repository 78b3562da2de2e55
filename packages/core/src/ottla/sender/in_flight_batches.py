"""The batches in flight, and those of them that have expired."""

from __future__ import annotations

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.partition_queue import FOREVER


class InFlightBatches:
    """Batches whose request was sent and is not complete. For the I/O thread, without a lock."""

    def __init__(self, delivery_timeout: float) -> None:
        self._delivery_timeout = delivery_timeout
        self._batches: dict[ProducerBatch, None] = {}
        self.next_expiry = FOREVER
        """The time before which no batch expires."""

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: ProducerBatch) -> None:
        """Add a batch that is being sent."""
        self._batches[batch] = None
        expires_at = batch.created_at + self._delivery_timeout
        if expires_at < self.next_expiry:
            self.next_expiry = expires_at

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch whose request is complete; one that has expired is not here any more."""
        self._batches.pop(batch, None)

    def take_expired(self, now: float) -> list[ProducerBatch]:
        """Remove and return the batches whose `delivery.timeout.ms` has passed."""
        late = [batch for batch in self._batches if batch.has_reached_delivery_timeout(self._delivery_timeout, now)]
        for batch in late:
            del self._batches[batch]
        oldest = min((batch.created_at for batch in self._batches), default=FOREVER)
        self.next_expiry = oldest + self._delivery_timeout
        return late

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()
        self.next_expiry = FOREVER
