"""A producer without a cluster, for the tests of programs that send."""

from ottla_testkit.mock_producer.producer import MockProducer
from ottla_testkit.mock_producer.sent_batches import SentRecord

__all__ = ["MockProducer", "SentRecord"]
