"""The configuration of a producer: read once, checked as a whole, handed out in frozen sections."""

from ottla.config.catalogue import Row, describe
from ottla.config.draft import ConfigDraft
from ottla.config.sections import (
    BatchingConfig,
    ConnectionConfig,
    DeliveryConfig,
    DnsLookup,
    MetadataConfig,
    PartitioningConfig,
    ProducerConfig,
    RecoveryStrategy,
    SecurityProtocol,
    SerializationConfig,
    SerializerChoice,
)
from ottla.config.values import PluginValues

__all__ = [
    "BatchingConfig",
    "ConfigDraft",
    "ConnectionConfig",
    "DeliveryConfig",
    "DnsLookup",
    "MetadataConfig",
    "PartitioningConfig",
    "PluginValues",
    "ProducerConfig",
    "RecoveryStrategy",
    "Row",
    "SecurityProtocol",
    "SerializationConfig",
    "SerializerChoice",
    "describe",
]
