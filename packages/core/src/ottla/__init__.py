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
    SecurityRefused,
    SerializationFailed,
    TopicUnavailable,
    UndeliveredError,
)
from ottla.producer import Producer
from ottla.records import RecordMetadata
from ottla.reports import DeliveryReport, TopicReport
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
    "PluginBroken",
    "PluginError",
    "PluginMissing",
    "Producer",
    "ProducerClosed",
    "ProducerFailed",
    "RecordMetadata",
    "RecordTooLarge",
    "SecurityRefused",
    "SerializationFailed",
    "TopicReport",
    "TopicUnavailable",
    "UndeliveredError",
    "__version__",
    "check_config",
]
