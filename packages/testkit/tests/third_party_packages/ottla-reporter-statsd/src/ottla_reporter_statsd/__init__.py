"""The reporter for `metric.reporters=statsd`."""

from ottla_reporter_statsd.plugin import StatsdReporter

__all__ = ["StatsdReporter"]
