"""The payload of a push: metrics, read, encoded and compressed on a separate thread.

Reading may call functions of plugins and of the application, which may hang. On the I/O thread they would delay
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from ottla.concurrency.environment import Environment
from ottla.errors import counted
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.metrics.catalogue import PRODUCER
from ottla.sender.telemetry.compression import TelemetryCompressors
from ottla.sender.telemetry.metric_reading import MetricReader, Reading
from ottla.sender.telemetry.otlp import Attributes, metrics_data
from ottla.sender.telemetry.subscription import Subscription
from ottla.version import __version__

logger = robust_logger(__name__)


@attrs.frozen(kw_only=True)
class Payload:
    """The content of a push, compressed with a codec."""

    compression_type: int
    content: bytes


@attrs.define(eq=False)
class PayloadInProgress:
    """A payload that is being made. Once it is *finished*, *payload* is set, or None if there is none to push."""

    finished: bool = False
    payload: Payload | None = None


class PayloadBuilder:
    """Makes payloads, one at a time, and calls *wake* after each."""

    def __init__(
        self,
        *,
        reader: MetricReader,
        compressors: TelemetryCompressors,
        resource: Attributes,
        client_id: str,
        wake: Callable[[], object],
        environment: Environment,
    ) -> None:
        self._reader = reader
        self._compressors = compressors
        self._resource = resource
        self._client_id = client_id
        self._wake = wake
        self._make_thread = environment.thread
        self._throttled_log = ThrottledLog(logger, clock=environment.clock)
        self._too_large: set[tuple[int, bool]] = set()
        """The limits for which a line says that the metrics are too large: of all, or of the producer alone."""

    def begin(self, subscription: Subscription) -> PayloadInProgress:
        """Begin to make a payload. It is made on this thread if the system has no other one left."""
        begun = PayloadInProgress()
        run = partial(self._run, begun, subscription)
        try:
            self._make_thread(run, f"ottla-telemetry-{self._client_id}").start()
        except RuntimeError as error:  # also at the end of the interpreter, for the last push
            logger.debug("%s: the metrics of a push are read on the I/O thread: %s", self._client_id, error)
            run()
        return begun

    def take_back(self) -> None:
        """Push what the last payload had once more, with the next one: brokers have refused it."""
        self._reader.take_back()

    def _run(self, begun: PayloadInProgress, subscription: Subscription) -> None:
        try:
            begun.payload = self.build(subscription)
        except faults() as error:
            self._throttled_log.error("payload", "%s: no metrics are pushed", self._client_id, error=error)
        finally:
            begun.finished = True
            self._wake()

    def build(self, subscription: Subscription) -> Payload | None:
        """The payload of all metrics that are wanted, or only of those of the whole producer if that is too large.

        Returns None if these are too large, too.
        """
        readings, at_ns = self._reader.read(subscription), self._reader.now_ns()
        for chosen in (readings, [each for each in readings if each.metric.group == PRODUCER]):
            payload = self._pack(chosen, at_ns, subscription.compression_types)
            if not subscription.max_bytes or len(payload.content) <= subscription.max_bytes:
                self._reader.note_pushed(chosen, at_ns)
                return payload
            self._warn_once(chosen, len(payload.content), subscription.max_bytes, all_of_them=chosen is readings)
        return None

    def _warn_once(self, chosen: Sequence[Reading], size: int, max_bytes: int, *, all_of_them: bool) -> None:
        case = (max_bytes, all_of_them)
        if case in self._too_large:
            return
        self._too_large.add(case)
        logger.warning(
            "%s: %s need %d bytes, and brokers take at most %d in a push (telemetry.max.bytes); %s",
            self._client_id,
            counted(len(chosen), "metric"),
            size,
            max_bytes,
            "only those of the whole producer are pushed" if all_of_them else "nothing is pushed",
        )

    def _pack(self, readings: Sequence[Reading], at_ns: int, accepted: Sequence[int]) -> Payload:
        metrics = self._reader.metrics(readings, at_ns)
        plain = metrics_data(metrics, resource=self._resource, scope="ottla", version=__version__)
        compression_type, content = self._compressors.compress(plain, accepted)
        return Payload(compression_type=compression_type, content=content)
