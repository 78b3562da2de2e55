"""Ottla: a Kafka producer with plugins.

The public names are in `__all__` of this package and of `ottla.transactions`, `ottla.tables.sealed`, `ottla.aio`,
`ottla.config.settings`, `ottla.doctor` and `ottla.results.stories`. The contract with plugins are those of
`ottla.errors`, `ottla.interfaces`, `ottla.hookspecs`, `ottla.plugins.transports` and `ottla.config.allow_lists`. All
other modules are private: they may change in any version.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    BufferExhaustedError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    FatalTransactionError,
    FlushTimeoutError,
    IllegalStateError,
    InvalidPluginError,
    InvalidRecordError,
    OttlaError,
    PluginError,
    PluginNotFoundError,
    ProducerClosedError,
    ProducerFailedError,
    ProducerFencedError,
    RecordTooLargeError,
    SecurityError,
    SerializationError,
    TableDeliveryError,
    TableReadError,
    TopicUnavailableError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
    UndeliveredError,
)
from ottla.results.call_hints import IMPORT_HINTS
from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.accumulator.delivery import Delivery
    from ottla.config.allow_lists import allow
    from ottla.interfaces import MetricName
    from ottla.network.cluster import Broker, PartitionInfo
    from ottla.producer.closing_signals import close_on_signals
    from ottla.producer.config_check import check_config
    from ottla.producer.per_process import per_process
    from ottla.producer.producer import Producer
    from ottla.results import DeliveryReport, PartitionResult, RecordMetadata, TableProgress, TableResult, TopicReport
    from ottla.tables.table_delivery import TableDelivery
    from ottla.transactions.group_metadata import ConsumerGroupMetadata
    from ottla.transactions.offsets import OffsetAndMetadata
    from ottla.transactions.prepared_transaction import PreparedTransaction

__all__ = [
    "AbortableTransactionError",
    "Broker",
    "BrokerError",
    "BufferExhaustedError",
    "ConfigError",
    "ConsumerGroupMetadata",
    "Delivery",
    "DeliveryError",
    "DeliveryReport",
    "DeliveryTimeoutError",
    "ErrorCode",
    "FatalTransactionError",
    "FlushTimeoutError",
    "IllegalStateError",
    "InvalidPluginError",
    "InvalidRecordError",
    "MetricName",
    "OffsetAndMetadata",
    "OttlaError",
    "PartitionInfo",
    "PartitionResult",
    "PluginError",
    "PluginNotFoundError",
    "PreparedTransaction",
    "Producer",
    "ProducerClosedError",
    "ProducerFailedError",
    "ProducerFencedError",
    "RecordMetadata",
    "RecordTooLargeError",
    "SecurityError",
    "SerializationError",
    "TableDelivery",
    "TableDeliveryError",
    "TableProgress",
    "TableReadError",
    "TableResult",
    "TopicReport",
    "TopicUnavailableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionTimeoutError",
    "UndeliveredError",
    "__version__",
    "allow",
    "check_config",
    "close_on_signals",
    "per_process",
]


_IMPORTED_LATE: Final = {
    "Broker": "ottla.network.cluster",
    "ConsumerGroupMetadata": "ottla.transactions.group_metadata",
    "Delivery": "ottla.accumulator.delivery",
    "DeliveryReport": "ottla.results",
    "MetricName": "ottla.interfaces",
    "OffsetAndMetadata": "ottla.transactions.offsets",
    "PartitionInfo": "ottla.network.cluster",
    "PartitionResult": "ottla.results",
    "PreparedTransaction": "ottla.transactions.prepared_transaction",
    "Producer": "ottla.producer.producer",
    "RecordMetadata": "ottla.results",
    "TableDelivery": "ottla.tables.table_delivery",
    "TableProgress": "ottla.results",
    "TableResult": "ottla.results",
    "TopicReport": "ottla.results",
    "allow": "ottla.config.allow_lists",
    "check_config": "ottla.producer.config_check",
    "close_on_signals": "ottla.producer.closing_signals",
    "per_process": "ottla.producer.per_process",
}
"""The modules of all names but the errors.

A process that sends nothing, such as those in which Spark plans and commits a write, does not import a producer.
"""

_IMPORT: Final = "importlib._bootstrap"
"""The module whose code runs `from ottla import`, and looks there for each name first."""

_PUBLIC_MODULES: Final = ("aio", "config", "doctor", "hookspecs", "interfaces", "plugins", "results", "transactions")


def __getattr__(name: str) -> Any:
    if name in _PUBLIC_MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _IMPORTED_LATE:
        found = globals()[name] = getattr(import_module(_IMPORTED_LATE[name]), name)
        return found
    hint = f"; {IMPORT_HINTS[name]}" if name in IMPORT_HINTS else ""
    if hint and sys._getframe(1).f_globals.get("__name__") == _IMPORT:
        # `from ottla import` would replace the text of an AttributeError by one of its own.
        raise ImportError(f"cannot import name {name!r} from {__name__!r}{hint}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    # Without the modules that were imported: names that no page documents are private.
    return sorted(__all__)
