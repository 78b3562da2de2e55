"""The configuration of a producer: read once, checked as a whole, and split into frozen sections."""

from ottla.config.config_def import Row, describe
from ottla.config.core_settings import as_written
from ottla.config.draft import ConfigDraft
from ottla.config.producer_config import (
    BatchingConfig,
    ConnectionConfig,
    DeliveryConfig,
    DnsLookup,
    Idempotence,
    MetadataConfig,
    PartitioningConfig,
    ProducerConfig,
    RecoveryStrategy,
    SecurityProtocol,
    SerializationConfig,
    TransactionsConfig,
)
from ottla.config.values import PluginValues

__all__ = [
    "BatchingConfig",
    "ConfigDraft",
    "ConnectionConfig",
    "DeliveryConfig",
    "DnsLookup",
    "Idempotence",
    "MetadataConfig",
    "PartitioningConfig",
    "PluginValues",
    "ProducerConfig",
    "RecoveryStrategy",
    "Row",
    "SecurityProtocol",
    "SerializationConfig",
    "TransactionsConfig",
    "as_written",
    "describe",
]


def __getattr__(name: str) -> object:
    """`read` of `ottla.config.settings`, which is imported when it is used: other programs need no parser of TOML."""
    if name == "read":
        from ottla.config.settings import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
