"""The configuration of a producer: read once, checked as a whole, and split into frozen sections."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla.config.values import PluginValues

if TYPE_CHECKING:
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


_IMPORTED_LATE: Final = {
    "ConfigDraft": "draft",
    "Row": "config_def",
    "as_written": "core_settings",
    "describe": "config_def",
    "read": "settings",  # other programs need no parser of TOML
}
"""The modules of names that are not in `producer_config`. Processes that are passed values need none of them."""


def __getattr__(name: str) -> Any:
    if name in __all__ or name in _IMPORTED_LATE:
        return getattr(import_module(f"{__name__}.{_IMPORTED_LATE.get(name, 'producer_config')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
