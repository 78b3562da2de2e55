"""The partitions of a ledger topic in which entries of a name may be, read together.

Operators add partitions to topics, and then the hash of a name has another remainder. A name's entries stay in the
partition in which they are, so every partition that an earlier count of partitions gave to the name is read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from ottla.plugins.partitioners.murmur2 import positive
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.ledger.entry import Status
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.partition import LedgerPartition, existing
from ottla_spark.exactly_once.ledger.reader import LedgerReader
from ottla_spark.exactly_once.ledger.scan import LedgerScan


def partition_of(name: str, count: int) -> int:
    """Return the partition for a name's first entry, in a topic of *count* partitions."""
    return _hash(name) % count


def partitions_of(name: str, count: int) -> Sequence[int]:
    """Return every partition that had the name while the topic had *count* partitions or fewer; today's is first."""
    hashed = _hash(name)
    return list(dict.fromkeys(hashed % each for each in range(count, 0, -1)))


def _hash(name: str) -> int:
    return positive(murmur2(name.encode()))


@attrs.frozen(kw_only=True)
class PlacesRead:
    """A name's entries in one topic. `scan` is that of `home`, the partition in which the next entry belongs.

    `end` adds up the ends of all partitions, so it never decreases. `outdated` are other partitions with an entry that
    is older, and `unwanted` those and the ones with an entry of unknown origin. `problem` says why it is unknown which
    entry is the last.
    """

    home: LedgerPartition
    scan: LedgerScan
    end: int
    has_open_entry: bool
    outdated: Sequence[LedgerPartition] = ()
    unwanted: Sequence[LedgerPartition] = ()
    problem: str = ""


@attrs.define
class Places:
    """Reads the entries of one name in one topic, and keeps the position in each partition."""

    topic: str
    name: str
    _readers: dict[int, tuple[LedgerPartition, LedgerReader]] = attrs.field(factory=dict, init=False)

    @property
    def answered(self) -> bool:
        """Whether a read has found a committed entry of the name, or the committed deletion of one."""
        return any(reader.answered for _place, reader in self._readers.values())

    def read(self, client: BlockingClient, *, lease_ids: Collection[int] | None, timeout: float = 0.0) -> PlacesRead:
        """Read up to the current ends; the topic has to exist. See `LedgerReader.read`.

        The partitions are counted each time: another driver may have written to one that was added in the meantime. Nor
        are their leaders those of the last time: one that has become a follower may not know that yet.
        """
        partitions = existing(client, self.topic, lease=lease_id(self.name)).topics[0].partitions
        scans: list[tuple[LedgerPartition, LedgerScan]] = []
        end = 0
        for partition in partitions_of(self.name, len(partitions)):
            place, reader = self.at(partition)
            place.led(partitions)
            scans.append((place, reader.read(client, place, lease_ids=lease_ids, timeout=timeout)))
            end += reader.end
        return _together(self.topic, self.name, scans, end=end)

    def at(self, partition: int) -> tuple[LedgerPartition, LedgerReader]:
        """Return one partition and its reader."""
        if partition not in self._readers:
            place = LedgerPartition(topic=self.topic, partition=partition, lease=lease_id(self.name))
            self._readers[partition] = (place, LedgerReader(self.name))
        return self._readers[partition]


def _together(topic: str, name: str, scans: Sequence[tuple[LedgerPartition, LedgerScan]], *, end: int) -> PlacesRead:
    """Choose the home. Deletions count only where no partition has an entry: compaction removes them in the end."""
    with_entry = [each for each in scans if each[1].has_entry]
    # Each lease has a later epoch of the same producer id, unless brokers gave the lease another id: see `_problem`.
    with_entry.sort(key=lambda each: each[1].epoch, reverse=True)
    answered = [each for each in scans if each[1].answered]
    foreign = [each for each in scans if each[1].foreign_entry is not None and not each[1].answered]
    home, scan = [*with_entry, *answered, *foreign, *scans][0]
    outdated = [place for place, _scan in with_entry if place is not home]
    return PlacesRead(
        home=home,
        scan=scan,
        end=end,
        has_open_entry=any(each.has_open_entry for _place, each in scans),
        outdated=outdated,
        unwanted=[*outdated, *(place for place, _scan in foreign if place is not home)],
        problem=_problem(topic, name, with_entry),
    )


def _problem(topic: str, name: str, found: Sequence[tuple[LedgerPartition, LedgerScan]]) -> str:
    """Return why the newest of these entries is unknown, "" if it is known. They are in the order of their epochs."""
    scans = [scan for _place, scan in found]
    known = len({scan.written_by for scan in scans}) < 2 and len({scan.epoch for scan in scans}) == len(scans)
    if known or _agree(scans):
        return ""
    partitions = ", ".join(str(number) for number in sorted(place.partition for place, _scan in found))
    entries = "; ".join(
        f"partition {place.partition} has "
        + ("one that cannot be read" if scan.last is None else f"batch {scan.last.batch} ({scan.last.status.value})")
        for place, scan in sorted(found, key=lambda each: each[0].partition)
    )
    return (
        f"partitions {partitions} of the ledger topic {topic!r} have entries of {name!r}, and it is unknown which one "
        f"is the last: {entries}. The topic got more partitions, and then an earlier version of ottla-spark wrote to "
        "it. ottla_spark.exactly_once.forget removes all of them; if Spark then runs a batch again that is in Kafka, "
        "its rows are written twice"
    )


def _agree(scans: Sequence[LedgerScan]) -> bool:
    """Return whether all entries say the same, and that nothing is left to do."""
    done = {
        (scan.last.query, scan.last.batch, scan.last.rows)
        if scan.last is not None and scan.last.status is Status.DONE
        else None
        for scan in scans
    }
    return len(done) == 1 and None not in done
