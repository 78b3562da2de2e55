"""Real Kafka clusters; each node is a process of its own."""

from ottla_testkit.kafka_cluster.cluster import KafkaCluster

__all__ = ["KafkaCluster"]
