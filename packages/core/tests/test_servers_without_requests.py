"""Bootstrap servers that are no brokers, such as a controller's listener or a proxy that hides requests."""

from __future__ import annotations

import logging

import pytest
from broker_on_a_socket import SocketBroker

from ottla import Producer
from ottla.errors import NetworkError, ProtocolError
from ottla.network.metadata_log import MetadataLog
from ottla.protocol import METADATA, MetadataResponse
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import simulated


def cluster_with_topic() -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return cluster


@pytest.mark.parametrize(("offers", "said"), [(None, "controller's listener"), ((0, 0), "no version of Metadata fits")])
def test_a_server_without_usable_metadata_is_left_and_named(
    offers: tuple[int, int] | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_with_topic()
    offered = cluster.brokers[1].versions
    usable = offered.pop(METADATA.key)
    if offers is not None:
        offered[METADATA.key] = offers

    with caplog.at_level(logging.WARNING, logger="ottla"), simulated(cluster=cluster, know=False) as simulation:
        simulation.metadata.use("t", simulation.clock())
        simulation.pass_time(3.0)
        asked = [name for name, _version in cluster.brokers[1].requests]
        offered[METADATA.key] = usable
        simulation.know("t")
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

    assert 2 <= asked.count("ApiVersions") < 20  # with a backoff
    assert said in caplog.text
    assert delivery.result().offset == 0


def test_a_bootstrap_server_does_not_turn_idempotence_off(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_with_topic()
    offered = cluster.brokers[1].versions
    hidden = offered.pop(INIT_PRODUCER_ID.key)

    with caplog.at_level(logging.INFO, logger="ottla"), simulated(cluster=cluster, know=False) as simulation:
        cluster.brokers[1].outdated_metadata = MetadataResponse(brokers=[], topics=[])  # as of a node that starts
        simulation.metadata.use("t", simulation.clock())
        simulation.pass_time(3.0)
        offered[INIT_PRODUCER_ID.key] = hidden  # at the broker's own address, to which no connection was made so far
        cluster.brokers[1].outdated_metadata = None
        simulation.run_until(lambda: not simulation.metadata.cluster.bootstrap)
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

    assert delivery.result().offset == 0
    assert "idempotence is off" not in caplog.text
    assert cluster.topics["t"].producers[0].entries


@pytest.mark.parametrize("attempt", range(5))  # which server is the first one is chance
def test_another_server_is_asked_if_one_knows_no_brokers(attempt: int) -> None:
    good, starting = cluster_with_topic(), cluster_with_topic()
    starting.brokers[1].outdated_metadata = MetadataResponse(brokers=[], topics=[])
    with (
        SocketBroker(good.brokers[1]).serving() as one,
        SocketBroker(starting.brokers[1]).serving() as other,
        Producer(bootstrap_servers=f"{other},{one}", max_block_ms=15_000) as producer,
    ):
        assert producer.send("t", b"v").result(20).offset == 0


def test_a_single_server_is_connected_again_for_that_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_with_topic()
    cluster.brokers[1].outdated_metadata = MetadataResponse(brokers=[], topics=[])

    with caplog.at_level(logging.INFO, logger="ottla"), simulated(cluster=cluster, know=False) as simulation:
        simulation.metadata.use("t", simulation.clock())
        simulation.pass_time(21.0)
        asked = [name for name, _version in cluster.brokers[1].requests]

    assert 4 <= asked.count("ApiVersions") <= 8  # a load balancer takes another server for each
    assert len([record for record in caplog.records if record.name.startswith("ottla.network")]) == 1


def test_servers_that_all_start_have_one_line_until_a_reminder(caplog: pytest.LogCaptureFixture) -> None:
    log, now = MetadataLog(client_id="p"), 0.0
    while now < 20.0:  # each server is asked, and then all wait for their backoff
        error = ProtocolError("the response to a metadata request names no broker")
        log.failed(error, now)
        log.write(now)
        log.wanted(error, now + 0.5, setup=str)
        log.write(now + 0.5)
        now += 1.0
    lines = [record.getMessage() for record in caplog.records]
    log.wanted(NetworkError("could not connect"), now, setup=str)
    log.write(now)

    assert len(lines) == 1
    assert "could not connect" in caplog.text
