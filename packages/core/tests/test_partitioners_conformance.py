"""The built-in partitioners keep the whole contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.interfaces import Partitioner
from ottla.plugins.registry import Registry, make_alone
from ottla_testkit.conformance import PartitionerConformance

pytestmark = pytest.mark.unmeasured

OF_JAVA: Mapping[tuple[bytes, int], int] = {
    (bytes.fromhex(vector["key"]), int(count)): partition
    for vector in json.loads((Path(__file__).parent / "vectors" / "murmur2.json").read_text())
    for count, partition in vector["partition"].items()
}


def made(name: str, **settings: str) -> Partitioner:
    """A built-in partitioner, through the same entry point as a third-party one."""
    registry = Registry()
    partitioner: Partitioner = make_alone(registry.plugin("partitioner", name), settings, registry=registry)
    return partitioner


class TestDefault(PartitionerConformance):
    avoids_lost_leaders = True
    places = OF_JAVA

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("murmur2")


class TestDefaultWithoutQueues(PartitionerConformance):
    avoids_lost_leaders = True

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("murmur2", **{"partitioner.adaptive.partitioning.enable": "false"})


class TestDefaultThatIgnoresKeys(PartitionerConformance):
    avoids_lost_leaders = True

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("murmur2", **{"partitioner.ignore.keys": "true"})


class TestConsistentRandom(PartitionerConformance):
    avoids_lost_leaders = True

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("consistent_random")


class TestFnv1aRandom(PartitionerConformance):
    avoids_lost_leaders = True

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("fnv1a_random")


class TestConsistent(PartitionerConformance):
    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("consistent")


class TestRoundRobin(PartitionerConformance):
    avoids_lost_leaders = True
    avoids_slow_leaders = False  # as Java's

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        return made("round_robin")
