"""What `ottla perf` prints: a line for each interval, and the result as text or JSON."""

from __future__ import annotations

from contextlib import suppress

import click

from ottla.cli.perf.latencies import Interval
from ottla.cli.perf.load import Result
from ottla.cli.rates import MEGABYTE, per_second


def show_interval(interval: Interval) -> None:
    """Print a line for an interval to the standard error. If that takes none, such as a full disk, the run goes on."""
    rate, megabytes = _rates(interval.records, interval.size, interval.seconds)
    with suppress(OSError):
        click.echo(
            f"{interval.ends_at:7.1f} s: {interval.records:,} acknowledged, {rate:,.0f}/s, {megabytes:,.2f} MB/s, "
            f"latency {interval.average_ms:,.1f} ms, at most {interval.max_ms:,.1f} ms",
            err=True,
        )


def document(topic: str, result: Result) -> dict[str, object]:
    """The result as JSON."""
    rate, megabytes = _rates(result.acknowledged, result.size, result.seconds)
    latencies = result.latencies
    return {
        "topic": topic,
        "ok": not result.error and result.acknowledged == result.sent,
        "records": result.sent,
        "acknowledged": result.acknowledged,
        "failed": result.failed,
        "bytes": result.size,
        "seconds": round(result.seconds, 3),
        "records_per_second": round(rate, 1),
        "megabytes_per_second": round(megabytes, 3),
        "latency_ms": {
            "avg": round(latencies.average_ms, 3),
            **{f"p{percent:g}": round(value, 3) for percent, value in latencies.percentiles.items()},
            "max": round(latencies.max_ms, 3),
        },
        "interrupted": result.interrupted,
        "error": result.error,
        "failures": result.failures,
        "intervals": [
            {
                "ends_at": round(each.ends_at, 3),
                "seconds": round(each.seconds, 3),
                "records": each.records,
                "bytes": each.size,
                "latency_avg_ms": round(each.average_ms, 3),
                "latency_max_ms": round(each.max_ms, 3),
            }
            for each in result.intervals
        ],
    }


def text(result: Result) -> str:
    """The result for people."""
    rate, megabytes = _rates(result.acknowledged, result.size, result.seconds)
    latencies = result.latencies
    percentiles = ", ".join(f"{percent:g} %: {value:,.2f}" for percent, value in latencies.percentiles.items())
    lines = [
        f"records acknowledged: {result.acknowledged:,}, failed: {result.failed:,}; "
        f"{result.size / MEGABYTE:,.1f} MB in {result.seconds:,.2f} s",
        f"records per second: {rate:,.0f}, MB per second: {megabytes:,.2f}",
        f"latency in ms: {latencies.average_ms:,.2f} on average; {percentiles}; at most {latencies.max_ms:,.2f}",
    ]
    lines += [f"failed: {failure}" for failure in result.failures]
    lines += [f"stopped: {result.error}"] if result.error else []
    return "\n".join(lines)


def _rates(records: int, size: int, seconds: float) -> tuple[float, float]:
    return per_second(records, seconds), per_second(size / MEGABYTE, seconds)
