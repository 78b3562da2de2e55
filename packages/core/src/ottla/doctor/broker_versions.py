"""The Kafka release of a broker, guessed from the request versions that it supports; for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs


@attrs.frozen
class Mark:
    """The first release whose brokers support version `version` of the request `api`."""

    release: str
    api: int
    version: int


# One mark per release, newest first: a request that the release extended, and that every listener for clients has.
MARKS: Final = (
    Mark("4.2", 2, 11),  # ListOffsets, KIP-1023
    Mark("4.1", 0, 13),  # Produce with topic ids, KIP-516
    Mark("4.0", 0, 12),  # Produce, KIP-890
    Mark("3.9", 2, 9),  # ListOffsets, KIP-1005
    Mark("3.8", 0, 11),  # Produce, KIP-890
    Mark("3.7", 0, 10),  # Produce with new leaders, KIP-951
    Mark("3.5", 2, 8),  # ListOffsets, KIP-405
    Mark("3.3", 35, 4),  # DescribeLogDirs, KIP-827
    Mark("3.2", 11, 8),  # JoinGroup with reasons, KIP-800
    Mark("3.1", 3, 12),  # Metadata by topic id, KIP-516
    Mark("3.0", 2, 7),  # ListOffsets, KIP-734
    Mark("2.8", 0, 9),  # Produce with compact lengths, KIP-482
    Mark("2.7", 1, 12),  # Fetch, KIP-595
    Mark("2.6", 21, 2),  # DeleteRecords, KIP-482
    Mark("2.5", 22, 3),  # InitProducerId, KIP-360
    Mark("2.4", 0, 8),  # Produce with errors of records, KIP-467
    Mark("2.3", 1, 11),  # Fetch from followers, KIP-392
    Mark("2.2", 2, 5),  # ListOffsets, KIP-207
    Mark("2.1", 0, 7),  # Produce with zstd, KIP-110
    Mark("2.0", 0, 6),  # Produce, KIP-219
    Mark("1.1", 1, 7),  # Fetch in sessions, KIP-227
    Mark("1.0", 0, 5),  # Produce, KIP-112
    Mark("0.11", 0, 3),  # Produce with record batches, KIP-98
    Mark("0.10.2", 19, 1),  # CreateTopics, KIP-108
    Mark("0.10.1", 3, 2),  # Metadata with the cluster's id, KIP-78
    Mark("0.10.0", 0, 2),  # Produce with timestamps, KIP-32
)


def release(offered: Mapping[int, tuple[int, int]]) -> str:
    """The release as text, by the request versions that a broker offers."""
    if not offered:
        return "a broker that names no request"
    for position, mark in enumerate(MARKS):
        if offered.get(mark.api, (0, -1))[1] >= mark.version:
            return f"Kafka {mark.release} or newer" if position == 0 else f"about Kafka {mark.release}"
    return "a broker older than Kafka 0.10"
