"""Lookup of a name's last entry, and whether it is trusted.

In a ledger topic of the prefix's own, the topic's ACLs decide who may write entries. In a shared topic, and in the one
that earlier versions shared, only entries of the lease's producer ids are trusted: brokers verify those. Two of them
can be known: the coordinator's producer id before the lease is taken, and the one that it then assigns.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs

from ottla.errors import BrokerError, ErrorCode, error_code
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.descriptions import described as described_transaction
from ottla_spark.exactly_once.ledger.entry import Ledger
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.partition import LedgerPartition, described, existing
from ottla_spark.exactly_once.ledger.reader import LedgerReader
from ottla_spark.exactly_once.ledger.scan import LedgerScan
from ottla_spark.exactly_once.ledger.topic import partition_of
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

    `taken_over_from` is where the last entry was read, if that is the topic of an earlier version.
    """

    settings: Settings
    lease_ids: set[int] = attrs.field(factory=set, init=False)
    taken_over_from: LedgerPartition | None = attrs.field(default=None, init=False)
    _reader: LedgerReader = attrs.field(init=False)
    _earlier: LedgerReader = attrs.field(init=False)
    _holder: int = attrs.field(default=-1, init=False)
    _just_leased: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = LedgerReader(self.settings.name)
        self._earlier = LedgerReader(self.settings.name)

    def before_lease(self, client: BlockingClient) -> None:
        """Learn the lease's current producer id, which taking the lease may replace."""
        if self.settings.shared or (self.settings.earlier and not self._reader.answered):
            found = described_transaction(client, lease_id(self.settings.name))
            if found is not None and found.producer_id >= 0:
                self.lease_ids.add(found.producer_id)

    def leased(self, producer_id: int) -> None:
        """Add the producer id that the lease has now."""
        self.lease_ids.add(producer_id)
        self._holder, self._just_leased = producer_id, True

    def read(self, client: BlockingClient, place: LedgerPartition | None) -> Ledger:
        """Read the name's ledger from its own topic; *place* is None when that topic does not exist yet."""
        timeout = 0.0 if self._just_leased else _MARKER_TIMEOUT
        if not self._just_leased:
            self.before_lease(client)
        self._just_leased, end = False, -1
        if place is not None:
            known_ids = self.lease_ids if self.settings.shared and not self.settings.count_all_writers else None
            scan = self._reader.read(client, place, lease_ids=known_ids, timeout=timeout)
            end = self._reader.end
            if scan.answered or scan.foreign_entry is not None or not self.settings.earlier:
                moved = self.settings.shared and -1 not in (self._holder, scan.written_by)
                return self._ledger(scan, place, end=end, restate=moved and scan.written_by != self._holder)
        return self._of_earlier_version(client, end=end)

    def _of_earlier_version(self, client: BlockingClient, *, end: int) -> Ledger:
        """Read the name's ledger from the topic that earlier versions shared."""
        nothing = Ledger(last=None, end=end)
        topic = self.settings.earlier
        if not topic:
            return nothing
        found = described(client, topic)
        code = error_code(found.topics[0].error_code)
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
        count = len(existing(client, topic).topics[0].partitions)
        place = LedgerPartition(topic=topic, partition=partition_of(self.settings.name, count))
        ids = None if self.settings.count_all_writers else self.lease_ids
        scan = self._earlier.read(client, place, lease_ids=ids)
        self.taken_over_from = place if scan.last is not None else None
        return self._ledger(scan, place, end=end, restate=scan.last is not None)

    def _ledger(self, scan: LedgerScan, place: LedgerPartition, *, end: int, restate: bool) -> Ledger:
        doubt, foreign = "", scan.foreign_entry
        where = f"partition {place.partition} of the ledger topic {place.topic!r}"
        if scan.problem:
            doubt = (
                f"{where} has an entry of {self.settings.name!r} that cannot be read: {scan.problem}. Brokers may "
                "compress batches again (set compression.type of the topic to producer), or a newer version of Ottla "
                "wrote it. ottla_spark.exactly_once.forget removes the entry, and its batch is then written again"
            )
        elif not scan.answered and foreign is not None:
            doubt = (
                f"{where} has an entry under {self.settings.name!r} at offset {foreign.offset}, of producer id "
                f"{foreign.producer_id}, which brokers no longer know as this name's lease: the lease expired "
                f"(transactional.id.expiration.ms), or another user wrote the entry. {_HELP}"
            )
            if place.topic == self.settings.topic.name:
                doubt += f". If no other user may write to the topic, set {SHARED}=false"
            else:
                doubt += f". If no query of this prefix ever used that topic, set {EARLIER} to an empty string"
        return Ledger(last=scan.last, end=end, doubt=doubt, restate=restate, has_open_entry=scan.has_open_entry)
