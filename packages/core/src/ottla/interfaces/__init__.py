"""Interfaces between plugins and the core: one small protocol per kind of plugin, and the values passed between them.

Hooks (`ottla.hookspecs`) are factories that return these objects, called once when a producer is built. An optional
ability of an object is a protocol `Supports...` after that of its kind, named after its attribute. An object has the
ability if it has the attribute and that is not None; no base class is needed. `supports` checks it.
There are declarations and that check only: nothing here imports a part of the core that does work.
"""

from ottla.errors.secret import Secret
from ottla.interfaces.abilities import SupportsClose, supports
from ottla.interfaces.authenticator import (
    Authenticator,
    Mechanism,
    Step,
    SupportsConcurrentLogins,
    SupportsIdentity,
    SupportsRefused,
    SupportsRemedy,
)
from ottla.interfaces.avro import AvroColumn, AvroKind, AvroType, SupportsAvroRows, SupportsAvroValues
from ottla.interfaces.compressor import Compressor
from ottla.interfaces.config_provider import ConfigProvider
from ottla.interfaces.configuration import ConfigKey, PluginConfig, boolean
from ottla.interfaces.context import MetricCounter, PluginContext, PluginMetrics
from ottla.interfaces.encoder import (
    Columns,
    ColumnsKind,
    Cut,
    Encoded,
    Facts,
    RecordEncoder,
    SupportsCutRows,
    SupportsJsonRows,
    SupportsMurmur2Partitions,
    TableRows,
)
from ottla.interfaces.interceptor import (
    Interceptor,
    ProducerRecord,
    ProducerRows,
    SupportsOnSendTable,
    SupportsOnTableAcknowledgement,
)
from ottla.interfaces.metrics import Histogram, MetricDescription, MetricName, MetricsRegistry, MetricsReporter
from ottla.interfaces.partitioner import (
    Partitioner,
    RecordView,
    SupportsAppended,
    SupportsFinished,
    SupportsHashes,
    SupportsIgnoresKeys,
    SupportsOnNewBatch,
    SupportsPartitionColumn,
    SupportsPartitionRecord,
    SupportsSticky,
    TopicView,
)
from ottla.interfaces.records import Buffer, Header, Headers
from ottla.interfaces.serializer import (
    Serializer,
    SupportsColumnHeaders,
    SupportsPrepare,
    SupportsSerializeColumn,
    SupportsSetsHeaders,
    SupportsUseEncoder,
)
from ottla.interfaces.transport import (
    HostTarget,
    Interest,
    SupportsCipher,
    SupportsDetails,
    SupportsOpenOver,
    Target,
    Transport,
    TransportLayer,
)

__all__ = [
    "Authenticator",
    "AvroColumn",
    "AvroKind",
    "AvroType",
    "Buffer",
    "Columns",
    "ColumnsKind",
    "Compressor",
    "ConfigKey",
    "ConfigProvider",
    "Cut",
    "Encoded",
    "Facts",
    "Header",
    "Headers",
    "Histogram",
    "HostTarget",
    "Interceptor",
    "Interest",
    "Mechanism",
    "MetricCounter",
    "MetricDescription",
    "MetricName",
    "MetricsRegistry",
    "MetricsReporter",
    "Partitioner",
    "PluginConfig",
    "PluginContext",
    "PluginMetrics",
    "ProducerRecord",
    "ProducerRows",
    "RecordEncoder",
    "RecordView",
    "Secret",
    "Serializer",
    "Step",
    "SupportsAppended",
    "SupportsAvroRows",
    "SupportsAvroValues",
    "SupportsCipher",
    "SupportsClose",
    "SupportsColumnHeaders",
    "SupportsConcurrentLogins",
    "SupportsCutRows",
    "SupportsDetails",
    "SupportsFinished",
    "SupportsHashes",
    "SupportsIdentity",
    "SupportsIgnoresKeys",
    "SupportsJsonRows",
    "SupportsMurmur2Partitions",
    "SupportsOnNewBatch",
    "SupportsOnSendTable",
    "SupportsOnTableAcknowledgement",
    "SupportsOpenOver",
    "SupportsPartitionColumn",
    "SupportsPartitionRecord",
    "SupportsPrepare",
    "SupportsRefused",
    "SupportsRemedy",
    "SupportsSerializeColumn",
    "SupportsSetsHeaders",
    "SupportsSticky",
    "SupportsUseEncoder",
    "TableRows",
    "Target",
    "TopicView",
    "Transport",
    "TransportLayer",
    "boolean",
    "supports",
]
