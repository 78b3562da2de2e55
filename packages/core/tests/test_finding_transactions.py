"""Open transactions are found at every broker that answers, and the others are named with their errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import attrs
import pytest

from ottla.errors import ConnectionFailedError, ErrorCode, TransactionTimeoutError
from ottla.network import Completion, Request
from ottla.network.backoff import Backoff
from ottla.network.cluster import Broker, Cluster
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.list_transactions import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.list_transactions import TransactionState as ListedState
from ottla.transactions import FoundTransactions, OpenTransaction
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.connect import ClientAndMetadata
from ottla.transactions.admin.open_transactions import find_with

TIMEOUT: Final = 60.0
BEGINNING: Final = 1_000.0
REFUSED: Final = ConnectionFailedError("could not connect to b:9092: ECONNREFUSED")


@attrs.define
class Brokers:
    """Brokers of a cluster, and a client of them that needs no network; those that are `silent` never take a request.

    `codes` are the errors of a broker's next responses to ListTransactions.
    """

    open_at: dict[int, list[str]]
    silent: dict[int, ConnectionFailedError | None] = attrs.field(factory=dict)
    codes: dict[int, list[ErrorCode]] = attrs.field(factory=dict)
    now: float = 0.0
    asked: list[tuple[str, int]] = attrs.field(factory=list)
    under_way: list[Callable[[], object]] = attrs.field(factory=list)
    at: dict[float, Callable[[], object]] = attrs.field(factory=dict)
    metadata: Any = attrs.field(
        factory=lambda: SimpleNamespace(
            fatal_error=None, last_error=None, cluster_ids=SimpleNamespace(current="a cluster")
        )
    )

    def __attrs_post_init__(self) -> None:
        self.consist_of(*self.open_at)

    def consist_of(self, *nodes: int) -> None:
        """Give the cluster these brokers."""
        self.metadata.cluster = Cluster(brokers={node: Broker(id=node, host="b", port=9092) for node in nodes})

    def client(self) -> BlockingClient:
        connections = SimpleNamespace(
            client=self, metadata=self.metadata, clock=self.clock, backoff=Backoff(initial=0.1, maximum=1.0)
        )
        return BlockingClient(cast(ClientAndMetadata, connections), timeout=TIMEOUT)

    def clock(self) -> float:
        """The time. It does not begin at 0, as no system's clock."""
        return BEGINNING + self.now

    def found(self) -> FoundTransactions[OpenTransaction]:
        return find_with(self.client(), "orders-")

    # What `BlockingClient` needs of its network client

    def ready(self, node: int, _now: float, **_for_records: bool) -> bool:
        return node not in self.silent and node in self.metadata.cluster.brokers

    @property
    def obstacles(self) -> Any:
        return SimpleNamespace(failure=self.silent.get)

    def send(self, node: int, request: Request, _now: float) -> None:
        self.asked.append((request.message.name, node))
        [body] = request.body(request.message.max_version)
        version = request.message.request(request.message.max_version)
        response = self._response(node, version.decode(memoryview(bytes(body))))
        completion = Completion(node=node, response=response, error=None, now=self.clock())
        self.under_way.append(lambda: request.on_complete(completion))

    def poll(self, timeout: float, now: float) -> float:
        if self.under_way:
            self.under_way.pop(0)()
            return now
        self.now += timeout
        for time in [each for each in self.at if each <= self.now]:
            self.at.pop(time)()
        return self.now

    def _response(self, node: int, request: Any) -> ListTransactionsResponse | DescribeTransactionsResponse:
        if isinstance(request, DescribeTransactionsRequest):
            return DescribeTransactionsResponse(
                transaction_states=[
                    TransactionState(transactional_id=each, transaction_state="Ongoing", transaction_start_time_ms=node)
                    for each in request.transactional_ids
                ]
            )
        code = next(iter(self.codes.get(node, ())), ErrorCode.NONE)
        self.codes[node] = self.codes.get(node, [])[1:]
        listed = [] if code else [ListedState(transactional_id=each) for each in self.open_at[node]]
        return ListTransactionsResponse(error_code=int(code), transaction_states=listed)


class Mute(Brokers):
    """Brokers that take requests and never answer."""

    def send(self, node: int, request: Request, now: float) -> None:
        pass


class Stopped(Brokers):
    """The process is stopped in the first poll, for longer than the client's time; responses arrive meanwhile."""

    def poll(self, timeout: float, now: float) -> float:
        if now == 0.0:
            self.now = 2 * TIMEOUT
            return self.now
        return super().poll(timeout, now)


class StoppedLater(Brokers):
    """The process is stopped after the first response, for longer than the others may take; they arrive meanwhile."""

    def poll(self, timeout: float, now: float) -> float:
        if now == 0.0 and len(self.under_way) == len(self.asked):
            return super().poll(timeout, now)
        if now == 0.0:
            self.now = TIMEOUT / 2 + 1
        while now and self.under_way:
            super().poll(timeout, now)
        return self.now


def names(transactions: FoundTransactions[OpenTransaction]) -> list[str]:
    return [each.transactional_id for each in transactions]


def test_every_broker_is_asked_with_two_requests() -> None:
    brokers = Brokers({1: ["orders-a", "orders-b", "other"], 2: [], 3: ["orders-c"]})
    transactions = brokers.found()

    assert names(transactions) == ["orders-a", "orders-b", "orders-c"]
    assert {each.cluster_id for each in transactions} == {"a cluster"}
    assert transactions.missing == {}
    assert brokers.asked == [
        *(("ListTransactions", node) for node in (1, 2, 3)),
        *(("DescribeTransactions", node) for node in (1, 3)),
    ]


def test_a_broker_that_cannot_be_reached_does_not_hide_the_others() -> None:
    brokers = Brokers({1: ["orders-a"], 2: ["orders-b"], 3: ["orders-c"]}, silent={2: REFUSED, 3: None})
    transactions = brokers.found()

    assert names(transactions) == ["orders-a"]
    assert transactions.missing[2] is REFUSED
    assert str(transactions.missing[3]) == "broker 3 at b:9092 did not answer within 30.0 s"
    assert TIMEOUT / 2 <= brokers.now < TIMEOUT


def test_a_coordinator_that_loads_its_transactions_is_asked_again() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    brokers = Brokers({1: ["orders-a"], 2: ["orders-b"]}, codes={2: [loading] * 3})
    transactions = brokers.found()

    assert names(transactions) == ["orders-a", "orders-b"]
    assert transactions.missing == {}


def test_a_coordinator_that_does_not_end_loading_is_named_with_that_error() -> None:
    brokers = Brokers({1: ["orders-a"], 2: ["orders-b"]}, codes={2: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 500})
    transactions = brokers.found()

    assert names(transactions) == ["orders-a"]
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(transactions.missing[2])
    asked = brokers.asked.count(("ListTransactions", 2))
    assert TIMEOUT / 2 * 0.7 < asked < TIMEOUT / 2 * 1.3 + 5  # in half of the time, once a second after a few times


def test_all_are_asked_again_when_a_broker_has_left_the_cluster() -> None:
    brokers = Brokers({1: ["orders-a"], 2: ["orders-b"]}, silent={2: REFUSED})

    def leave() -> None:
        brokers.consist_of(1)
        brokers.open_at[1] += brokers.open_at[2]

    brokers.at[9.0] = leave
    transactions = brokers.found()

    assert names(transactions) == ["orders-a", "orders-b"]
    assert transactions.missing == {}
    assert brokers.now < 10.0


def test_the_last_error_is_named_if_no_broker_answers() -> None:
    brokers = Brokers({1: ["orders-a"]}, silent={1: None})
    brokers.metadata.last_error = REFUSED
    expected = r"not done within 60 s: no response to ListTransactions from broker 1; last error: .*ECONNREFUSED"

    with pytest.raises(TransactionTimeoutError, match=expected):
        brokers.found()


@pytest.mark.parametrize("node", [0, 1])
def test_a_broker_that_does_not_answer_is_named(node: int) -> None:
    asked = Mute({node: []}).client()

    with pytest.raises(TransactionTimeoutError, match=f"broker {node} did not answer ListTransactions"):
        asked.ask(node, LIST_TRANSACTIONS, lambda _version: ListTransactionsRequest())


def test_a_process_that_was_stopped_reads_what_has_arrived() -> None:
    asked = Stopped({1: ["orders-a"]}).client()

    response = asked.ask(1, LIST_TRANSACTIONS, lambda _version: ListTransactionsRequest())

    assert [each.transactional_id for each in response.transaction_states] == ["orders-a"]


def test_a_process_that_was_stopped_reads_the_responses_of_all_brokers() -> None:
    found = StoppedLater({1: ["orders-a"], 2: ["orders-b"], 3: ["orders-c"]}).found()

    assert (names(found), found.missing) == (["orders-a", "orders-b", "orders-c"], {})


def test_a_request_may_get_less_time_than_the_client_has() -> None:
    brokers = Mute({1: []})
    asked = brokers.client()
    for seconds, until in ((2.0, 2.0), (90.0, TIMEOUT)):
        with (
            asked.within(seconds),
            pytest.raises(TransactionTimeoutError, match=f"within {until - brokers.now:g}|60 s"),
        ):
            asked.ask(1, LIST_TRANSACTIONS, lambda _version: ListTransactionsRequest())
        assert brokers.now == pytest.approx(until)


def test_a_restart_gives_no_more_time_than_the_call_around_it_has() -> None:
    brokers = Mute({1: []})
    asked = brokers.client()
    with asked.within(2.0):
        asked.restart()
        with pytest.raises(TransactionTimeoutError, match="within 2 s"):
            asked.ask(1, LIST_TRANSACTIONS, lambda _version: ListTransactionsRequest())
    assert 2.0 <= brokers.now < 3.0

    since = brokers.now
    asked.restart()
    with pytest.raises(TransactionTimeoutError, match=f"within {TIMEOUT:g} s"):
        asked.ask(1, LIST_TRANSACTIONS, lambda _version: ListTransactionsRequest())
    assert brokers.now >= since + TIMEOUT


def test_the_list_of_what_was_found_shows_and_keeps_what_is_missing() -> None:
    missing: Mapping[int, ConnectionFailedError] = {2: REFUSED}
    transactions = FoundTransactions(["orders-a"], missing)
    again = pickle.loads(pickle.dumps(transactions))

    assert transactions == again == ["orders-a"]
    assert {node: str(error) for node, error in again.missing.items()} == {2: str(REFUSED)}
    assert repr(transactions).startswith("FoundTransactions(['orders-a'], missing={2: ConnectionFailedError(")
