"""All metrics of a producer as data: Java's name, meaning, and how each is read.

Java's metrics that are missing are listed as well, with the reasons. Units of counters and gauges are in
`ottla.metrics.units`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from ottla.metrics.units import AMOUNTS, EVENTS, GAUGES, RATIO

PRODUCER: Final = "producer-metrics"
NODE: Final = "producer-node-metrics"
TOPIC: Final = "producer-topic-metrics"
COUNT: Final = "kafka-metrics-count"
APP: Final = "app-info"

CONNECTIONS: Final = "connections"
"""A metric that exists once there are encrypted connections, with its own tags."""

OF_CIPHERS: Final = ("client-id", "cipher", "protocol")
"""The labels of its tags."""

RECORD_SIZES: Final = "plain / records"
"""A source of two counters: single records are never counted."""

LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    PRODUCER: ("client-id",),
    NODE: ("client-id", "node-id"),
    TOPIC: ("client-id", "topic"),
    COUNT: ("client-id",),
    APP: ("client-id", "version"),
}
"""The labels of each group's tags, in order."""


class ValueKind(enum.Enum):
    """The computation of a value from a counter; values of a window cover the last samples only."""

    TIMES = "how often, since the beginning"
    SUM = "how much, since the beginning"
    TIMES_PER_SECOND = "how often in a second of the window"
    SUM_PER_SECOND = "how much in a second of the window"
    MEAN = "the mean of the window"
    MEAN_NANOSECONDS = "the mean of the window, of a counter in seconds"
    MAXIMUM = "the largest of the window"
    NANOSECONDS = "time spent, since the beginning"
    GAUGE = "as it is now"

    @property
    def cumulative(self) -> bool:
        """Return whether the value only grows."""
        return self in (ValueKind.TIMES, ValueKind.SUM, ValueKind.NANOSECONDS)


@attrs.frozen(eq=False, repr=False)
class Metric:
    """One metric; `source` is the counter that it is read from, in the scope of its group."""

    group: str
    name: str
    kind: ValueKind
    source: str
    meaning: str

    @property
    def unit(self) -> str:
        """The unit of its values; "1" for a ratio."""
        match self.kind:
            case ValueKind.GAUGE:
                return GAUGES[self.name]
            case ValueKind.NANOSECONDS | ValueKind.MEAN_NANOSECONDS:
                return "ns"
            case ValueKind.TIMES:
                return EVENTS[self.source]
            case ValueKind.TIMES_PER_SECOND:
                return f"{EVENTS[self.source]}/s"
            case ValueKind.SUM_PER_SECOND:
                amount = AMOUNTS[self.source]
                return RATIO if amount == "s" else f"{amount}/s"  # seconds in a second
            case _:
                return AMOUNTS[self.source]


@attrs.frozen(eq=False, repr=False)
class HistogramMetric:
    """One histogram; `source` is the field with its buckets, in the scope of its group."""

    group: str
    name: str
    source: str
    unit: str
    meaning: str


def _counted(group: str, name: str, source: str, what: str, *, times: bool = False) -> list[Metric]:
    total, rate = (ValueKind.TIMES, ValueKind.TIMES_PER_SECOND) if times else (ValueKind.SUM, ValueKind.SUM_PER_SECOND)
    return [
        Metric(group, f"{name}-total", total, source, f"{what}."),
        Metric(group, f"{name}-rate", rate, source, f"{what}, in a second."),
    ]


def _measured(group: str, name: str, source: str, what: str) -> list[Metric]:
    return [
        Metric(group, f"{name}-avg", ValueKind.MEAN, source, f"{what}, on average."),
        Metric(group, f"{name}-max", ValueKind.MAXIMUM, source, f"{what}, at most."),
    ]


def _requests(group: str) -> list[Metric]:
    return [
        *_counted(group, "request", "requests", "Requests sent", times=True),
        *_measured(group, "request-size", "requests", "Bytes of a request"),
        *_counted(group, "response", "responses", "Responses received", times=True),
        *_counted(group, "outgoing-byte", "requests", "Bytes of requests sent, before encryption"),
        *_counted(group, "incoming-byte", "responses", "Bytes of responses received, after decryption"),
        *_measured(group, "request-latency", "latencies", "Milliseconds from a Produce request to its response"),
    ]


def _gauge(name: str, meaning: str, *, group: str = PRODUCER) -> Metric:
    return Metric(group, name, ValueKind.GAUGE, name, meaning)


def _time_spent(name: str, source: str, what: str) -> Metric:
    return Metric(PRODUCER, name, ValueKind.NANOSECONDS, source, f"Nanoseconds spent {what}.")


def _timed(name: str, source: str, what: str) -> list[Metric]:
    return [
        Metric(PRODUCER, f"{name}-time-ns-total", ValueKind.NANOSECONDS, source, f"Nanoseconds {what}."),
        Metric(PRODUCER, f"{name}-time-ns-avg", ValueKind.MEAN_NANOSECONDS, source, f"Nanoseconds {what}, on average."),
        Metric(PRODUCER, f"{name}-ratio", ValueKind.SUM_PER_SECOND, source, f"Seconds {what}, in a second."),
    ]


_ERRORS: Final = "Records that failed after they had been queued, except those that an aborted transaction dropped"

METRICS: Final[tuple[Metric, ...]] = (
    *_counted(PRODUCER, "record-send", "records", "Records sent in requests, counted again for each retry"),
    *_counted(PRODUCER, "record-retry", "retries", "Records whose batch was queued again after a failure"),
    *_counted(PRODUCER, "record-error", "errors", _ERRORS),
    Metric(PRODUCER, "records-per-request-avg", ValueKind.MEAN, "records", "Records of a Produce request, on average."),
    *_measured(PRODUCER, "batch-size", "batches", "Bytes of a batch on the wire"),
    *_counted(PRODUCER, "batch-split", "splits", "Batches that were too large for their topic, and split", times=True),
    Metric(
        PRODUCER,
        "compression-rate-avg",
        ValueKind.MEAN,
        "ratios",
        "Compressed size of a batch's records divided by their plain size, on average.",
    ),
    Metric(
        PRODUCER,
        "record-size-avg",
        ValueKind.MEAN,
        RECORD_SIZES,
        "Bytes of a record in its batch before compression, on average.",
    ),
    *_measured(PRODUCER, "record-queue-time", "waits", "Milliseconds that a batch waited before it was sent"),
    *_requests(PRODUCER),
    _gauge("requests-in-flight", "Requests that wait for their response."),
    _gauge(
        "oldest-request-age",
        "Seconds since the oldest request that waits for its response was sent; 0 without one. Not in Java's producer.",
    ),
    _gauge(
        "oldest-record-age",
        "Seconds since the oldest record that is neither acknowledged nor failed was queued; 0 without one. Not in "
        "Java's producer.",
    ),
    *_measured(
        PRODUCER,
        "produce-throttle-time",
        "throttles",
        "Milliseconds for which a response asked the client to wait (quotas)",
    ),
    _gauge("connection-count", "Connections that are open."),
    _gauge(CONNECTIONS, "Encrypted connections that are open; the tags have their cipher suite and protocol."),
    *_counted(PRODUCER, "connection-creation", "connected", "Connections made", times=True),
    *_counted(PRODUCER, "connection-close", "closed", "Connections closed, or lost", times=True),
    *_counted(PRODUCER, "successful-authentication", "logins", "Connections with a successful SASL login", times=True),
    *_counted(
        PRODUCER,
        "failed-authentication",
        "refusals",
        "Connections that failed SASL or TLS authentication",
        times=True,
    ),
    *_counted(PRODUCER, "successful-reauthentication", "renewals", "SASL sessions renewed", times=True),
    *_measured(
        PRODUCER,
        "reauthentication-latency",
        "renewal_times",
        "Milliseconds in which a session was renewed, and its connection took no requests",
    ),
    *_counted(
        PRODUCER, "failed-reauthentication", "lost_renewals", "SASL sessions whose renewal was refused", times=True
    ),
    *_counted(PRODUCER, "select", "polls", "Waits of the I/O thread for its sockets (`select`)", times=True),
    *_timed("io-wait", "io_waits", "in which the I/O thread waited for its sockets"),
    *_timed("io", "io", "in which the I/O thread read and wrote after a wait"),
    *_counted(PRODUCER, "network-io", "operations", "Reads and writes of connections", times=True),
    _gauge("buffer-total-bytes", "Maximum bytes that records may occupy: buffer.memory."),
    _gauge("buffer-available-bytes", "Free bytes of buffer.memory."),
    _gauge("waiting-threads", "Threads that wait in `send` for memory."),
    _time_spent("bufferpool-wait-time-ns-total", "memory_waits", "by threads waiting for memory"),
    Metric(
        PRODUCER,
        "bufferpool-wait-ratio",
        ValueKind.SUM_PER_SECOND,
        "memory_waits",
        "Seconds that threads waited for memory, in a second; above 1 when several wait.",
    ),
    *_counted(
        PRODUCER,
        "buffer-exhausted",
        "memory_refusals",
        "Records that `send` refused because no memory came free within max.block.ms",
        times=True,
    ),
    _gauge(
        "metadata-age", "Seconds since the last metadata response; before the first one, since the producer was made."
    ),
    _time_spent("metadata-wait-time-ns-total", "metadata_wait", "by threads waiting for a topic that was not known"),
    _time_spent("flush-time-ns-total", "flush", "in `flush`"),
    _time_spent("txn-init-time-ns-total", "txn_init", "in `init_transactions`"),
    _time_spent("txn-begin-time-ns-total", "txn_begin", "in `begin_transaction`"),
    _time_spent("txn-send-offsets-time-ns-total", "txn_send_offsets", "in `send_offsets_to_transaction`"),
    _time_spent("txn-prepare-time-ns-total", "txn_prepare", "in `prepare_transaction`"),
    _time_spent("txn-commit-time-ns-total", "txn_commit", "in `commit_transaction`"),
    _time_spent("txn-abort-time-ns-total", "txn_abort", "in `abort_transaction`"),
    *_requests(NODE),
    *_counted(TOPIC, "record-send", "records", "Records sent in requests, counted again for each retry"),
    *_counted(TOPIC, "record-retry", "retries", "Records whose batch was queued again after a failure"),
    *_counted(TOPIC, "record-error", "errors", _ERRORS),
    *_counted(TOPIC, "byte", "batches", "Bytes of batches on the wire"),
    Metric(
        TOPIC,
        "compression-rate",
        ValueKind.MEAN,
        "ratios",
        "Compressed size of a batch's records divided by their plain size, on average.",
    ),
    _gauge("count", "Metrics in this snapshot.", group=COUNT),
    _gauge("start-time-ms", "The time at which the producer was made, in milliseconds since 1970.", group=APP),
    _gauge("version", "1; the tag has the version of Ottla.", group=APP),
)

HISTOGRAMS: Final[tuple[HistogramMetric, ...]] = (
    HistogramMetric(
        PRODUCER,
        "produce-throttle-time",
        "throttle_buckets",
        "ms",
        "Milliseconds for which a response asked the client to wait (quotas).",
    ),
    HistogramMetric(
        NODE, "request-latency", "latency_buckets", "ms", "Milliseconds from a Produce request to its response."
    ),
    HistogramMetric(TOPIC, "batch-size", "batch_sizes", "bytes", "Bytes of a batch on the wire."),
    HistogramMetric(
        TOPIC,
        "record-size",
        "record_sizes",
        "bytes",
        "Bytes of a record before compression; each record counts with the mean of its batch.",
    ),
    HistogramMetric(
        TOPIC,
        "record-queue-time",
        "queue_times",
        "ms",
        "Milliseconds that records waited before they were sent; each record counts with the time of its batch.",
    ),
    HistogramMetric(
        TOPIC,
        "record-delivery-time",
        "delivery_times",
        "ms",
        "Milliseconds from a record's queueing to its acknowledgement; each record counts with the time of its batch.",
    ),
)
"""Distributions of values since the producer began. Java's producer has none."""

MISSING: Final[Mapping[tuple[str, str], str]] = {
    (PRODUCER, "record-size-max"): "every record would have to be measured; the histogram `record-size` has the sizes",
    (PRODUCER, "successful-authentication-no-reauth-total"): "it has a meaning for brokers only",
    (APP, "commit-id"): "a package has a version, and no commit",
}
"""Metrics of Java's producer that do not exist here, and why."""
