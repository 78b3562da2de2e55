"""A producer without a cluster, for tests of programs that send records."""

from ottla_testkit.mock_producer.async_producer import AsyncMockProducer
from ottla_testkit.mock_producer.producer import MockProducer
from ottla_testkit.mock_producer.sent_batches import SentRecord

__all__ = ["AsyncMockProducer", "MockProducer", "SentRecord"]
