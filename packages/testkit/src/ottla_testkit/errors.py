"""What can go wrong with a test's Kafka, grouped by whose fault it is."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """A real cluster refused something or could not be started; the message carries the log's tail."""


class KafkaUnavailableError(ClusterError):
    """This machine lacks what a broker needs (Java, or its jars); the message says what helps."""


class JarDigestError(ClusterError):
    """A jar that was fetched, or lies in the cache, is not the one that is pinned; Java has not run it."""


class PortInUseError(ClusterError):
    """A node ended because another process holds one of its ports."""


class ProxyError(RuntimeError):
    """The process of a `DelayingProxy` has ended by itself."""


class MockError(RuntimeError):
    """librdkafka refused a call to its mock cluster."""


class MockUnavailableError(MockError):
    """There is no librdkafka to be found; the message says what to install."""


def tail(text: str, *, characters: int = 3000) -> str:
    """The end of a log, where the reason usually is."""
    return text if len(text) <= characters else "[...]" + text[-characters:]
