"""Blocking requests, one after the other, on the caller's thread, without a producer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import attrs

from ottla.errors import (
    BrokerError,
    ConnectionFailedError,
    ErrorCode,
    OttlaError,
    TransactionError,
    TransactionTimeoutError,
    UnsupportedVersionError,
    error_code,
    quoted,
)
from ottla.network import Completion, NetworkClient, Request
from ottla.network.backoff import Backoff
from ottla.network.cluster import Topic
from ottla.network.metadata import Metadata
from ottla.protocol import Message
from ottla.protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from ottla.transactions.acl_hints import needed
from ottla.transactions.admin.connect import ClientAndMetadata, connect
from ottla.transactions.admin.named_coordinators import NamedCoordinators
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.other_cluster import other_cluster
from ottla.transactions.transaction_error_actions import MAYBE_WRITTEN
from ottla.transactions.transaction_requests import FindCoordinator, invalid_node

DEFAULT_TIMEOUT = 60.0
FIRST_WITH_CLUSTER_ID = 2
_FIRST_WITHOUT_CREATION = 4

T = TypeVar("T")


class OfCluster(Protocol):
    """A transaction that only brokers of its cluster know; without an id of the cluster, any brokers may."""

    @property
    def transactional_id(self) -> str: ...

    @property
    def cluster_id(self) -> str | None: ...


@contextmanager
def blocking_client(config: Mapping[str, Any], *, timeout: float) -> Iterator[BlockingClient]:
    """A context manager that connects with a producer's configuration, and closes the connections at its end."""
    connections = connect(config)
    client = BlockingClient(connections, timeout=timeout)
    try:
        yield client
    finally:
        connections.close()


@attrs.frozen
class LastResponse:
    """The response that ended the repetitions of a request, and its error code.

    `in_doubt`: an attempt before it may have been carried out, because its response was lost, or has a code that
    coordinators also send after they have written to their log.
    """

    response: Any
    code: ErrorCode
    in_doubt: bool


class BlockingClient:
    """A client that sends requests on the caller's thread, with *timeout* seconds for all of them until a `restart`.

    Raises TransactionTimeoutError when time is up, TransactionError when a broker refuses.
    """

    def __init__(self, connections: ClientAndMetadata, *, timeout: float) -> None:
        self._client: NetworkClient = connections.client
        self._metadata: Metadata = connections.metadata
        self._clock: Callable[[], float] = connections.clock
        self._backoff: Backoff = connections.backoff
        self._timeout = timeout
        self._deadline = self._clock() + timeout
        self._within = (float("inf"), float("inf"))  # the time at which a `within` is over, and its seconds
        self._polled_at = float("-inf")  # when the last poll began
        self._last_error: OttlaError | None = None
        self._coordinators: dict[tuple[str, bool], int] = {}
        self._wanted: OfCluster | None = None
        self._named = NamedCoordinators(self)
        self.answered_by = -1
        """The broker that sent the last response of `ask`; a bootstrap server has a negative number."""

    def restart(self) -> None:
        """Give the requests that follow *timeout* seconds of their own, and forget earlier errors and coordinators."""
        self._deadline = self._clock() + self._timeout
        self._coordinators.clear()
        self._last_error = None

    @contextmanager
    def within(self, seconds: float, *, half: bool = False) -> Iterator[None]:
        """A context manager whose requests have at most *seconds*, and no more than they would have without it.

        With *half*, they also have at most half of the seconds that all requests have together. A `restart` in it does
        not make these more.
        """
        before = self._within
        seconds = min(seconds, self._limit()[1] / 2) if half else seconds
        self._within = min(before, (self._clock() + seconds, seconds))
        try:
            yield
        finally:
            self._within = before

    def level(self) -> int:
        """The cluster's `transaction.version`; 0 before the first response of a broker."""
        return self._client.features.levels.get("transaction.version", 0)

    def brokers(self) -> list[int]:
        """The node ids of the cluster's brokers, ascending. Blocks until metadata has arrived."""
        while self._metadata.cluster.bootstrap:
            self._client.least_loaded(self._clock())
            self._pass("no broker has sent metadata of the cluster")
        return sorted(self._metadata.cluster.brokers)

    def cluster_id(self) -> str | None:
        """The id that all brokers of the cluster share, or None if they have none.

        Blocks until a broker has answered.
        """
        answer: MetadataResponse = self.ask(None, METADATA, _no_topics, floor=FIRST_WITH_CLUSTER_ID)
        return answer.cluster_id

    @contextmanager
    def only_in_cluster_of(self, transaction: OfCluster | None) -> Iterator[None]:
        """A context manager whose requests to brokers raise TransactionError if *transaction* is in another cluster.

        Nothing is changed there: the first request on a connection that changes something waits until the broker has
        named its cluster, which takes a round trip.
        """
        has_id = transaction is not None and transaction.cluster_id is not None
        before, self._wanted = self._wanted, transaction if has_id else None
        try:
            yield
        finally:
            self._wanted = before

    def known_cluster_id(self) -> str | None:
        """The id of the cluster that metadata is from, which is that of all brokers that have responded since."""
        return self._metadata.cluster_ids.current

    def topic(self, name: str) -> Topic:
        """The metadata of a topic; waits until every partition has a leader."""
        while True:
            self._metadata.use(name, self._clock())
            found = self._metadata.cluster.topics.get(name)
            if found is not None and found.leaders and len(found.available) == len(found.leaders):
                return found
            if found is not None and found.error is not ErrorCode.NONE:
                self._last_error = BrokerError(found.error)
                if not found.error.retriable:
                    raise TransactionError(f"topic {name!r} cannot be used: {self._last_error}") from self._last_error
            if found is not None:
                self._metadata.request_update()
            self._client.least_loaded(self._clock())
            self._pass(f"topic {name!r} is not known, or has partitions without a leader")

    def refresh(self) -> None:
        """Request new metadata."""
        self._metadata.request_update()

    def coordinator(self, key: str, *, group: bool = False) -> int:
        """The node id of the coordinator of a transactional id, or of a group, as another broker names it.

        The first call for a *key* blocks: it asks a broker, and repeats that until the client's time runs out.
        """
        failures = 0
        while (key, group) not in self._coordinators:
            found = self._named.find(FindCoordinator(key=key, group=group))
            code = error_code(found.error_code)
            wrong = invalid_node(found) if code is ErrorCode.NONE else None
            if code is ErrorCode.NONE and wrong is None:
                if self._clock() >= self._limit()[0]:  # a broker that names itself was not given the time to be denied
                    self._pass("another broker did not say in time who the coordinator is")
                self._coordinators[key, group] = found.node_id
                break
            if wrong is None and not code.retriable:
                whose = "group" if group else "transactional id"
                error = BrokerError(code)
                right = needed(code, group=key) if group else needed(code, transactional_id=key)
                raise TransactionError(f"no coordinator for {whose} {quoted(key)}: {error}{right}") from error
            self._last_error = wrong or BrokerError(code)
            self._wait(self._backoff.delay(failures))
            failures += 1
        return self._coordinators[key, group]

    def find_coordinators(self, transactional_ids: Sequence[str]) -> None:
        """Find many coordinators with few requests, where brokers support it; `coordinator` finds the others."""
        unknown = [each for each in transactional_ids if (each, False) not in self._coordinators]
        if len(unknown) < 2:
            return
        with contextlib.suppress(UnsupportedVersionError):
            for key, node in self._named.find_together(unknown).items():
                self._coordinators[key, False] = node

    def run(self, request: CoordinatorRequest, transactional_id: str) -> LastResponse:
        """Send a request until the response's error code is not retriable."""
        in_doubt = False

        def one() -> Any:
            nonlocal in_doubt
            try:
                response = self.send(self.coordinator(transactional_id), request)
            except _ConnectionLostError as lost:
                in_doubt |= lost.sent
                raise
            in_doubt |= error_code(response.error_code) in MAYBE_WRITTEN
            return response

        response = self.until_answered(transactional_id, one, lambda response: error_code(response.error_code))
        return LastResponse(response, error_code(response.error_code), in_doubt)

    def until_answered(self, key: str, one: Callable[[], T], code_of: Callable[[T], ErrorCode]) -> T:
        """Call *one* until its error code is not retriable; return its result.

        Before a repetition it forgets the coordinator of *key*, except after CONCURRENT_TRANSACTIONS.
        """
        failures = 0
        while True:
            try:
                response = one()
                code = code_of(response)
                if not code.retriable:
                    return response
                self._last_error = error = BrokerError(code)
                if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    # The coordinator is right: it still writes the markers of the previous transaction, which takes
                    # some milliseconds.
                    self._wait(self._backoff.delay_after(error, 0))
                    continue
            except _ConnectionLostError as lost:
                self._last_error = lost.error
            for group in (False, True):
                self._coordinators.pop((key, group), None)
            self._wait(self._backoff.delay(failures))
            failures += 1

    def send(self, node: int | None, request: CoordinatorRequest) -> Any:
        """The response to one request, which may change something, as `ask` returns it."""
        message, build, checked = request.message, request.build, self._wanted is not None
        return self.ask(node, message, build, floor=request.floor, ceiling=request.ceiling, checked=checked)

    def ask(
        self,
        node: int | None,
        message: Message[Any, Any],
        content: Callable[[int], Any],
        *,
        floor: int = 0,
        ceiling: int | None = None,
        checked: bool = False,
    ) -> Any:
        """The response to one request; with None as *node* from any broker, repeating lost requests.

        If *checked*, the request is sent to a *node* only after that has named the cluster that metadata is from. In
        any case there is no response from a node of another cluster. Raises UnsupportedVersionError.
        """
        while True:
            chosen = self._ready(node, checked=checked)
            completions: list[Completion] = []
            request = _request(message, content, completions, floor=floor, ceiling=ceiling)
            self._client.send(chosen, request, self._clock())
            while not completions:
                named = f"broker {chosen}" if chosen >= 0 else "a bootstrap server"
                self._pass(f"{named} did not answer {message.name}")
            error = completions[0].error
            if error is None:
                self.answered_by = chosen
                return completions[0].response
            if isinstance(error, UnsupportedVersionError):
                raise error
            self._last_error = error
            if node is not None:
                raise _ConnectionLostError(error, sent=True)

    def ask_each(
        self,
        message: Message[Any, Any],
        contents: Mapping[int, Callable[[int], Any]],
        code_of: Callable[[Any], int],
        *,
        first: bool = False,
    ) -> tuple[Mapping[int, Any], Mapping[int, OttlaError]]:
        """The responses of several brokers, all asked at once, and why the others gave none.

        A broker is asked again after a lost connection or a retriable code. If some have answered, the others have half
        of the time that is left, or until they leave the cluster. With *first*, one response is enough, and none if no
        broker can be reached. Raises UnsupportedVersionError.
        """
        started_at = self._clock()
        until = started_at + (self._limit()[0] - started_at) / 2
        answers: dict[int, Any] = {}
        questions = {node: _Question(content) for node, content in contents.items()}
        while questions:
            now = self._clock()
            for node, question in list(questions.items()):
                if question.asked is None and now >= question.retry_at and self._client.ready(node, now):
                    question.asked = []
                    self._client.send(node, _request(message, question.content, question.asked), now)
                elif question.asked:
                    response = question.read(code_of, now, self._backoff)
                    if response is not None:
                        answers[node] = response
                        del questions[node]
                    else:
                        self._last_error = question.error
            cluster = self._metadata.cluster
            gone = not cluster.bootstrap and questions and not questions.keys() & cluster.brokers.keys()
            late = now >= until <= self._polled_at  # else responses may have arrived in a stop
            if answers and (gone or late):
                break
            if first and (answers or self._client.obstacles.all_failed(questions, since=started_at)):
                break
            if questions:
                self._pass(f"no response to {message.name} from broker {', '.join(map(str, questions))}")
        return answers, {
            node: self._silence(node, question, until - started_at) for node, question in questions.items()
        }

    def _silence(self, node: int, question: _Question, seconds: float) -> OttlaError:
        """Why a broker has not answered."""
        broker = self._metadata.cluster.brokers.get(node)
        if broker is None and not self._metadata.cluster.bootstrap:
            return ConnectionFailedError(f"broker {node} is not part of the cluster")
        named = broker or f"broker {node}"
        return (
            self._client.obstacles.failure(node)
            or question.error
            or ConnectionFailedError(f"{named} did not answer within {seconds:.1f} s")
        )

    def once(self, node: int, message: Message[Any, Any], content: Any) -> Any | None:
        """The response of one broker to one request; None if the connection is lost or the request not supported."""
        try:
            return self.ask(node, message, lambda _version: content)
        except (_ConnectionLostError, UnsupportedVersionError):
            return None

    def supports(self, node: int, message: Message[Any, Any]) -> bool:
        """Return whether a broker supports these requests."""
        return self._client.supported_versions(self._ready(node), message) is not None

    def _ready(self, node: int | None, *, checked: bool = False) -> int:
        """A broker that takes a request now: *node*, or any if it is None, bootstrap servers included."""
        while True:
            now = self._clock()
            if node is None:
                # A bootstrap server answers, too. Its connection is closed once the cluster is known, but not before
                # that answer.
                found = self._client.least_loaded(now, metadata_first=False)
                if found is not None:
                    return found
            elif self._client.ready(node, now, checked=checked):
                self._check_cluster()
                return node
            elif node not in self._metadata.cluster.brokers and not self._metadata.cluster.bootstrap:
                self._metadata.request_update()
                raise _ConnectionLostError(ConnectionFailedError(f"broker {node} is not part of the cluster"))
            elif self._client.obstacles.down(node) and self._client.ready_at(node, now) > now:
                self._pass(f"broker {node} cannot be reached")
                unknown = ConnectionFailedError(f"broker {node} cannot be reached")
                raise _ConnectionLostError(self._client.obstacles.failure(node) or unknown)
            self._pass("no broker can be reached" if node is None else f"broker {node} cannot be reached")

    def _check_cluster(self) -> None:
        wanted, found = self._wanted, self._metadata.cluster_ids.current
        if wanted is None or wanted.cluster_id is None or found is None or found == wanted.cluster_id:
            return
        raise TransactionError(other_cluster(wanted.transactional_id, wanted=wanted.cluster_id, found=found))

    def _pass(self, why: str) -> None:
        """Run network I/O for at most 100 ms. Raises TransactionTimeoutError with *why* once time is up."""
        now = self._clock()
        self._check_cluster()
        fatal = self._metadata.fatal_error
        if fatal is not None:
            raise TransactionError(f"no broker can be reached: {fatal}") from fatal
        deadline, seconds = self._limit()
        if now >= deadline <= self._polled_at:  # else the process may have been stopped since the poll began
            error = self._last_error or self._metadata.last_error
            last = f"; last error: {error}" if error is not None else ""
            raise TransactionTimeoutError(f"not done within {seconds:g} s: {why}{last}; the same call may be repeated")
        self._polled_at = now
        self._client.poll(max(0.0, min(0.1, deadline - now)), now)

    def _limit(self) -> tuple[float, float]:
        """The time at which the requests have to be done, and how many seconds they had."""
        return min((self._deadline, self._timeout), self._within)

    def _wait(self, seconds: float) -> None:
        end = self._clock() + seconds
        while self._clock() < end:
            self._pass("the coordinator has not answered yet")


def _no_topics(version: int) -> MetadataRequest:
    """A request for the cluster alone. Versions that cannot forbid the creation of topics need not: they name none."""
    return MetadataRequest(topics=[], allow_auto_topic_creation=version < _FIRST_WITHOUT_CREATION)


def _request(
    message: Message[Any, Any],
    content: Callable[[int], Any],
    completions: list[Completion],
    *,
    floor: int = 0,
    ceiling: int | None = None,
) -> Request:
    return Request(
        message=message,
        body=lambda version: [message.request(version).encode(content(version))],
        on_complete=completions.append,
        floor=floor,
        ceiling=ceiling,
    )


@attrs.define(eq=False)
class _Question:
    """A request to one broker of several: its completion once it has one, and the error before a repetition."""

    content: Callable[[int], Any]
    asked: list[Completion] | None = None
    error: OttlaError | None = None
    failures: int = 0
    retry_at: float = float("-inf")

    def read(self, code_of: Callable[[Any], int], now: float, backoff: Backoff) -> Any | None:
        """The response, or None if the request has to be repeated after the backoff."""
        assert self.asked
        completion, self.asked = self.asked[0], None
        if isinstance(completion.error, UnsupportedVersionError):
            raise completion.error
        if completion.error is None:
            code = error_code(code_of(completion.response))
            if not code.retriable:
                return completion.response
            self.error = BrokerError(code)
        else:
            self.error = completion.error
        self.retry_at = now + backoff.delay(self.failures)
        self.failures += 1
        return None


class _ConnectionLostError(Exception):
    """The connection to one broker was lost, or could not be made. *sent*: after a request."""

    def __init__(self, error: OttlaError, *, sent: bool = False) -> None:
        self.error = error
        self.sent = sent
        super().__init__(str(error))
