"""The mock cluster of librdkafka."""

from ottla_testkit.mock_cluster.cluster import DISCONNECT, MockCluster

__all__ = ["DISCONNECT", "MockCluster"]
