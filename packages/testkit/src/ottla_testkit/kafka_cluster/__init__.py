"""Real Kafka clusters; each node is a separate process. `ExistingKafka` is one that other programs have started."""

from ottla_testkit.kafka_cluster.cluster import KafkaCluster
from ottla_testkit.kafka_cluster.existing import ExistingKafka

__all__ = ["ExistingKafka", "KafkaCluster"]
