"""A producer without a cluster, for the tests of programs that send."""

from ottla_testkit.mock_producer.outbox import SentRecord
from ottla_testkit.mock_producer.producer import MockProducer

__all__ = ["MockProducer", "SentRecord"]
