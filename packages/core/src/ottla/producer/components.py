"""The parts of a producer behind its public methods: configuration, plugins, queues, threads, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import attrs

from ottla.accumulator.build import Queueing
from ottla.concurrency.environment import Environment
from ottla.config import ProducerConfig
from ottla.config.in_force import SettingsInForce, replaced
from ottla.errors import OttlaError
from ottla.metrics import MetricValues
from ottla.network.metadata import Metadata
from ottla.plugins.selection import Plugins
from ottla.producer.lifecycle import RoundRunner
from ottla.producer.reporters import Reporting
from ottla.sender.telemetry.telemetry_sender import TelemetrySender

if TYPE_CHECKING:
    from ottla.producer.interceptors import Interceptors
    from ottla.producer.transactions import Transactions
    from ottla.transactions.manager import TransactionManager


def build_metric_values(
    plugins: Plugins,
    queueing: Queueing,
    metadata: Metadata,
    *,
    in_flight: Callable[[], int],
    oldest_sent_at: Callable[[], float | None],
    environment: Environment,
) -> MetricValues:
    """Build the metrics of a producer with these parts.

    *in_flight* counts its requests, and *oldest_sent_at* returns when the oldest of them was sent.
    """
    pool, spent, clock = queueing.pool, queueing.counters.producer, environment.clock
    accumulator = queueing.accumulator

    def age(since: float | None) -> float:
        return 0.0 if since is None else max(0.0, clock() - since)

    return MetricValues(
        counters=queueing.counters,
        client_id=plugins.client_id,
        gauges={
            "requests-in-flight": in_flight,
            "oldest-request-age": lambda: age(oldest_sent_at()),
            "oldest-record-age": lambda: age(accumulator.oldest_created_at()),
            "connection-count": lambda: spent.connected.count - spent.closed.count,
            "buffer-total-bytes": lambda: pool.capacity,
            "buffer-available-bytes": lambda: pool.free,
            "waiting-threads": lambda: pool.waiting,
            "metadata-age": lambda: metadata.age(clock()),
        },
        clock=clock,
        started_at_ms=float(environment.time_ns() // 1_000_000),
        plugins=plugins.objects.metrics,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Engine:
    """A producer without its public methods, not started. *interceptors* is None if there are none."""

    config: ProducerConfig
    plugins: Plugins
    queueing: Queueing
    metadata: Metadata
    io_thread: RoundRunner
    transactions: Transactions | None
    metric_values: MetricValues
    telemetry: TelemetrySender | None
    reporting: Reporting
    interceptors: Interceptors | None
    clock: Callable[[], float]
    max_lookup: float
    """Seconds for which a call may wait for lookups of serializers."""

    def settings_in_force(self) -> SettingsInForce:
        """The settings for display, with the client id that was generated."""
        settings, client_id = self.config.in_force, self.plugins.client_id
        if settings.get("client.id") in ("", None):
            return replaced(settings, "client.id", client_id, source="generated")
        return settings

    def obstacle(self) -> OttlaError | None:
        """What keeps queued records from brokers, if an error is known that does. For any thread, without a lock."""
        return self.metadata.last_error or self.queueing.accumulator.last_error()

    def set_interceptors_apart(self) -> None:
        """Have no callback wait for an interceptor any more: one may be what the I/O thread hangs in."""
        if self.interceptors is not None:
            self.interceptors.set_apart()

    @classmethod
    def build(
        cls,
        config: ProducerConfig,
        plugins: Plugins,
        queueing: Queueing,
        *,
        metadata: Metadata,
        io_thread: RoundRunner,
        manager: TransactionManager | None,
        metric_values: MetricValues,
        telemetry: TelemetrySender | None = None,
        wake: Callable[[], object],
        environment: Environment,
        max_lookup: float,
    ) -> Self:
        """An engine of these parts; *wake* begins a round, for transactions."""
        interceptors = transactions = None
        if plugins.interceptors:
            from ottla.producer.interceptors import Interceptors

            interceptors = Interceptors(plugins.interceptors, environment=environment)
        if manager is not None:
            from ottla.producer.transactions import Transactions

            transactions = Transactions(
                manager=manager,
                accumulator=queueing.accumulator,
                max_block=config.batching.max_block,
                wake=wake,
                obstacle=lambda: metadata.last_error or queueing.accumulator.last_error(),
            )
        return cls(
            config=config,
            plugins=plugins,
            queueing=queueing,
            metadata=metadata,
            io_thread=io_thread,
            transactions=transactions,
            metric_values=metric_values,
            telemetry=telemetry,
            reporting=Reporting(plugins.reporters, metric_values, closer=plugins.objects.closer),
            interceptors=interceptors,
            clock=environment.clock,
            max_lookup=max_lookup,
        )
