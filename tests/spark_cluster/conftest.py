"""One standalone cluster for all modules here; each has a session of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.pytest_plugin import go_without
from spark_cluster.cluster import SparkCluster


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """A master, and two workers with a core each."""
    cluster = SparkCluster()
    try:
        cluster.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    yield cluster
    cluster.close()
