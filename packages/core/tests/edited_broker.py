"""A simulated broker that says of some partitions what a test wants: other codes, offsets, times, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from machine import Machine
from ottla.protocol import PartitionProduceResponse, ProduceRequest, ProduceResponse
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster

Edit: TypeAlias = Callable[[PartitionProduceResponse], PartitionProduceResponse | None]


@attrs.define(kw_only=True, slots=False)
class EditedBroker(SimulatedBroker):
    """Edits its next answer for each of these partitions, once; None leaves the partition out."""

    edits: dict[int, Edit] = attrs.field(factory=dict)

    def edit(self, request: ProduceRequest, response: ProduceResponse) -> ProduceResponse:
        for topic in response.responses:
            edited = [self.edits.pop(each.index, _same)(each) for each in topic.partition_responses]
            topic.partition_responses = [each for each in edited if each is not None]
        return response


def edited_machine(edits: Mapping[int, Edit], **settings: float) -> Machine:
    """A machine whose only broker leads both partitions of topic t."""
    cluster = SimulatedCluster()
    cluster.brokers[1] = EditedBroker(cluster=cluster, id=1, edits=dict(edits))
    cluster.create("t", 1, 1)
    return Machine(cluster, **settings)  # type: ignore[arg-type]  # every setting is a number


def run_until(machine: Machine, happened: Callable[[], object]) -> None:
    """Rounds until something has happened, which fails when it does not happen at all."""
    for _ in range(10_000):
        if happened():
            return
        machine.round()
    raise AssertionError("ten thousand rounds, and it has not happened")


def _same(answer: PartitionProduceResponse) -> PartitionProduceResponse:
    return answer
