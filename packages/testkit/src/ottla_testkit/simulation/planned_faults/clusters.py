"""Faults of whole clusters: their brokers are set up again, or the address of one is another cluster's."""

from __future__ import annotations

from typing import Final

import attrs

from ottla.protocol import PRODUCE
from ottla.recordbatch.parsed_batches import Record, RecordBatch
from ottla_testkit.simulation.brokers import SimulatedCluster
from ottla_testkit.simulation.planned_faults.brokers import CrashedBroker
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.produce_requests import FIRST_THAT_ADDS
from ottla_testkit.simulation.simulation import Simulation
from ottla_testkit.simulation.topics import SimulatedTopic
from ottla_testkit.simulation.transactions import FIRST_ID

OTHER: Final = 999
"""What the values of the other producer's records begin with, where others have the number of a program."""


@attrs.frozen(kw_only=True)
class ReplacedCluster(Fault):
    """All brokers are wiped and set up again at their addresses: no log and no producer id is known there.

    *id* is the new cluster's, None: that of the one before. Topics have other ids; those in `late` are created when the
    fault ends. Another producer gets the first producer id, and writes `others` records to each partition before
    anybody else does. Only for topics without replicas. If it is *older*, its release has no transactions of the second
    version, as Kafka before 4.0.
    """

    id: str | None
    late: tuple[str, ...] = ()
    others: int = 0
    older: bool = False

    def begin(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        for broker in cluster.brokers:
            simulation.network.cut(broker)
        cluster.id = self.id or cluster.id
        if self.older:
            cluster.transaction_version = 0
            for each in cluster.brokers.values():
                low, high = each.versions[PRODUCE.key]
                each.versions[PRODUCE.key] = (low, min(high, FIRST_THAT_ADDS - 1))
        cluster.features_epoch = 0  # smaller than any of the cluster before
        cluster.transactions.ids.clear()
        cluster.transactions.next_id = FIRST_ID
        other = cluster.transactions.new_id()
        for name in list(cluster.topics):
            before = cluster.delete(name)
            if name not in self.late:
                self._create(simulation, before, other)

    def end(self, simulation: Simulation) -> None:
        for name in self.late:
            if name not in simulation.cluster.topics:
                before = next(topic for topic in reversed(simulation.cluster.deleted) if topic.name == name)
                self._create(simulation, before, FIRST_ID + 1)

    def _create(self, simulation: Simulation, before: SimulatedTopic, other: int) -> None:
        topic = simulation.cluster.create(before.name, *before.leaders)
        topic.append_time, topic.max_message_bytes = before.append_time, before.max_message_bytes
        for partition in range(len(topic.leaders)):
            for number in range(self.others):
                topic.append(
                    partition, batch_of_one(b"%d:%d:" % (OTHER, number), producer_id=other, epoch=0, sequence=number)
                )


@attrs.frozen(kw_only=True)
class ForeignBroker(CrashedBroker):
    """A broker is down, and its address is that of another cluster's only broker, which has the same id and topics.

    What comes there is in `cluster.foreign` of the simulated cluster. Not for the first broker, whose address programs
    may have as bootstrap server.
    """

    id: str

    def begin(self, simulation: Simulation) -> None:
        super().begin(simulation)
        cluster = simulation.cluster
        other = SimulatedCluster.of(self.broker)
        other.id, other.transaction_version = self.id, cluster.transaction_version
        other.features_epoch = cluster.features_epoch + 1
        other.sources = dict(cluster.sources)
        other.brokers[self.broker].versions = dict(cluster.brokers[self.broker].versions)
        for topic in cluster.topics.values():
            other.create(topic.name, *[self.broker] * len(topic.leaders))
        cluster.foreign.append(other)
        simulation.network.hosts.foreign[self.broker] = other.brokers[self.broker]

    def end(self, simulation: Simulation) -> None:
        simulation.network.hosts.foreign.pop(self.broker, None)
        simulation.network.cut(self.broker)
        super().end(simulation)


def batch_of_one(value: bytes, *, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> RecordBatch:
    """A batch of one record, by default without a producer id."""
    return RecordBatch(
        magic=2,
        base_offset=0,
        last_offset=0,
        codec_id=0,
        log_append_time=False,
        first_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        size=100,
        records=(Record(offset=0, timestamp_ms=0, key=None, value=value),),
    )
