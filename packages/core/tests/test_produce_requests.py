"""A Produce request has one record format, topic ids if all are known, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.sealing import Sealer
from ottla.errors import UnsupportedVersionError
from ottla.interfaces import Buffer, Compressor
from ottla.protocol import PRODUCE
from ottla.sender.produce_messages import produce_request
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated

OLD = (0, 2)
"""The Produce versions of a broker of 0.10, which knows record format 1."""


def produced(simulation: Simulated, broker: int) -> list[int]:
    """The versions of the Produce requests that a broker got."""
    return [version for request, version in simulation.cluster.brokers[broker].requests if request == PRODUCE.name]


@pytest.mark.rule("sender.request.format")
def test_batches_of_two_record_formats_are_sent_in_two_requests() -> None:
    cluster = SimulatedCluster.of(1, 2)
    topic = cluster.create("t", 1, 2)
    cluster.brokers[1].versions[PRODUCE.key] = OLD
    with simulated(cluster=cluster, enable_idempotence=False) as simulation:
        topic.move_leader(0, 2)
        simulation.network.hosts.refusing.add("broker-2")
        simulation.network.cut(2)
        older = simulation.producer.send("t", b"older", partition=0)
        simulation.run_until(lambda: simulation.metadata.cluster.leader("t", 0) == 2)
        newer = simulation.producer.send("t", b"newer", partition=1)
        simulation.pass_time(2.0)
        assert not older._batch.in_flight
        simulation.network.hosts.refusing.clear()
        simulation.run_until_idle()

        assert [delivery.result(0).offset for delivery in (older, newer)] == [0, 0]
        assert sorted(cluster.brokers[2].magics) == [1, 2]
        assert sorted(produced(simulation, 2)) == [2, PRODUCE.max_version]


@pytest.mark.rule("sender.request.topic-id")
def test_a_topic_with_an_unknown_id_is_sent_by_name() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1).id = bytes(16)
    with simulated(cluster=cluster) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert delivery.result(0).offset == 0
        assert produced(simulation, 1) == [12]


@pytest.mark.rule("sender.request.topic-id")
def test_one_topic_without_an_id_makes_the_whole_request_use_names() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.create("u", 1).id = bytes(16)
    with simulated(cluster=cluster, linger_ms=100) as simulation:
        simulation.know("u")
        deliveries = [simulation.producer.send(topic, b"v") for topic in ("t", "u")]
        simulation.run_until_idle()

        assert [delivery.result(0).offset for delivery in deliveries] == [0, 0]
        assert produced(simulation, 1) == [12]


@pytest.mark.rule("sender.lost.version", "sender.retry.corrects", "batch.possibly")
def test_a_request_that_was_never_written_leaves_nothing_maybe_written() -> None:
    cluster = SimulatedCluster.of(1)
    topic = cluster.create("t", 1)
    with simulated(cluster=cluster, batch_size=1, batch_growth_enable=False) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        cluster.brokers[1].versions[PRODUCE.key] = (13, 13)
        topic.id = bytes(16)
        topic.move_leader(0, 1)
        simulation.network.cut(1)
        simulation.metadata.request_update()
        simulation.run_until(lambda: simulation.metadata.cluster.topics["t"].id == bytes(16))
        unwritten = simulation.producer.send("t", b"unwritten")
        simulation.run_until_idle()
        cluster.brokers[1].versions[PRODUCE.key] = (0, PRODUCE.max_version)
        simulation.network.cut(1)
        simulation.pass_time(1.0)
        following = simulation.producer.send("t", b"following")
        simulation.run_until_idle()

        error = unwritten.exception(0)
        assert error is not None
        assert isinstance(error.__cause__, UnsupportedVersionError)
        assert not error.possibly_persisted
        assert following.result(0).offset == 1
        assert {entry.epoch for entry in topic.producers[0].entries.values()} == {0}


class Zstd:
    """Says it is zstd, and saves bytes."""

    codec_id = 4

    def compress(self, _chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        return b"x"

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return bytes(buffer)


@pytest.mark.parametrize(("compressor", "floor"), [(None, 3), (Zstd(), 7)])
def test_zstd_is_sent_with_no_version_of_brokers_that_do_not_know_it(compressor: Compressor | None, floor: int) -> None:
    batches: list[ProducerBatch] = []
    for each in (None, compressor):
        batch = ProducerBatch(topic="t", partition=len(batches), columns=columns(10_000), now=0.0)
        batch.append(None, bytes(1_000), (), 0, None)
        batch.sealed = Sealer(each).seal(batch, 1)
        batches.append(batch)

    request = produce_request(batches, acks=-1, timeout=2.5, topic_ids={}, on_complete=lambda _: None)

    assert request.floor == floor


def test_a_request_names_the_time_that_the_broker_has_for_it() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    batch.append(None, b"value", (), 0, None)
    batch.sealed = Sealer(None).seal(batch, 1)
    request = produce_request(
        [batch], acks=-1, timeout=2.5, topic_ids={}, on_complete=lambda _: None, transactional_id=None, newest=3
    )
    sent = PRODUCE.request(3).decode(memoryview(b"".join(map(bytes, request.body(3)))))

    assert (sent.acks, sent.timeout_ms) == (-1, 2_500)
