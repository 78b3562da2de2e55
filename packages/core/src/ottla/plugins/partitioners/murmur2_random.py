"""librdkafka's `murmur2_random`: another name of the default partitioner."""

from __future__ import annotations

from ottla.plugins.partitioners.murmur2 import ottla_config_keys, ottla_partitioner

__all__ = ["ottla_config_keys", "ottla_partitioner"]
