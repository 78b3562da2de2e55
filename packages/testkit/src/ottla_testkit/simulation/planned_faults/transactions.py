"""Faults of transactions and their coordinator."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class MovedCoordinator(Fault):
    """Another broker becomes the coordinator of all transactions. It loads their state for `seconds`."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        if simulation.cluster.brokers[self.broker].up:
            simulation.cluster.coordinator = self.broker
            simulation.cluster.coordinator_loads = self.seconds > 0

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.coordinator_loads = False


@attrs.frozen(kw_only=True)
class MovedGroupCoordinator(Fault):
    """A broker becomes the coordinator of all groups; that of transactions stays, perhaps another one."""

    broker: int

    def begin(self, simulation: Simulation) -> None:
        if simulation.cluster.brokers[self.broker].up:
            simulation.cluster.group_coordinator = self.broker


@attrs.frozen(kw_only=True)
class FencedProducer(Fault):
    """Another producer takes a transactional id over."""

    transactional_id: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.initialize(self.transactional_id, None)


@attrs.frozen(kw_only=True)
class ForgottenIds(Fault):
    """The coordinator forgets a transactional id if it has no transaction, as after `transactional.id.expiration.ms`.

    *lost*: it forgets it with its transaction, as after an unclean election of the log of transactions.
    """

    transactional_id: str
    lost: bool = False

    def begin(self, simulation: Simulation) -> None:
        transactions = simulation.cluster.transactions
        owner = transactions.ids.get(self.transactional_id)
        if owner is not None and (self.lost or not owner.busy):
            transactions.forget(self.transactional_id)


@attrs.frozen(kw_only=True)
class ChangedTransactionVersion(Fault):
    """The cluster's feature `transaction.version` has another level from now on, as new connections show."""

    level: int

    def begin(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        if cluster.transaction_version != self.level:
            cluster.transaction_version = self.level
            cluster.features_epoch += 1


@attrs.frozen(kw_only=True)
class TimedOutTransaction(Fault):
    """The coordinator aborts an open transaction, as after `transaction.timeout.ms`."""

    transactional_id: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.time_out(self.transactional_id)


@attrs.frozen(kw_only=True)
class RebalancedGroup(Fault):
    """A consumer group has a new generation, with the same members."""

    group: str

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.groups[self.group].generation_id += 1


@attrs.frozen(kw_only=True)
class SlowMarkers(Fault):
    """The markers of transactions that end are written after this number of seconds."""

    marker_seconds: float

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.marker_seconds = self.marker_seconds

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.transactions.marker_seconds = 0.0
