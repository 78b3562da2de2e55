import time
from collections.abc import Iterator

import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import Address, transaction_coordinator
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, feature_level, set_feature

pytestmark = pytest.mark.kafka


@pytest.fixture
def node(kafka: KafkaCluster) -> Iterator[Address]:
    yield kafka.address(1)
    set_feature(kafka.address(1), TRANSACTION_VERSION, 2)


def test_a_feature_is_lowered_and_raised_while_the_broker_runs(node: Address) -> None:
    levels = []
    for level in (2, 0, 1, 2):
        set_feature(node, TRANSACTION_VERSION, level)
        levels.append(feature_level(node, TRANSACTION_VERSION))

    assert levels == [2, 0, 1, 2]


def test_a_level_unknown_to_the_cluster_is_refused(node: Address) -> None:
    with pytest.raises(ClusterError, match=r"cannot set transaction\.version to 99: error 9"):
        set_feature(node, TRANSACTION_VERSION, 99)


def test_the_coordinator_of_an_id_is_found(kafka: KafkaCluster, node: Address) -> None:
    """Only once the broker has made the topic that transactions are kept in, which the first question asks for."""
    deadline = time.monotonic() + 60
    while (coordinator := transaction_coordinator(node, "some id")) < 0 and time.monotonic() < deadline:
        pass

    assert coordinator == 1
