"""The mock cluster of librdkafka."""

from ottla_testkit.mock_cluster.cluster import MockCluster

__all__ = ["MockCluster"]
