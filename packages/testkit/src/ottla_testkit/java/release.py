"""Comparison of Kafka versions, and the ones that run with a ZooKeeper instead of KRaft.

Code that depends on the version compares it: `release("2.8.2") >= (2, 4)`.
"""

from __future__ import annotations

import re

from ottla_testkit.errors import ClusterError

Release = tuple[int, ...]

OLDEST: Release = (0, 10, 2)


def release(version: str) -> Release:
    """Return the numbers of a version such as `2.8.2` or `4.3.0-rc1`; `ClusterError` for an unsupported one."""
    found = re.fullmatch(r"(\d+(?:\.\d+)+)(?:-.*)?", version)
    if found is None:
        raise ClusterError(f"{version!r} is not a version of Kafka; write it as 4.3.0")
    numbers = tuple(map(int, found[1].split(".")))
    if numbers < OLDEST:
        raise ClusterError(f"Kafka {version} is too old for this testkit; it runs 0.10.2 and later")
    return numbers


def needs_zookeeper(version: str) -> bool:
    """Return whether a version is run with a ZooKeeper; KRaft was declared ready in 3.3."""
    return release(version) < (3, 3)
