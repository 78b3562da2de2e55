"""What is to be completed on an event loop when a record has its outcome: the wait of a task, or a callback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeAlias

import attrs

from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.accumulator.task_wait import TaskWait
from ottla.errors.robust_logger import robust_logger
from ottla.results import RecordMetadata

logger = robust_logger(__name__)


class WaitedDelivery(Protocol):
    """The part of a delivery's interface that waits on a loop use."""

    _batch: Any
    _index: int

    @property
    def error(self) -> BaseException | None:
        """The error with which the record failed; reading it marks it as retrieved."""

    def _place(self) -> tuple[Any, int]:
        """The batch that the record is in now, and its index there."""


@attrs.frozen(eq=False)
class LoopCallback:
    """A callback of one record that runs on the loop, in the context of the task that sent the record.

    So it finds the task's context variables, as the callbacks of asyncio do, and not those of another task.
    """

    function: Callable[[Any], object]
    """Gets the delivery."""
    context: Context = attrs.field(factory=copy_context)

    def run(self, delivery: WaitedDelivery) -> None:
        """Call the function; an exception is logged and stops nothing.

        An error of the record counts as retrieved then, unless the function raises and has not read it.
        """
        batch, index = delivery._place()
        reads = batch.error_reads
        if reads is not None:
            reads.expect(index)
        try:
            self.context.run(self.function, delivery)
        except (KeyboardInterrupt, SystemExit):
            raise  # they end the loop, as from any other callback of it
        except BaseException:
            if reads is not None:
                reads.give_up(index)
            self._log(batch, index)
        else:
            if reads is not None:
                reads.read(index)

    @staticmethod
    def _log(batch: Any, index: int) -> None:
        failed = batch.outcome if isinstance(batch.outcome, Failed) else None
        more = raising_callbacks.line(failed=failed is not None)
        if more is None:
            return
        if failed is None:
            logger.exception("a delivery callback for %s raised; the producer continues%s", batch, more)
        else:
            logger.exception(
                "a delivery callback for %s raised when it got this error, and the producer continues: %s%s",
                batch,
                failed.error_of(index),
                more,
            )


RecordWait: TypeAlias = TaskWait[RecordMetadata | None]
"""A wait for a record, completed with None if the task is to look up the record's outcome itself."""

Waiting: TypeAlias = RecordWait | LoopCallback


def give_up_errors(records: Sequence[tuple[WaitedDelivery, Waiting]]) -> int:
    """Leave the errors of records to others: nothing here will read them. Returns the number of callbacks."""
    callbacks = 0
    for delivery, waiting in list(records):
        callbacks += isinstance(waiting, LoopCallback)
        batch, index = delivery._place()
        if batch.error_reads is not None:
            batch.error_reads.give_up(index)
    return callbacks
