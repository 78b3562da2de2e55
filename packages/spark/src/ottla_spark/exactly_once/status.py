"""A report of what the next driver of a prefix would do. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from ottla.errors import ErrorCode, error_code, printable
from ottla.errors.secret import hide_settings
from ottla.transactions import PreparedTransaction
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.connect import connect
from ottla.transactions.admin.descriptions import ONGOING, described, listed
from ottla_spark.exactly_once.driver.cluster import TransactionOutcome
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.ledger.lookup import LedgerLookup
from ottla_spark.exactly_once.ledger.partition import described as described_topic
from ottla_spark.exactly_once.ledger.write_permissions import check_writers
from ottla_spark.exactly_once.settings import Settings, read_with_guarantee
from ottla_spark.exactly_once.transactional_ids import is_task_id
from ottla_spark.options.write_options import GivenOptions

DEFAULT_TIMEOUT: Final = 60.0

_NOT_RECORDED: Final = "open; not in the ledger: the next driver aborts it, unless the current one records it"

_LEFT_BY_A_JOB: Final = (
    "open; not in the ledger, and the job is finished: readers wait for it until it times out. Run the job again with "
    "the same job_id: it writes nothing, and aborts it"
)


@attrs.frozen(kw_only=True)
class LedgerStatus:
    """The last entry of a name, and the predicted outcome of its transactions and of open ones.

    `doubt` says why the next driver does not trust the entry, or its absence. `other_writers` are users that may
    write to the ledger topic but not under the prefix, as far as brokers show ACLs.
    """

    name: str
    entry: Entry | None
    transactions: Mapping[str, str]
    doubt: str = ""
    other_writers: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [f"ledger of {self.name!r}: {_described(self.entry)}"]
        lines += [f"  the next driver refuses it: {self.doubt}"] if self.doubt else []
        lines += [f"  {each} may write to the ledger topic, but not with this prefix" for each in self.other_writers]
        lines += [f"  {transactional_id}: {becomes}" for transactional_id, becomes in self.transactions.items()]
        return "\n".join(lines if self.transactions else [*lines, "  no transaction is open"])


def ledger_status(
    options: GivenOptions, *, job_id: str | None = None, timeout: float = DEFAULT_TIMEOUT
) -> LedgerStatus:
    """Return the status of the query or the job in Kafka; *options* are those of the write, and no topic is needed.

    Raises InvalidWriteError for wrong options, TransactionTimeoutError, or TransactionError when the cluster refuses.
    """
    options = hide_settings(options)
    _, settings = read_with_guarantee(options, job=job_id)
    connections = connect(settings.connection)
    try:
        return _inspected(BlockingClient(connections, timeout=timeout), settings, of_job=job_id is not None)
    finally:
        connections.close()


def predicted(
    name: str,
    entry: Entry | None,
    open_ids: Sequence[str],
    outcomes: Sequence[TransactionOutcome],
    *,
    of_job: bool = False,
) -> LedgerStatus:
    """Return the status that follows from *outcomes* and *open_ids*.

    *outcomes* has one for each transaction of the entry, in the entry's order; *open_ids* are those of all open ones.
    """
    found: dict[str, str] = {}
    of_entry = entry.listed if entry is not None and entry.status is Status.RECORDED else ()
    for each, outcome in zip(of_entry, outcomes, strict=False):
        found[each.prepared.transactional_id] = f"{outcome.value}; {_prediction(outcomes)}"
    finished = of_job and entry is not None and entry.status is Status.DONE
    for transactional_id in open_ids:
        # These include the transactions of a batch that is being written.
        found.setdefault(transactional_id, _LEFT_BY_A_JOB if finished else _NOT_RECORDED)
    return LedgerStatus(name=name, entry=entry, transactions=found)


def _prediction(outcomes: Sequence[TransactionOutcome]) -> str:
    """Describe the decision of `driver.recovery`."""
    if TransactionOutcome.UNKNOWN in outcomes:
        return "the brokers do not say how it ended: the next driver asks again, then commits or raises DataLossError"
    if TransactionOutcome.ABORTED in outcomes:
        return (
            "a part of its batch is visible and the rest is lost: the next driver raises DataLossError"
            if TransactionOutcome.COMMITTED in outcomes
            else "no row of its batch is visible: the next driver aborts the batch and writes it again"
        )
    return "its batch is in the ledger: the next driver commits the open transactions"


def _described(entry: Entry | None) -> str:
    if entry is None:
        return "nothing was ever written, or it was forgotten"
    what = f"batch {entry.batch} of query {printable(entry.query)}"
    match entry.status:
        case Status.RECORDED:
            return f"{what} is recorded, and its transactions are still to be committed"
        case Status.DONE:
            return f"{what} is in Kafka"
        case Status.VOID:
            return f"{what} was aborted, and is still to be written again"


def _inspected(client: BlockingClient, settings: Settings, *, of_job: bool) -> LedgerStatus:
    ledger = LedgerLookup(settings).read(client, exists=_has_topic(client, settings))
    entry = ledger.last
    ids = {each for node in client.brokers() for each in listed(client, node, f"{settings.name}/", only_open=True)}
    mine = sorted(each for each in ids if is_task_id(settings.name, each))
    outcomes = [_outcome(client, each.prepared) for each in entry.listed] if entry is not None else []
    other_writers = check_writers(client, settings)
    return attrs.evolve(
        predicted(settings.name, entry, mine, outcomes, of_job=of_job),
        doubt=ledger.doubt,
        other_writers=other_writers,
    )


def _has_topic(client: BlockingClient, settings: Settings) -> bool:
    """Return whether the ledger topic exists, and check it; do not create it."""
    found = described_topic(client, settings.topic.name)
    if error_code(found.topics[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    settings.topic.ensure(client)
    return True


def _outcome(client: BlockingClient, prepared: PreparedTransaction) -> TransactionOutcome:
    """Return the outcome that the coordinator reports, without a request to end the transaction."""
    state = described(client, prepared.transactional_id)
    elsewhere = prepared.cluster_id not in (None, client.known_cluster_id())
    if elsewhere or state is None or state.producer_id != prepared.producer_id:
        return TransactionOutcome.UNKNOWN
    if state.transaction_state == ONGOING and state.producer_epoch == prepared.epoch:
        return TransactionOutcome.OPEN
    if state.producer_epoch not in (prepared.epoch, prepared.epoch + 1):  # an EndTxn may increase it by one
        return TransactionOutcome.UNKNOWN
    return _OUTCOMES.get(state.transaction_state, TransactionOutcome.UNKNOWN)


_OUTCOMES: Final = {
    "PrepareCommit": TransactionOutcome.COMMITTED,
    "CompleteCommit": TransactionOutcome.COMMITTED,
    "PrepareAbort": TransactionOutcome.ABORTED,
    "CompleteAbort": TransactionOutcome.ABORTED,
}
