"""Ottla: a Kafka producer made of plugins."""

from ottla.assembly import check_config
from ottla.delivery import Delivery
from ottla.errors import (
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
    RecordTooLarge,
    SerializationFailed,
    TableUndelivered,
    TableUnreadable,
    TopicUnavailable,
    UndeliveredError,
)
from ottla.producer import Producer
from ottla.records import RecordMetadata
from ottla.reports import DeliveryReport, TopicReport
from ottla.table_delivery import PartitionResult, TableDelivery, TableResult
from ottla.version import __version__

__all__ = [
    "BrokerError",
    "BufferExhausted",
    "ConfigError",
    "Delivery",
    "DeliveryFailed",
    "DeliveryReport",
    "DeliveryTimeout",
    "ErrorCode",
    "FlushTimeout",
    "InvalidRecord",
    "OttlaError",
    "PartitionResult",
    "PluginBroken",
    "PluginError",
    "PluginMissing",
    "Producer",
    "ProducerClosed",
    "ProducerFailed",
    "RecordMetadata",
    "RecordTooLarge",
    "SerializationFailed",
    "TableDelivery",
    "TableResult",
    "TableUndelivered",
    "TableUnreadable",
    "TopicReport",
    "TopicUnavailable",
    "UndeliveredError",
    "__version__",
    "check_config",
]
