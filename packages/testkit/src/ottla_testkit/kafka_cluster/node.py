"""One broker: its process, its address, its files, and whether it has logged that it serves.

It uses no other nodes and no Kafka protocol.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.kafka_cluster.admin_requests import Address
from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.processes.process import Process

KRAFT_LOG = "__cluster_metadata"

# The log messages of KRaft, of 0.11 to 3.2, and of 0.10.
_STARTED = re.compile(rb"Kafka Server started|\[KafkaServer id=\d+\] started|\[Kafka Server \d+\], started")


class Node(Process):
    """Node `number`; its files are in `folder`, and it runs `command` with the name of its properties file."""

    def __init__(self, number: int, *, folder: Path, port: int, command: Sequence[str]) -> None:
        self.number = number
        self.port = port
        self.properties = folder / f"node{number}.properties"
        self.data = folder / f"data{number}"
        super().__init__(
            f"node {number}", command=[*command, str(self.properties)], log_file=folder / f"node{number}.log"
        )

    @property
    def address(self) -> Address:
        """The address where the node serves."""
        return HOST, self.port

    @property
    def started(self) -> bool:
        """Whether the broker has logged, since its latest start, that it serves."""
        return _STARTED.search(self.log_since_start) is not None

    @property
    def kept_partitions(self) -> dict[str, set[int]]:
        """The partitions whose files it has, by topic; without those that are about to be deleted."""
        kept: dict[str, set[int]] = {}
        for folder in self.data.glob("*-*/"):
            topic, _, partition = folder.name.rpartition("-")
            if partition.isdecimal() and topic != KRAFT_LOG:
                kept.setdefault(topic, set()).add(int(partition))
        return kept
