"""DescribeTransactions and ListTransactions requests (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import attrs

from ottla.errors import BrokerError, ErrorCode, OttlaError, TransactionError, error_code, quoted
from ottla.protocol.messages.describe_transactions import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    TransactionState,
)
from ottla.protocol.messages.list_transactions import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.transactions.admin.blocking_client import BlockingClient

ONGOING = "Ongoing"
ENDING = "PrepareCommit"
EMPTY = "Empty"
COMPLETE = frozenset({"CompleteCommit", "CompleteAbort"})
GONE = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_FIRST_WITH_PATTERN = 2


def described(client: BlockingClient, transactional_id: str) -> TransactionState | None:
    """A transactional id as its coordinator describes it; None if the broker is too old or does not know the id."""
    if not _can_describe(client, transactional_id):
        return None

    def code(state: TransactionState | None) -> ErrorCode:
        return ErrorCode.UNKNOWN_SERVER_ERROR if state is None else error_code(state.error_code)

    def one() -> TransactionState | None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = client.ask(client.coordinator(transactional_id), DESCRIBE_TRANSACTIONS, lambda _version: request)
        return next((each for each in response.transaction_states if each.transactional_id == transactional_id), None)

    found = client.until_answered(transactional_id, one, code)
    if code(found) in GONE:
        return None
    _check(code(found), f"describe transactional id {quoted(transactional_id)}")
    return found


def described_together(client: BlockingClient, transactional_ids: Sequence[str]) -> Sequence[TransactionState | None]:
    """Descriptions of many ids, with one request for each coordinator; ids without a result are described singly."""
    client.find_coordinators(transactional_ids)
    by_coordinator: dict[int, list[str]] = {}
    for each in transactional_ids:
        by_coordinator.setdefault(client.coordinator(each), []).append(each)
    response: dict[str, TransactionState] = {}
    for node, mine in by_coordinator.items():
        request = DescribeTransactionsRequest(transactional_ids=mine)
        found_there = client.once(node, DESCRIBE_TRANSACTIONS, request)
        for state in found_there.transaction_states if found_there is not None else ():
            if error_code(state.error_code) is ErrorCode.NONE:
                response[state.transactional_id] = state
    return [response[each] if each in response else described(client, each) for each in transactional_ids]


def _can_describe(client: BlockingClient, transactional_id: str) -> bool:
    """Return whether the coordinator supports DescribeTransactions; looks it up again if unreachable."""

    def one() -> bool:
        return client.supports(client.coordinator(transactional_id), DESCRIBE_TRANSACTIONS)

    return client.until_answered(transactional_id, one, lambda _supported: ErrorCode.NONE)


def listed(client: BlockingClient, node: int, prefix: str, *, only_open: bool) -> Sequence[str]:
    """Transactional ids with *prefix* that one broker coordinates; *only_open*: those with an open transaction."""

    def one() -> ListTransactionsResponse:
        response: ListTransactionsResponse = client.ask(
            node, LIST_TRANSACTIONS, partial(_list_request, prefix, only_open)
        )
        return response

    response = client.until_answered("", one, lambda response: error_code(response.error_code))
    _check(error_code(response.error_code), f"list the transactions of broker {node}")
    return [
        state.transactional_id for state in response.transaction_states if state.transactional_id.startswith(prefix)
    ]


@attrs.frozen(kw_only=True)
class Described:
    """The transactional ids of the coordinators that answered; *missing*: the other brokers, with their errors."""

    states: Sequence[TransactionState]
    missing: Mapping[int, OttlaError]


def described_everywhere(client: BlockingClient, prefix: str, *, only_open: bool) -> Described:
    """The ids that begin with *prefix*, as their coordinators describe them, with two requests for each broker.

    Raises TransactionTimeoutError if no broker answers.
    """
    ids, missing = _listed_everywhere(client, prefix, only_open=only_open)
    asked = {node: DescribeTransactionsRequest(transactional_ids=sorted(mine)) for node, mine in ids.items() if mine}
    contents = {node: lambda _version, request=request: request for node, request in asked.items()}
    answers, silent = client.ask_each(DESCRIBE_TRANSACTIONS, contents, lambda _response: 0)
    states = {
        state.transactional_id: state
        for node in answers
        for state in answers[node].transaction_states
        if not state.error_code
    }
    # The others have expired since, or have moved to another coordinator.
    for each in {each for node in answers for each in asked[node].transactional_ids} - states.keys():
        if (state := described(client, each)) is not None:
            states[each] = state
    return Described(states=[states[each] for each in sorted(states)], missing={**missing, **silent})


def _listed_everywhere(
    client: BlockingClient, prefix: str, *, only_open: bool
) -> tuple[Mapping[int, Collection[str]], Mapping[int, OttlaError]]:
    """The ids by coordinator. If a broker leaves the cluster, all are asked again: others take over what it had."""
    while True:
        contents = {node: partial(_list_request, prefix, only_open) for node in client.brokers()}
        answers, missing = client.ask_each(LIST_TRANSACTIONS, contents, lambda response: response.error_code)
        if missing.keys() <= set(client.brokers()):
            break
    for node, response in answers.items():
        _check(error_code(response.error_code), f"list the transactions of broker {node}")
    ids = {
        node: {
            each.transactional_id for each in response.transaction_states if each.transactional_id.startswith(prefix)
        }
        for node, response in answers.items()
    }
    return ids, missing


def _list_request(prefix: str, only_open: bool, version: int) -> ListTransactionsRequest:
    request = ListTransactionsRequest(state_filters=[ONGOING] if only_open else [])
    if version >= _FIRST_WITH_PATTERN and prefix:
        request.transactional_id_pattern = literal_pattern(prefix) + ".*"
    return request


def partitions_of(state: TransactionState) -> tuple[tuple[str, int], ...]:
    """The partitions of an open transaction, as pairs of topic and partition."""
    return tuple((topic.topic, partition) for topic in state.topics for partition in topic.partitions)


def literal_pattern(text: str) -> str:
    """An RE2 pattern that matches *text* literally."""
    return "".join(letter if letter.isalnum() or letter == "_" else f"\\x{{{ord(letter):x}}}" for letter in text)


def _check(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.NONE:
        error = BrokerError(code)
        raise TransactionError(f"cannot {what}: {error}") from error
