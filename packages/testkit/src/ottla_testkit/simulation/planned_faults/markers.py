"""The fault of markers that a coordinator writes to one partition after the other."""

from __future__ import annotations

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.brokers import SimulatedCluster
from ottla_testkit.simulation.marker_channel import OFFSETS_TOPIC, MarkerChannel, Place, TransactionOutcome
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.replicated_partition import NO_LEADER
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class SeparateMarkers(Fault):
    """Each marker of a transaction takes up to `slowest` seconds, and longer while its leader is away.

    The share `lost` of leaders' responses is lost, so that these markers are written again. Transactions that have
    ended before are not changed.
    """

    slowest: float
    lost: float = 0.0

    def begin(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        leaders = _Leaders(cluster)
        cluster.transactions.channel = MarkerChannel(
            later=cluster.controller.later,
            serves=cluster.transactions.serves,
            exists=leaders.exist,
            leader_of=leaders.leader_of,
            runs=lambda broker: cluster.brokers[broker].up,
            frozen=lambda broker: broker in cluster.controller.frozen,
            write=leaders.write,
            chance=simulation.chance.fork(),
            slowest=self.slowest,
            lost=self.lost,
        )

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.channel = None


@attrs.frozen
class _Leaders:
    """The leaders of a cluster's partitions, to which markers are written."""

    cluster: SimulatedCluster

    def exist(self, place: Place) -> bool:
        """Return whether a partition exists."""
        topic = self.cluster.topics.get(place[0])
        return place[0] == OFFSETS_TOPIC or (topic is not None and place[1] < len(topic.leaders))

    def leader_of(self, place: Place) -> int | None:
        """Return the leader that the coordinator knows and can reach; None if there is none."""
        if place[0] == OFFSETS_TOPIC:
            group_coordinator = self.cluster.group_coordinator
            return self.cluster.coordinates if group_coordinator is None else group_coordinator
        name, partition = place
        topic = self.cluster.topics[name]
        leader = topic.leaders[partition]
        if partition in topic.replicated and (leader == NO_LEADER or leader in self.cluster.controller.isolated):
            return None
        return leader

    def write(self, place: Place, broker: int, outcome: TransactionOutcome) -> ErrorCode:
        """Write a marker at a broker; return its code."""
        name, partition = place
        if not self.exist(place):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.leader_of(place) != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if name == OFFSETS_TOPIC:
            return ErrorCode.NONE
        topic = self.cluster.topics[name]
        replicated = topic.replicated.get(partition)
        if replicated is not None and not replicated.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        code = topic.log_of(partition).judge_marker(outcome.producer_id, outcome.epoch, strict=outcome.strict)
        if code is ErrorCode.NONE:
            topic.mark(partition, outcome.producer_id, outcome.epoch, outcome.committed)
        return code or ErrorCode.NONE
