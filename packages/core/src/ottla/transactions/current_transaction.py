"""The transaction that a producer has open, as a value: what brokers know of it, and what its end still needs."""

from __future__ import annotations

from typing import Final, Self

import attrs

TXN_V2: Final = 2
"""The level of the feature `transaction.version` from which writing adds partitions to a transaction (KIP-890)."""


@attrs.frozen(kw_only=True)
class CurrentTransaction:
    """The open transaction, or the next one; each method returns the value that follows.

    `version` is the `transaction.version` that the current epoch uses, or None while the epoch is not used yet.
    `started`: brokers have the transaction, so it needs an EndTxn request.
    `maybe_started`: they may have it, because a response was lost.
    `prepared`: `prepare_transaction` was called for it.
    `all_records_queued`: the call that ends it has queued every record.
    `needs_new_epoch`: the next transaction must not begin in this epoch.
    `maybe_committed`: a commit of it may have been carried out, because its response was lost.
    `commit_refused_at`: when a broker that may be no coordinator any more has refused its commit first, or first after
    a response to it was lost.
    `refused`: such a broker has refused another request, such as its abort.
    """

    version: int | None = None
    started: bool = False
    maybe_started: bool = False
    prepared: bool = False
    all_records_queued: bool = False
    needs_new_epoch: bool = False
    maybe_committed: bool = False
    commit_refused_at: float | None = None
    refused: bool = False

    @property
    def uses_v2(self) -> bool:
        """Return whether the transaction uses the protocol of KIP-890."""
        return self.version is not None and self.version >= TXN_V2

    @property
    def can_start(self) -> bool:
        """Return whether the transaction may be started in this epoch, or is started already."""
        return self.started or not self.needs_new_epoch

    @property
    def needs_end(self) -> bool:
        """Return whether EndTxn has to be sent: brokers have the transaction, or may have it.

        If they have it, and the next epoch were requested without this, they would fence the producer: before KIP-890,
        InitProducerId ends an open transaction in an epoch that is not the caller's.
        """
        return self.started or self.maybe_started

    @property
    def _may_begin_late(self) -> bool:
        return self.maybe_started and not self.started

    def begin(self, cluster_version: int) -> Self:
        """Return the transaction with the version that its requests use; call it before each one.

        One that brokers may have keeps its version, as InitProducerId would fence this producer (see `needs_end`).
        """
        if self.needs_end or self.version == cluster_version:
            return self
        if self.version is not None and not self.uses_v2 and cluster_version >= TXN_V2:
            # KIP-890: requests of the old protocol may still be in flight in this epoch.
            return attrs.evolve(self, needs_new_epoch=True)
        return self if self.needs_new_epoch else attrs.evolve(self, version=cluster_version)

    def start(self) -> Self:
        """Return the transaction as one that brokers have."""
        return self if self.started else attrs.evolve(self, started=True)

    def after_lost_response(self) -> Self:
        """Return the transaction as one that brokers may have, because a response was lost."""
        return attrs.evolve(self, maybe_started=True)

    def after_lost_commit(self) -> Self:
        """Return the transaction as one that may be committed, because a response was lost.

        A refusal before that says nothing about the commit that was lost.
        """
        return attrs.evolve(self, maybe_committed=True, commit_refused_at=None)

    def after_refused_commit(self, now: float) -> Self:
        """Return the transaction as one whose commit was refused, perhaps by an outdated coordinator."""
        return self if self.commit_refused_at is not None else attrs.evolve(self, commit_refused_at=now)

    def after_refusal(self) -> Self:
        """Return the transaction as one of which a request was refused that is no commit, perhaps by such a broker."""
        return attrs.evolve(self, refused=True)

    def end_later(self, *, prepare: bool = False) -> Self:
        """Return the transaction as one that a call ends, or prepares, once all its records are queued."""
        return attrs.evolve(self, all_records_queued=False, prepared=self.prepared or prepare)

    def queue_all_records(self) -> Self:
        """Return the transaction as one whose records are all queued."""
        return attrs.evolve(self, all_records_queued=True)

    def take_epoch(self) -> Self:
        """Return a copy that uses the epoch of an InitProducerId response."""
        return attrs.evolve(self, version=None, needs_new_epoch=False, refused=False)

    def end(self, *, next_epoch_assigned: bool) -> Self:
        """Return the transaction after EndTxn has succeeded; with KIP-890 its response assigns the next epoch.

        If brokers may have had the transaction, the request that began it may still arrive.
        """
        return attrs.evolve(
            self,
            started=False,
            maybe_started=False,
            maybe_committed=False,
            commit_refused_at=None,
            refused=False,
            needs_new_epoch=self.needs_new_epoch or self._may_begin_late or (self.uses_v2 and not next_epoch_assigned),
        )

    def complete(self, *, uncertain: bool) -> Self:
        """Return the next transaction, not begun; *uncertain*: a failed batch may still be written."""
        # A prepared transaction's epoch is not used again, so that a repeated `complete` cannot end a later one. If a
        # response was lost, the coordinator may have an open transaction in this epoch.
        reusable = self.uses_v2 or not self.prepared
        return attrs.evolve(
            self,
            started=False,
            maybe_started=False,
            prepared=False,
            maybe_committed=False,
            commit_refused_at=None,
            refused=False,
            needs_new_epoch=self.needs_new_epoch or uncertain or self._may_begin_late or not reusable,
        )
