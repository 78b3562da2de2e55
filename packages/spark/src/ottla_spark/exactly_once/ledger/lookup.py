"""Lookup of a name's last entry, and whether it is trusted.

In a ledger topic of the prefix's own, the topic's ACLs decide who may write entries. In a shared topic, and in the one
that earlier versions shared, only entries of the lease's producer ids are trusted: brokers verify those. Two of them
can be known: the coordinator's producer id before the lease is taken, and the one that it then assigns.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import BrokerError, ErrorCode, error_code
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.descriptions import described as described_transaction
from ottla_spark.exactly_once.ledger.entry import Ledger
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.partition import LedgerPartition, described
from ottla_spark.exactly_once.ledger.places import Places, PlacesRead
from ottla_spark.exactly_once.settings import EARLIER, SHARED, Settings

_log = logging.getLogger(__name__)

_MARKER_TIMEOUT: Final = 5.0
"""Seconds to wait for an entry's marker when no lease was taken that would have ended its transaction."""

_HELP: Final = (
    "If this query or job wrote the entry, take it over with ottla_spark.exactly_once.adopt. If not, remove it with "
    "ottla_spark.exactly_once.forget; if it recorded a batch of this query, that batch is then written again"
)


@attrs.define
class LedgerLookup:
    """Reads the ledger of one name; `lease_ids` are the producer ids that its lease is known to have had.

    `taken_over_from` is where entries were read, if that is the topic of an earlier version. `outdated` are partitions
    of the own topic whose entry is not the last, and `unwanted` those in which `forget` has to delete one.
    """

    settings: Settings
    lease_ids: set[int] = attrs.field(factory=set, init=False)
    taken_over_from: Sequence[LedgerPartition] = attrs.field(default=(), init=False)
    outdated: Sequence[LedgerPartition] = attrs.field(default=(), init=False)
    unwanted: Sequence[LedgerPartition] = attrs.field(default=(), init=False)
    _own: Places = attrs.field(init=False)
    _earlier: Places = attrs.field(init=False)
    _holder: int = attrs.field(default=-1, init=False)
    _just_leased: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._own = Places(self.settings.topic.name, self.settings.name)
        self._earlier = Places(self.settings.earlier, self.settings.name)

    def before_lease(self, client: BlockingClient) -> None:
        """Learn the lease's current producer id, which taking the lease may replace."""
        if self.settings.shared or (self.settings.earlier and not self._own.answered):
            found = described_transaction(client, lease_id(self.settings.name))
            if found is not None and found.producer_id >= 0:
                self.lease_ids.add(found.producer_id)

    def leased(self, producer_id: int) -> None:
        """Add the producer id that the lease has now."""
        self.lease_ids.add(producer_id)
        self._holder, self._just_leased = producer_id, True

    def place(self, partition: int) -> LedgerPartition:
        """Return a partition of the own topic."""
        return self._own.at(partition)[0]

    def read(self, client: BlockingClient, *, exists: bool = True) -> Ledger:
        """Read the name's ledger from its own topic, if that exists, or else from that of earlier versions."""
        timeout = 0.0 if self._just_leased else _MARKER_TIMEOUT
        if not self._just_leased:
            self.before_lease(client)
        self._just_leased = False
        if not exists:
            return self._of_earlier_version(client, Ledger(last=None, end=-1))
        known_ids = self.lease_ids if self.settings.shared and not self.settings.count_all_writers else None
        own = self._own.read(client, lease_ids=known_ids, timeout=timeout)
        scan = own.scan
        self.outdated, self.unwanted = own.outdated, own.unwanted
        if scan.answered or scan.foreign_entry is not None or not self.settings.earlier:
            moved = self.settings.shared and -1 not in (self._holder, scan.written_by)
            restate = bool(own.outdated) or (moved and scan.written_by != self._holder)
            return self._ledger(own, end=own.end, partition=own.home.partition, restate=restate)
        return self._of_earlier_version(client, Ledger(last=None, end=own.end, partition=own.home.partition))

    def _of_earlier_version(self, client: BlockingClient, nothing: Ledger) -> Ledger:
        """Read the name's ledger from the topic that earlier versions shared; *nothing* if it has no entry."""
        topic = self.settings.earlier
        if not topic:
            return nothing
        metadata = described(client, topic)
        code = error_code(metadata.topics[0].error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return nothing
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            _log.warning(
                "the topic %r, in which earlier versions kept the ledger of every query, cannot be read for %r (%s). "
                "If this query wrote there, its user needs the right Read for that topic once; otherwise set "
                "the option ledger.earlier.topic to an empty string",
                topic,
                self.settings.name,
                BrokerError(code),
            )
            return nothing
        found = self._earlier.read(client, lease_ids=None if self.settings.count_all_writers else self.lease_ids)
        restate = found.scan.last is not None
        self.taken_over_from = (found.home, *found.outdated) if restate else ()
        return self._ledger(found, end=nothing.end, partition=nothing.partition, restate=restate)

    def _ledger(self, found: PlacesRead, *, end: int, partition: int, restate: bool) -> Ledger:
        scan, place, doubt = found.scan, found.home, found.problem
        foreign = scan.foreign_entry
        where = f"partition {place.partition} of the ledger topic {place.topic!r}"
        if not doubt and scan.problem:
            doubt = (
                f"{where} has an entry of {self.settings.name!r} that cannot be read: {scan.problem}. Brokers may "
                "compress batches again (set compression.type of the topic to producer), or a newer version of Ottla "
                "wrote it. ottla_spark.exactly_once.forget removes the entry, and its batch is then written again"
            )
        elif not doubt and not scan.answered and foreign is not None:
            doubt = (
                f"{where} has an entry under {self.settings.name!r} at offset {foreign.offset}, of producer id "
                f"{foreign.producer_id}, which brokers no longer know as this name's lease: the lease expired "
                f"(transactional.id.expiration.ms), or another user wrote the entry. {_HELP}"
            )
            if place.topic == self.settings.topic.name:
                doubt += f". If no other user may write to the topic, set {SHARED}=false"
            else:
                doubt += f". If no query of this prefix ever used that topic, set {EARLIER} to an empty string"
        return Ledger(
            last=scan.last,
            end=end,
            partition=partition,
            doubt=doubt,
            restate=restate,
            has_open_entry=found.has_open_entry,
        )
