"""Plugins that hang under the lock of the queues, or an encoder's under that of its batch, found by those who need it.

Both locks are held for milliseconds at most. The end of a producer waits at most `LOCK_TIMEOUT_SECONDS` for them.
"""

from __future__ import annotations

from typing import Final

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.locked_columns import LockedColumns
from ottla.concurrency.locks import holder_of
from ottla.results.value_methods import ValueMethods

LOCK_TIMEOUT_SECONDS: Final = 0.5
"""The time after which a lock counts as one that a plugin holds while it hangs."""


@attrs.frozen(eq=False, repr=False)
class HangingPlugins(ValueMethods):
    """The locks of a producer's batches that are not released. For any thread, without a lock."""

    _batches: IncompleteBatches

    def thread(self) -> int | None:
        """The thread of a plugin that hangs under a lock, or None if there is none, or it is not known."""
        batch = self.batch_of_encoder()
        if batch is not None and isinstance(batch.columns, LockedColumns):
            return holder_of(batch.columns.lock)
        with self._batches.guard.within(LOCK_TIMEOUT_SECONDS) as entered:
            return None if entered else holder_of(self._batches.lock)

    def batch_of_encoder(self) -> ProducerBatch | None:
        """The batch of an encoder that hangs in `append`, or None if there is none."""
        return next((each for each in list(self._batches.all) if not _is_free(each)), None)


def _is_free(batch: ProducerBatch) -> bool:
    """Return whether a batch can be locked; those of the core's own columns always can."""
    columns = batch.columns
    if not isinstance(columns, LockedColumns):
        return True
    free = columns.lock.acquire(timeout=LOCK_TIMEOUT_SECONDS)
    if free:
        columns.lock.release()
    return free
