"""Errors of the Kafka clusters of tests, grouped by their cause."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """A real cluster refused a request or could not be started; the message quotes the end of the log."""


class KafkaUnavailableError(ClusterError):
    """This machine lacks what a broker needs: Java, or Kafka's jars. The message says what helps."""


class JarDigestError(ClusterError):
    """A jar that was fetched or is in the cache differs from the pinned one; Java has not run it."""


class PortInUseError(ClusterError):
    """A node, or a proxy in front of it, could not begin because another process holds one of its ports."""


class ProxyError(RuntimeError):
    """The process of a `DelayingProxy` has ended unexpectedly."""


class MockError(RuntimeError):
    """librdkafka refused a call to its mock cluster."""


class MockUnavailableError(MockError):
    """librdkafka was not found; the message says what to install."""


def tail(text: str, *, characters: int = 3000) -> str:
    """Return the end of a log, where the cause usually is."""
    return text if len(text) <= characters else "[...]" + text[-characters:]
