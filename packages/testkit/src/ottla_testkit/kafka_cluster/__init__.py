"""Real Kafka clusters; each node is a process of its own. `ExistingKafka` is one that other programs have started."""

from ottla_testkit.kafka_cluster.cluster import KafkaCluster
from ottla_testkit.kafka_cluster.existing import ExistingKafka

__all__ = ["ExistingKafka", "KafkaCluster"]
