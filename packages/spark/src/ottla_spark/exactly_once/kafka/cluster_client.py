"""Cluster client that sends its requests over the network, one after another on the caller's thread."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import attrs

from ottla.errors import (
    BrokerError,
    ErrorCode,
    OttlaError,
    TransactionError,
    TransactionTimeoutError,
    UnsupportedVersionError,
)
from ottla.protocol.messages.describe_transactions import TransactionState
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions import OpenTransaction, Outcome, PreparedTransaction
from ottla.transactions.admin.blocking_client import BlockingClient, LastResponse
from ottla.transactions.admin.completion import end_with
from ottla.transactions.admin.connect import connect
from ottla.transactions.admin.descriptions import ENDING, ONGOING, described, described_together, listed
from ottla.transactions.admin.open_transactions import abort_with
from ottla.transactions.coordinator_request import InitProducerId
from ottla_spark.exactly_once.acl_hints import naming_right, transactions_right
from ottla_spark.exactly_once.driver.cluster import OpenTaskTransaction, TransactionOutcome, TransactionStatus
from ottla_spark.exactly_once.errors import EntryNotWrittenError, LeaseLostError
from ottla_spark.exactly_once.kafka.timeout_limits import LIMITS_VALID, TimeoutLimits
from ottla_spark.exactly_once.ledger.entry import FORGOTTEN, MOVED, Entry, Ledger
from ottla_spark.exactly_once.ledger.lease import Lease, lease_id
from ottla_spark.exactly_once.ledger.lookup import LedgerLookup
from ottla_spark.exactly_once.ledger.partition import LedgerPartition
from ottla_spark.exactly_once.ledger.write_permissions import check_writers
from ottla_spark.exactly_once.ledger.writer import write_entry
from ottla_spark.exactly_once.settings import Settings
from ottla_spark.exactly_once.transactional_ids import is_task_id

_log = logging.getLogger(__name__)

_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux's clock that also counts the time in which the machine was suspended; brokers count it, too."""

RESPONSE_TIMEOUT: Final = 120.0
"""Seconds to wait for each response of the cluster, for example while a broker restarts."""

ONE_AFTER_ANOTHER: Final = 30.0
"""Seconds for which requests share one deadline of `RESPONSE_TIMEOUT`; the last of them still has the rest of it."""

BRIEFLY: Final = 3.0
"""Seconds for a broker's response. An open transaction that this misses is found at the next batch, or times out."""

MARKERS_AGAIN: Final = 0.01
"""Seconds between two requests for the state of transactions whose markers are not written yet."""

_LAST_RENEWED: Final = 30_000
"""Epoch from which on a lease is not renewed: brokers would soon give it another producer id, for which the ledger's
entry has to be copied. They do so at 32,766."""

_NOT_HELD: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""Codes for a lease that another driver has taken since."""


class KafkaClusterClient:
    """`ClusterClient` for real brokers. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections = connect(settings.connection)
        self._lookup = LedgerLookup(settings)
        self._checked = False
        self._check_settings_at: float | None = None
        """When to read the settings of the ledger topic again; None if the user may not see them."""
        self._cluster_id: tuple[str | None] | None = None
        """The cluster's id, which may be None; None as a whole until brokers have said it."""
        self._client = BlockingClient(self._connections, timeout=RESPONSE_TIMEOUT)
        self._client_since = self._connections.clock()
        self._limits = TimeoutLimits(
            settings,
            self._connections,
            brokers=lambda: self._blocking_client().brokers(),
            briefly=self._briefly,
        )

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def now(self) -> float:
        """See `ClusterClient`."""
        if sys.platform == "win32" or _CLOCK is None:
            return time.monotonic()
        return time.clock_gettime(_CLOCK)

    def cluster_id(self) -> str | None:
        """Return the id that all brokers of the cluster share, or None if they have none."""
        if self._cluster_id is None:
            self._cluster_id = (self._blocking_client().cluster_id(),)
        return self._cluster_id[0]

    def timeout_ms(self) -> int:
        """Return the timeout of a task's transaction. Raises LedgerMismatchError if brokers do not allow it."""
        return self._limits.task_ms()

    def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[OpenTaskTransaction]:
        """See `ClusterClient`."""
        client = self._blocking_client()
        nodes, cluster_id = client.brokers(), client.known_cluster_id()
        ids = {each for node in nodes for each in self._listed(node, name)}
        mine = sorted(each for each in ids if each not in but and is_task_id(name, each))
        states = described_together(client, mine)
        return [
            _open(state, cluster_id) for state in states if state is not None and state.transaction_state == ONGOING
        ]

    def take_lease(self, name: str) -> Lease:
        """See `ClusterClient`. Creates the ledger topic when it is missing."""
        client = self._blocking_client()
        self._check_topic(client)
        self._check_settings_again()
        with _naming_rights(name):
            self._lookup.before_lease(client)
            ended = self._initialize(client, name, current=None)
        assigned = ended.response
        self._lookup.leased(assigned.producer_id)
        return Lease(name=name, producer_id=assigned.producer_id, epoch=assigned.producer_epoch, level=client.level())

    def renew_lease(self, lease: Lease) -> Lease | None:
        """See `ClusterClient`. A lost response does no harm: the same request gets the same epoch again (KIP-360)."""
        if lease.epoch >= _LAST_RENEWED:
            return lease if self.holds(lease) else None
        client = self._blocking_client()
        with _naming_rights(lease.name):
            current = ProducerIdAndEpoch(id=lease.producer_id, epoch=lease.epoch)
            ended = self._initialize(client, lease.name, current=current)
        if ended.code is not ErrorCode.NONE:
            return None
        assigned = ended.response
        return attrs.evolve(lease, producer_id=assigned.producer_id, epoch=assigned.producer_epoch, sequence=0)

    def _initialize(self, client: BlockingClient, name: str, *, current: ProducerIdAndEpoch | None) -> LastResponse:
        """Take the lease; with *current* only from that holder, else the response has one of the codes of `_NOT_HELD`.

        Raises TransactionError for any other code.
        """
        timeout_ms = self._limits.lease_ms()
        request = InitProducerId(transactional_id=lease_id(name), timeout_ms=timeout_ms, current=current)
        ended = client.run(request, lease_id(name))
        if ended.code is not ErrorCode.NONE and (current is None or ended.code not in _NOT_HELD):
            error = BrokerError(ended.code)
            message = f"the ledger of {name!r} cannot be taken over: {error}"
            raise TransactionError(message + self._limits.remedy(ended.code, timeout_ms)) from error
        return ended

    def holds(self, lease: Lease) -> bool:
        """See `ClusterClient`."""
        state = described(self._blocking_client(), lease.transactional_id)
        return state is not None and _is_of(state, lease)

    def superseded(self, lease: Lease, *, within: float) -> bool:
        """Return whether the lease is a newer one by now, False when that is unknown; *within* limits the seconds."""
        client = self._blocking_client()
        with client.within(within):
            state = described(client, lease.transactional_id)
        return state is not None and not _is_of(state, lease)

    def ledger(self, name: str) -> Ledger:
        """See `ClusterClient`."""
        client = self._blocking_client()
        self._check_topic(client)
        with _naming_rights(name):
            return self._lookup.read(client)

    def append(self, lease: Lease, entry: Entry | None) -> Lease:
        """See `ClusterClient`."""
        client, settings, lookup = self._blocking_client(), self._settings, self._lookup
        self._check_topic(client)
        place, forgotten = lookup.place(lease.partition), FORGOTTEN if settings.earlier else None
        value = forgotten if entry is None else entry.to_bytes()
        for each in lookup.unwanted if entry is None else lookup.outdated:
            # Before the entry: as long as that is not deleted, a driver that dies here leaves the last one readable.
            lease = _write_beside(client, each, lease, None)
        lookup.outdated = lookup.unwanted = ()
        after = write_entry(client, place, lease, value)
        if settings.shared and after.producer_id != lease.producer_id:
            # The producer id has used all its epochs, and a later driver knows only the new producer id.
            with _entry_is_written():
                after = write_entry(client, place, after, value)
        for each in lookup.taken_over_from:
            after = self._close_earlier(client, each, after)
        lookup.taken_over_from = ()
        return after

    def _close_earlier(self, client: BlockingClient, place: LedgerPartition, lease: Lease) -> Lease:
        """Keep drivers of earlier versions from continuing with an entry that was taken over from their topic."""
        try:
            return _write_beside(client, place, lease, MOVED)
        except OttlaError as error:
            _log.warning(
                "the ledger of %r is now in the topic %r, but its entry in the topic of earlier ottla-spark versions "
                "could not be marked as moved (%s). Do not run such a version with this prefix: it would continue from "
                "that entry",
                lease.name,
                self._settings.topic.name,
                error,
            )
            return lease

    def statuses(self, transactions: Sequence[PreparedTransaction]) -> Sequence[TransactionStatus]:
        """See `ClusterClient`."""
        client = self._blocking_client()
        with client.only_in_cluster_of(next(iter(transactions), None)):  # all of a batch are in one
            states = described_together(client, [each.transactional_id for each in transactions])
            return [_status(client, each, state) for each, state in zip(transactions, states, strict=True)]

    def await_markers(self, transactions: Sequence[PreparedTransaction], *, within: float) -> int:
        """Wait until readers see these committed transactions; return how many they do not see yet.

        A coordinator answers EndTxn before it has written the markers at which these readers wait. *within* limits the
        seconds. Raises an OttlaError if a coordinator does not say how far it is.
        """
        end = self._connections.clock() + within
        client = BlockingClient(self._connections, timeout=within)
        waiting: Sequence[str] = [each.transactional_id for each in transactions]
        while waiting:
            states = described_together(client, waiting)
            waiting = [
                each.transactional_id for each in states if each is not None and each.transaction_state == ENDING
            ]
            if not waiting or self._connections.clock() >= end:
                break
            time.sleep(MARKERS_AGAIN)
        return len(waiting)

    def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
        """See `ClusterClient`."""
        client = self._blocking_client()
        with _naming_rights(self._settings.name), client.within(RESPONSE_TIMEOUT if within is None else within):
            return end_with(client, prepared, commit=commit, open_before=True)

    def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
        """See `ClusterClient`."""
        transaction = OpenTransaction(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            epoch=found.epoch,
            started_ms=-1,
            timeout_ms=found.timeout_ms,
            partitions=(),
            cluster_id=found.cluster_id,
        )
        client = self._blocking_client()
        with contextlib.nullcontext() if within is None else client.within(within):
            abort_with(client, transaction)

    def _listed(self, node: int, name: str) -> Sequence[str]:
        """Return the transactional ids with open transactions that one broker coordinates.

        None of them if the broker is down, because other brokers then coordinate its transactions.
        """
        try:
            return listed(self._briefly(), node, f"{name}/", only_open=True)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(
                "exactly-once needs Kafka 3.0 or later on every broker, for DescribeTransactions and ListTransactions"
            ) from error
        except TransactionTimeoutError as error:
            _log.warning("the open transactions of broker %d cannot be listed: %s", node, error)
            return ()

    def _briefly(self) -> BlockingClient:
        """Return a client with a short timeout: for requests to every broker whose responses are not essential."""
        return BlockingClient(self._connections, timeout=BRIEFLY)

    def _check_topic(self, client: BlockingClient) -> None:
        """Create the ledger topic if it is missing, and check it, once."""
        if not self._checked:
            visible = self._settings.topic.ensure(client)
            check_writers(self._briefly(), self._settings)
            self._checked = True
            self._check_settings_at = self._connections.clock() + LIMITS_VALID if visible else None

    def _check_settings_again(self) -> None:
        """Check the ledger topic's settings every `LIMITS_VALID` seconds: an administrator may change them.

        Before a batch, whose tasks then do not begin. Other errors are left to the requests that follow.
        """
        now = self._connections.clock()
        if self._check_settings_at is None or now < self._check_settings_at:
            return
        self._check_settings_at = now + LIMITS_VALID
        with contextlib.suppress(TransactionError):
            if not self._settings.topic.check(self._briefly()):
                self._check_settings_at = None

    def _blocking_client(self) -> BlockingClient:
        """Return a client whose requests share a deadline and the coordinators that it found, for some seconds."""
        now = self._connections.clock()
        if now - self._client_since > ONE_AFTER_ANOTHER:
            self._client, self._client_since = BlockingClient(self._connections, timeout=RESPONSE_TIMEOUT), now
        return self._client


def _write_beside(client: BlockingClient, place: LedgerPartition, lease: Lease, value: bytes | None) -> Lease:
    """Write to another partition than that of the lease; return the lease to use next for its own."""
    after = write_entry(client, place, attrs.evolve(lease, sequence=0), value)
    # Within an epoch, sequence numbers continue for each partition.
    return lease if (after.producer_id, after.epoch) == (lease.producer_id, lease.epoch) else after


@contextlib.contextmanager
def _entry_is_written() -> Iterator[None]:
    """Let an error not say that the entry is not in the ledger: it was written before, and is written once more."""
    try:
        yield
    except EntryNotWrittenError as error:
        raise TransactionError(str(error)) from error
    except LeaseLostError as error:
        error.refused = False
        raise


@contextlib.contextmanager
def _naming_rights(name: str) -> Iterator[None]:
    """Add the missing right to authorization errors of requests with the lease's transactional id."""
    try:
        yield
    except TransactionError as refused:
        cause = refused.__cause__
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise TransactionError(naming_right(str(refused), cause.code, transactions_right(name))) from cause
        raise


def _is_of(state: TransactionState, lease: Lease) -> bool:
    return (state.producer_id, state.producer_epoch) == (lease.producer_id, lease.epoch)


def _open(state: TransactionState, cluster_id: str | None) -> OpenTaskTransaction:
    return OpenTaskTransaction(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        cluster_id=cluster_id,
    )


def _status(client: BlockingClient, prepared: PreparedTransaction, state: TransactionState | None) -> TransactionStatus:
    """Return the outcome that the coordinator reports; EndTxn returns that of an ended transaction unchanged."""
    if state is None:
        return TransactionStatus(outcome=TransactionOutcome.UNKNOWN)
    if state.transaction_state == ONGOING and (state.producer_id, state.producer_epoch) == (
        prepared.producer_id,
        prepared.epoch,
    ):
        return TransactionStatus(
            outcome=TransactionOutcome.OPEN,
            age=time.time() - state.transaction_start_time_ms / 1000,
            timeout=state.transaction_timeout_ms / 1000,
        )
    return TransactionStatus(outcome=_OUTCOMES[end_with(client, prepared, commit=True, open_before=False)])


_OUTCOMES: Final = {
    Outcome.COMMITTED: TransactionOutcome.COMMITTED,
    Outcome.ALREADY_COMMITTED: TransactionOutcome.COMMITTED,
    Outcome.ABORTED: TransactionOutcome.ABORTED,
    Outcome.ALREADY_ABORTED: TransactionOutcome.ABORTED,
    # Another producer initialized the transactional id, which aborted the open transaction. It cannot have been
    # committed before: ids of a committed batch are used again only after the ledger has the batch's entry.
    Outcome.FENCED: TransactionOutcome.ABORTED,
    Outcome.UNKNOWN: TransactionOutcome.UNKNOWN,
}
