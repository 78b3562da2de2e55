"""Log lines about partitions that do not take their records: the first failure, its repetitions, and the recovery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.errors import BrokerError, OttlaError, counted
from ottla.errors.outages import Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import ends_transaction
from ottla.sender.coordinator_log import LOGGED_AFTER

logger = robust_logger(__name__)

_UNLIMITED: Final = 2**31 - 1

_Partition: TypeAlias = tuple[str, int]
_Reason: TypeAlias = tuple[int | None, str]


class DeliveryLog:
    """Logs the partitions of one producer that fail. For the I/O thread, without a lock."""

    def __init__(self, *, client_id: str, retries: int, delivery_timeout: float) -> None:
        self._client_id = client_id
        attempts = "" if retries >= _UNLIMITED else f" up to {counted(retries, 'time')} (retries), and"
        self._next = f"retrying{attempts} until delivery.timeout.ms ({delivery_timeout:g} s) has passed"
        self._outages: Outages[_Partition, _Reason] = Outages(repeat_by_failure=True)
        self.active = False
        """Whether a partition fails, or a line is left to log; if not, `answered` need not be called."""

    def will_retry(self, batch: ProducerBatch, error: OttlaError, now: float) -> None:
        """Note an attempt that failed and will be repeated."""
        self.active = True
        kind = error.code.name if isinstance(error, BrokerError) else type(error).__name__
        self._outages.failed(
            (batch.topic, batch.partition),
            (batch.last_node, kind),
            str(error).rstrip("."),
            now,
            timeout=LOGGED_AFTER if ends_transaction(error) else 0.0,
        )

    def answered(self, batches: Iterable[ProducerBatch], now: float) -> None:
        """Note which batches of a request are acknowledged."""
        for batch in batches:
            if isinstance(batch.outcome, Acknowledged):
                self._outages.recovered((batch.topic, batch.partition), now)

    def due_at(self) -> float:
        """The time at which a line is due if nothing happens."""
        return self._outages.due_at()

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        for line in self._outages.take_lines(now):
            which = partitions(line.shown, line.count)
            if isinstance(line, OutageUpdate):
                self._write_outage(line, which)
            elif line.recovered:
                logger.info(
                    "%s: records for %s are acknowledged again, after %.1f s and %s",
                    *line.log_arguments(self._client_id, which),
                )
            else:
                logger.info(
                    "%s: no records are sent to %s any more; the last attempts failed, %d in %.1f s",
                    *line.log_arguments(self._client_id, which),
                )
        self.active = bool(self._outages)

    def _write_outage(self, line: OutageUpdate[_Partition, _Reason], which: str) -> None:
        node, _kind = line.reason
        if line.first:
            logger.warning(
                "%s: broker %s did not take records for %s: %s; %s",
                self._client_id,
                node,
                which,
                line.error,
                self._next,
            )
        else:
            logger.warning(
                "%s: broker %s still does not take records for %s, after %.1f s and %s: %s; %s",
                self._client_id,
                node,
                which,
                line.lasting,
                counted(line.failures, "more failed attempt"),
                line.error,
                self._next,
            )


def partitions(shown: Sequence[tuple[str, int]], count: int) -> str:
    """Partitions in a log line: some by name, the others as a number."""
    names = ", ".join(f"{topic}-{partition}" for topic, partition in shown)
    if count == 1:
        return f"partition {names}"
    return f"{count} partitions ({names}{', ...' if count > len(shown) else ''})"
