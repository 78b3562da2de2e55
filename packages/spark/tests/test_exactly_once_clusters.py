"""The ledger's transactions are ended in their cluster only: in another one their ids may be those of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest
from broker_on_a_socket import SocketBroker
from hypothesis import given
from hypothesis import strategies as st
from simulated_spark import NAME, QUERY, some_spark
from test_exactly_once_rules import Direct, entry, written

from ottla.errors import TransactionError
from ottla.transactions import Outcome, PreparedTransaction
from ottla_spark.exactly_once.driver.cluster import ClusterClient, OpenTaskTransaction
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.errors import BatchNotCommittedError
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.options import read_options
from ottla_testkit.simulation import SimulatedCluster

ID = task_id("orders", process="a" * 32, number=1)


def prepared(cluster: SimulatedCluster, cluster_id: str) -> PreparedTransaction:
    """The transaction that is open in *cluster*, as if it were that of the cluster with this id."""
    owner = cluster.transactions.ids[ID]
    return PreparedTransaction(
        transactional_id=ID, producer_id=owner.producer_id, epoch=owner.epoch, level=2, cluster_id=cluster_id
    )


@pytest.fixture
def cluster() -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.transaction_version = 2
    cluster.create("t", 1)
    cluster.transactions.initialize(ID, None)
    cluster.transactions.ids[ID].ongoing = True
    return cluster


@pytest.fixture
def client(cluster: SimulatedCluster) -> Iterator[KafkaClusterClient]:
    with SocketBroker(cluster.brokers[1]).serving() as servers:
        options = {"kafka.bootstrap.servers": servers, "transactional.id.prefix": "orders"}
        client = KafkaClusterClient(read_settings(read_options({"guarantee": "exactly-once", **options}, problems=[])))
        yield client
        client.close()


OPERATIONS: Mapping[str, Callable[[ClusterClient, PreparedTransaction], object]] = {
    "statuses": lambda client, prepared: client.statuses([prepared]),
    "commit": lambda client, prepared: client.end(prepared, commit=True),
    "abort": lambda client, prepared: client.end(prepared, commit=False),
    "abort what is open": lambda client, prepared: client.abort(
        OpenTaskTransaction(
            transactional_id=ID,
            producer_id=prepared.producer_id,
            epoch=prepared.epoch,
            timeout_ms=60_000,
            cluster_id=prepared.cluster_id,
        )
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_driver_ends_no_transaction_of_another_cluster(
    cluster: SimulatedCluster, client: KafkaClusterClient, operation: str
) -> None:
    with pytest.raises(TransactionError, match="is in the cluster 'first', but these brokers are those of 'simulated"):
        OPERATIONS[operation](client, prepared(cluster, "first"))

    assert cluster.transactions.ends == []
    assert cluster.transactions.ids[ID].ongoing


def test_a_driver_ends_the_transactions_of_its_cluster(cluster: SimulatedCluster, client: KafkaClusterClient) -> None:
    assert client.end(prepared(cluster, cluster.id or ""), commit=True) is Outcome.COMMITTED


def test_transactions_of_several_clusters_are_not_recorded() -> None:
    spark = some_spark()
    cluster = Direct(spark)
    found = [
        attrs.evolve(each, prepared=attrs.evolve(each.prepared, cluster_id=name))
        for each, name in zip(written(spark, cluster), "AB", strict=True)
        if each.prepared is not None
    ]
    with pytest.raises(BatchNotCommittedError, match="their transactions are in several clusters, A, B: a name or"):
        commit(cluster, found, batch=0)

    assert spark.brokers.ledger == []


@given(cluster_id=st.none() | st.text(), transactions=st.integers(0, 3))
def test_an_entry_has_the_cluster_of_its_transactions(cluster_id: str | None, transactions: int) -> None:
    whole = entry(3, Status.RECORDED, transactions=transactions)
    listed = [attrs.evolve(each, prepared=attrs.evolve(each.prepared, cluster_id=cluster_id)) for each in whole.listed]
    whole = attrs.evolve(whole, listed=tuple(listed))

    assert Entry.from_bytes(whole.to_bytes(), name=NAME) == whole


def test_an_entry_of_an_earlier_version_has_no_cluster() -> None:
    listed = [task_id(NAME, process="a" * 32, number=1), 1, 0, 2, 0, 5]
    fields = {"form": 1, "query": QUERY, "batch": 3, "status": "recorded", "transactions": [listed]}

    [only] = Entry.from_bytes(json.dumps(fields).encode(), name=NAME).listed
    assert only.prepared.cluster_id is None
