"""The ledger in Kafka: entries, their topic, its reader and its writer."""
