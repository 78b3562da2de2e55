"""Workloads of the whole benchmark, and the peers of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from workload import Workload

OURS: Final = ("ottla", "ottla-python")
RIVALS: Final = ("confluent-kafka", "confluent-kafka-best")
ALL_CLIENTS: Final = (*OURS, *RIVALS, "aiokafka", "kafka-python")
TABLES: Final = ("ottla-table", "ottla-table-python", *RIVALS)

BASE: Final = Workload(
    records=1_000_000,
    value_size=100,
    partitions=4,
    keyed=False,
    headers=False,
    callback=False,
    compression="none",
    acks="all",
)


@attrs.frozen(kw_only=True)
class Scenario:
    """One workload with a name, in a group of comparable ones."""

    group: str
    name: str
    workload: Workload
    peers: Sequence[str] = (*OURS, *RIVALS)


def _of(group: str, name: str, *, peers: Sequence[str] = (*OURS, *RIVALS), **changes: Any) -> Scenario:
    return Scenario(group=group, name=name, workload=attrs.evolve(BASE, **changes), peers=peers)


SCENARIOS: Final[Sequence[Scenario]] = (
    _of("a record at a time", "no key", peers=ALL_CLIENTS),
    _of("a record at a time", "100,000 keys", keyed=True, peers=ALL_CLIENTS),
    _of("a record at a time", "two headers", headers=True),
    _of("a record at a time", "a callback for each", callback=True),
    _of("a record at a time", "keys and callbacks", keyed=True, callback=True),
    _of("size of a value", "10 B", value_size=10),
    _of("size of a value", "1 kB", value_size=1_000, records=300_000),
    _of("size of a value", "100 kB", value_size=100_000, records=5_000),
    _of("compression", "lz4", compression="lz4"),
    _of("compression", "zstd", compression="zstd"),
    _of("compression", "lz4, 1 kB", compression="lz4", value_size=1_000, records=300_000),
    _of("partitions", "1", partitions=1),
    _of("partitions", "100", partitions=100),
    _of("partitions", "5,000", partitions=5_000, peers=("ottla", "ottla-python", "confluent-kafka")),
    _of("partitions", "100, keyed", partitions=100, keyed=True),
    _of("partitions", "5,000, keyed", partitions=5_000, keyed=True, peers=("ottla", "ottla-python", "confluent-kafka")),
    _of("promises", "acks=1", acks="1"),
    _of("promises", "idempotent", idempotent=True),
    _of("how many", "100,000", records=100_000, peers=OURS),
    _of("how many", "10,000,000", records=10_000_000, peers=OURS),
    _of("memory", "32 MiB of buffer", records=3_000_000, buffer_mib=32),
    _of("memory", "128 MiB of buffer", records=3_000_000, buffer_mib=128),
    _of("tables", "no key, none", peers=TABLES),
    _of("tables", "no key, lz4", compression="lz4", peers=TABLES),
    _of("tables", "100,000 keys, lz4", compression="lz4", keyed=True, peers=TABLES),
)
