"""Ottla: a Kafka producer made of plugins."""

from ottla.allow_lists import allow
from ottla.assembly import check_config
from ottla.cluster import Broker, PartitionInfo
from ottla.delivery import Delivery
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
from ottla.producer import Producer
from ottla.records import RecordMetadata
from ottla.reports import DeliveryReport, TopicReport
from ottla.table_delivery import PartitionResult, TableDelivery, TableResult
from ottla.transaction_manager import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
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
