"""Real Kafka clusters, each node a process of its own."""

from ottla_testkit.kafka_cluster.cluster import KafkaCluster

__all__ = ["KafkaCluster"]
