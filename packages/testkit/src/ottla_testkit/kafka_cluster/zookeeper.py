"""The ZooKeeper of brokers that need one: a process with its own port, and the brokers that it knows."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.processes.process import Process

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
ANSWER_WITHIN = 2.0  # seconds


class ZooKeeper(Process):
    """A single ZooKeeper on `port` with its files in `folder`; `java` is the command without a main class."""

    def __init__(self, *, folder: Path, port: int, java: Sequence[str]) -> None:
        self.port = port
        self.properties = folder / "zookeeper.properties"
        self.data = folder / "zookeeper"
        super().__init__("ZooKeeper", command=[*java, MAIN, str(self.properties)], log_file=folder / "zookeeper.log")

    def registered(self) -> frozenset[int]:
        """Return the brokers with a live session; a killed one keeps it for seconds. `OSError` without a response."""
        with socket.create_connection((HOST, self.port), ANSWER_WITHIN) as connection:
            connection.sendall(b"dump")
            with connection.makefile("rb") as answer:
                dumped = answer.read()
        if b"SessionTracker" not in dumped:
            raise ConnectionError(f"ZooKeeper is not serving yet; it responded {dumped!r}")
        return frozenset(int(number) for number in re.findall(rb"/brokers/ids/(\d+)", dumped))
