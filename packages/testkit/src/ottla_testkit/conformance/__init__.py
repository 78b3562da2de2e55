"""The core's requirements for plugins, as base classes of tests: subclass one, give its fixtures, and run pytest."""

from ottla_testkit.conformance.authenticator import AuthenticatorConformance
from ottla_testkit.conformance.compressor import CompressorConformance
from ottla_testkit.conformance.config_provider import ConfigProviderConformance
from ottla_testkit.conformance.encoder import RecordEncoderConformance
from ottla_testkit.conformance.harness.context import metric_values, plugin_context
from ottla_testkit.conformance.harness.peer import Peer, PlainPeer
from ottla_testkit.conformance.harness.sasl_broker import SaslBroker
from ottla_testkit.conformance.interceptor import InterceptorConformance
from ottla_testkit.conformance.partitioner import PartitionerConformance
from ottla_testkit.conformance.reporter import CountingRegistry, MetricsReporterConformance
from ottla_testkit.conformance.serializer import SerializerConformance
from ottla_testkit.conformance.transport import TransportConformance

__all__ = [
    "AuthenticatorConformance",
    "CompressorConformance",
    "ConfigProviderConformance",
    "CountingRegistry",
    "InterceptorConformance",
    "MetricsReporterConformance",
    "PartitionerConformance",
    "Peer",
    "PlainPeer",
    "RecordEncoderConformance",
    "SaslBroker",
    "SerializerConformance",
    "TransportConformance",
    "metric_values",
    "plugin_context",
]
