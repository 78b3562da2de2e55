"""Ottla: a Kafka producer made of plugins.

Public are the names in `__all__` of this package and of `ottla.errors`, `ottla.interfaces`, `ottla.hookspecs`,
`ottla.transactions`, `ottla.tables.sealed` and `ottla.doctor`. All other modules are private: they may change in any
version.
"""

from ottla.config.allow_lists import allow
from ottla.errors import (
    AbortableError,
    BrokerError,
    BufferExhausted,
    ConfigError,
    DeliveryFailed,
    DeliveryTimeout,
    ErrorCode,
    FlushTimeout,
    InvalidRecord,
    OttlaError,
    PluginBroken,
    PluginError,
    PluginMissing,
    ProducerClosed,
    ProducerFailed,
    ProducerFenced,
    RecordTooLarge,
    SecurityRefused,
    SerializationFailed,
    TableUndelivered,
    TableUnreadable,
    TopicUnavailable,
    TransactionAborted,
    TransactionError,
    TransactionFailed,
    TransactionTimeout,
    UndeliveredError,
)
from ottla.interfaces import MetricName
from ottla.network.cluster import Broker, PartitionInfo
from ottla.producer import Producer
from ottla.producer.build import check_config
from ottla.producer.delivery import Delivery
from ottla.results import DeliveryReport, PartitionResult, RecordMetadata, TableResult, TopicReport
from ottla.tables.delivery import TableDelivery
from ottla.transactions.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.transactions.prepared import PreparedTransaction
from ottla.version import __version__

__all__ = [
    "AbortableError",
    "Broker",
    "BrokerError",
    "BufferExhausted",
    "ConfigError",
    "ConsumerGroupMetadata",
    "Delivery",
    "DeliveryFailed",
    "DeliveryReport",
    "DeliveryTimeout",
    "ErrorCode",
    "FlushTimeout",
    "InvalidRecord",
    "MetricName",
    "OffsetAndMetadata",
    "OttlaError",
    "PartitionInfo",
    "PartitionResult",
    "PluginBroken",
    "PluginError",
    "PluginMissing",
    "PreparedTransaction",
    "Producer",
    "ProducerClosed",
    "ProducerFailed",
    "ProducerFenced",
    "RecordMetadata",
    "RecordTooLarge",
    "SecurityRefused",
    "SerializationFailed",
    "TableDelivery",
    "TableResult",
    "TableUndelivered",
    "TableUnreadable",
    "TopicReport",
    "TopicUnavailable",
    "TransactionAborted",
    "TransactionError",
    "TransactionFailed",
    "TransactionTimeout",
    "UndeliveredError",
    "__version__",
    "allow",
    "check_config",
]


def __dir__() -> list[str]:
    # Without the modules that were imported: what no page documents is private.
    return sorted(__all__)
