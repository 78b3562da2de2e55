"""Consumers that read the committed records of a history while it runs, and what they must never see.

At its end, a history whose transactions are whole says nothing of what a consumer has read before.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from invariants import Sent, Violation, name_of
from ottla.recordbatch.parse import Record
from ottla_testkit.simulation import SimulatedCluster, SimulatedTopic
from ottla_testkit.simulation.committed_reader import CommittedReader


@attrs.define(eq=False)
class _Written:
    """A transaction of the program: its records so far, and whether a commit was called."""

    records: Sequence[Sent]
    number: int
    committing: bool = False


@attrs.define(eq=False)
class _Position:
    """A reader, the highest number that it has read, and the transactions of which it has read records."""

    reader: CommittedReader
    newest: int = -1
    seen: set[int] = attrs.field(factory=set)


class CommittedReaders:
    """A reader of each partition, and the transactions of one program."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._written: list[_Written] = []
        self._positions: dict[tuple[bytes, int], _Position] = {}

    def begin(self, records: Sequence[Sent]) -> None:
        """Note a transaction that begins, with its records, which are added as they are sent."""
        self._written.append(_Written(records, len(self._written)))

    def commit(self) -> None:
        """Note that the program commits its transaction."""
        self._written[-1].committing = True

    def poll(self) -> None:
        """Read what can be read now, and check it."""
        for topic in self._cluster.topics.values():
            for partition in topic.log:
                position = self._position(topic, partition)
                found = position.reader.poll()
                if found:
                    self._check(f"{topic.name}-{partition}", position, found)

    def check_begin(self) -> None:
        """Check that no transaction of before is open anywhere when a producer has got its id."""
        for topic in self._cluster.topics.values():
            for partition, open_transactions in topic.open_transactions.items():
                found = {producer_id for producer_id, places in open_transactions.items() if places}
                if not found <= self._cluster.transactions.lost:
                    raise Violation(f"{topic.name}-{partition}: a transaction is open after init_transactions")

    def check_end(self) -> None:
        """Check that every transaction has ended in every partition, unless its coordinator has not ended it yet."""
        self.poll()
        owners = self._cluster.transactions.ids.values()
        unfinished = {owner.producer_id for owner in owners if owner.ongoing or owner.completing}
        unfinished |= {owner.previous_id for owner in owners if owner.completing} | self._cluster.transactions.lost
        for topic in self._cluster.topics.values():
            for partition in topic.log:
                waits_for = self._position(topic, partition).reader.waits_for
                if waits_for is not None and waits_for not in unfinished:
                    raise Violation(f"{topic.name}-{partition}: a transaction of producer {waits_for} never ends")

    def _position(self, topic: SimulatedTopic, partition: int) -> _Position:
        place = bytes(topic.id), partition
        if place not in self._positions:
            self._positions[place] = _Position(CommittedReader(topic, partition))
        return self._positions[place]

    def _check(self, place: str, position: _Position, found: Sequence[Record]) -> None:
        now: set[int] = set()
        for record in found:
            name = name_of(record.value)
            written = next((each for each in self._written if any(sent.name == name for sent in each.records)), None)
            what = f"{place}: record {name[0]}:{name[1]}"
            if written is None or not written.committing:
                raise Violation(f"{what} could be read before its transaction was committed")
            if written.number in position.seen:
                raise Violation(f"{what} could be read later than others of its transaction")
            if name[1] <= position.newest:
                raise Violation(f"{what} could be read after record {position.newest}")
            position.newest = name[1]
            now.add(written.number)
        position.seen |= now
