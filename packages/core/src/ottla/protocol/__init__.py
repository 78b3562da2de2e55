"""Messages of Kafka's wire protocol: their declarations, and the codecs compiled from them."""

from ottla.protocol.compiler import Codec
from ottla.protocol.headers import read_response_header, request_header
from ottla.protocol.message import Message, choose_version
from ottla.protocol.messages.api_versions import (
    API_VERSIONS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    peek_error_code,
)
from ottla.protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.produce_acknowledgement import read_acknowledgement
from ottla.protocol.produce_request import PartitionRecords, TopicRecords, produce_request

__all__ = [
    "API_VERSIONS",
    "METADATA",
    "PRODUCE",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "BatchIndexAndErrorMessage",
    "Codec",
    "FinalizedFeatureKey",
    "LeaderIdAndEpoch",
    "Message",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "PartitionRecords",
    "ProduceRequest",
    "ProduceResponse",
    "SupportedFeatureKey",
    "TopicProduceData",
    "TopicProduceResponse",
    "TopicRecords",
    "choose_version",
    "peek_error_code",
    "produce_request",
    "read_acknowledgement",
    "read_response_header",
    "request_header",
]
