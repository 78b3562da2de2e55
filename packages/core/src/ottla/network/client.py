"""Requests to brokers: choice of connections, requests in flight, timeouts.

Sends ApiVersions on every new connection, keeps metadata fresh, and calls each request's `on_complete` once. A
`Selectable` moves the bytes. Time is an argument, except the time at which a wait ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any, assert_never

from ottla.errors import (
    ConnectionFailedError,
    ConnectionRetiredError,
    NameResolutionError,
    NetworkError,
    OttlaError,
    ProtocolError,
    ProtocolMismatchError,
    RequestTimeoutError,
    SecurityError,
    UnsupportedVersionError,
)
from ottla.interfaces import Buffer
from ottla.metrics import Counters
from ottla.network.api_versions import Features, api_versions_request, offered_versions
from ottla.network.authentication import Ask, Authentication, Token
from ottla.network.backoff import Backoff
from ottla.network.connection import Connection, Stage
from ottla.network.connection_errors import (
    SILENCE,
    closed_after_api_versions,
    closed_before_api_versions,
    describe,
    ended_unused,
    forget_frames,
    never_reached,
)
from ottla.network.connection_log import ConnectionLog
from ottla.network.connection_logins import Logins
from ottla.network.connections import Connections
from ottla.network.metadata import Metadata
from ottla.network.metadata_updater import Upkeep
from ottla.network.request import Completion, InFlight, Reader, Request
from ottla.network.selectable import Selectable
from ottla.network.throttle_log import ThrottleLog
from ottla.network.throttling import pause
from ottla.protocol import (
    API_VERSIONS,
    Message,
    choose_version,
    read_response_header,
    request_header,
)

logger = logging.getLogger(__name__)


class NetworkClient:
    """The connections of one producer. For the I/O thread, except `wakeup`."""

    def __init__(
        self,
        *,
        selector: Selectable,
        metadata: Metadata,
        client_id: str,
        max_in_flight: int,
        request_timeout: float,
        max_idle: float = float("inf"),
        reconnect_backoff: Backoff,
        setup_backoff: Backoff,
        authentication: Authentication | None = None,
        canonical_bootstrap: bool = False,
        rebootstraps: bool = True,
        rebootstrap_trigger: float = 300.0,
        counters: Counters | None = None,
        chance: Random | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._selector = selector
        self._metadata = metadata
        self._client_id = client_id
        self._max_in_flight = max_in_flight
        self._request_timeout = request_timeout
        self._max_idle = max_idle
        self._reconnect_backoff = reconnect_backoff
        self._setup_backoff = setup_backoff
        self._canonical_bootstrap = canonical_bootstrap
        self._clock = clock
        self._counters = counters or Counters()
        self._connections = Connections(max_in_flight=max_in_flight, chance=chance or SystemRandom())
        self._log = ConnectionLog(client_id=client_id)
        self._throttle_log = ThrottleLog(client_id=client_id)
        self._requests = 0
        self._upkeep = Upkeep(
            metadata=metadata,
            connections=self._connections,
            transport=self,
            client_id=client_id,
            rebootstraps=rebootstraps,
            rebootstrap_trigger=rebootstrap_trigger,
            backoff=reconnect_backoff,
        )
        self.features = Features()
        """The cluster's finalized features, from ApiVersions responses."""
        self._logins = Logins(authentication, self) if authentication is not None else None
        self._accepted = False  # by any server at any time, login included
        self._completions: deque[tuple[Request, Completion]] = deque()
        self._unclosed: set[int] = set()  # nodes whose connection must be closed before the next request
        self._written: list[int] = []  # nodes whose written request expects no response
        self._finishing = False  # a broker that left the cluster still has responses to send

    def ready(self, node: int, now: float) -> bool:
        """Return whether a broker takes a request now; connects if there is no connection.

        False for all brokers while a metadata update is due: it goes first.
        """
        broker = self._metadata.cluster.brokers.get(node)
        if broker is None:
            return False
        connection = self._connections.of(broker)
        if connection.broker is not broker and connection.broker != broker:  # a leader hint has named its new address
            self.forget_gone()
            connection = self._connections.of(broker)
        takes = self.takes(connection, now)
        return takes and not self._upkeep.due(now)

    def send(self, node: int, request: Request, now: float) -> None:
        """Send a request to a ready broker; a later `poll` calls its `on_complete`."""
        connection = self._connections[node]
        assert connection.may_send(now, max_in_flight=self._max_in_flight), "only a ready broker is sent to"
        try:
            version = self._version(connection, request)
        except UnsupportedVersionError as error:
            self._complete(request, node, now, error=error, written=False)
            return
        self._transmit(connection, request, version, now)

    def ready_at(self, node: int, now: float) -> float:
        """The time at which a broker may become ready without any event; infinity: only an event makes it ready."""
        connection = self._connections.get(node)
        if connection is None:
            return now
        at = connection.retry_at if connection.stage is Stage.DISCONNECTED else connection.throttled_until
        return at if at > now else float("inf")

    def down(self, node: int) -> bool:
        """Return whether the last attempt to reach a broker failed, and the next one has not begun."""
        connection = self._connections.get(node)
        return connection is not None and connection.stage is Stage.DISCONNECTED

    def least_loaded(self, now: float) -> int | None:
        """The least busy broker that takes a request now; connects if there is no connection."""
        connection = self._connections.least_loaded(self._metadata.cluster.brokers.values(), now)
        if connection is None:
            return None
        takes = self.takes(connection, now)
        return connection.broker.id if takes and not self._upkeep.due(now) else None

    def next_try(self, now: float) -> float:
        """The time of the next connection attempt or the next end of throttling, if no broker takes a request now."""
        changes = (max(c.retry_at, c.throttled_until) for c in self._connections)
        return min((at for at in changes if at > now), default=float("inf"))

    def refused_by_all(self) -> SecurityError | None:
        """The error with which all brokers refuse us although a bootstrap server accepted us; else None.

        None as well once any broker was ready.
        """
        cluster = self._metadata.cluster
        if self._upkeep.reached or cluster.bootstrap or not self._accepted:
            return None
        return self._connections.refused_by_all(cluster.brokers.values())

    def failure(self, node: int) -> OttlaError | None:
        """The error of a broker's last connection or attempt, while it has no connection; else None."""
        connection = self._connections.get(node)
        if connection is None or connection.obstacle is None:
            return None
        return self._with_remedy(connection, connection.obstacle)

    def quota(self, node: int, now: float) -> OttlaError | None:
        """An error that describes a broker's throttling because of a quota; None if it does not throttle."""
        connection = self._connections.get(node)
        seconds = self._throttle_log.lasting(connection.broker, now) if connection is not None else None
        if connection is None or seconds is None:
            return None
        return NetworkError(
            f"{connection.broker} throttles this client because of a quota, for {seconds:.1f} s by now; send less, or "
            "have the quota of this user or client.id raised"
        )

    def _with_remedy(self, connection: Connection, error: OttlaError) -> OttlaError:
        """Add a remedy to the error if the address is advertised, not configured, and was never reached."""
        broker = connection.broker
        configured = (broker.host, broker.port) in self._metadata.bootstrap_addresses
        if connection.reached or broker.id < 0 or configured or isinstance(error, SecurityError):
            return error
        return never_reached(connection, error)

    def offered(self, node: int, message: Message[Any, Any]) -> tuple[int, int] | None:
        """The versions of a request that a connected broker supports; None if it supports none or is not connected."""
        connection = self._connections.get(node)
        return None if connection is None else connection.versions.get(message.key)

    def in_flight(self) -> int:
        """The number of requests that wait for a response."""
        return sum(len(connection.in_flight) for connection in list(self._connections))

    def poll(self, timeout: float, now: float) -> float:
        """Move bytes, waiting at most *timeout* seconds, and complete requests; return the time afterwards.

        Returns earlier when work of the client itself is due.
        """
        if not self._completions:
            asked = self._upkeep.ask(now)  # sends that had to wait for this request can follow now, before its response
            seconds = 0.0 if self._written or asked else min(timeout, self._due_at(now) - now)
            if seconds > 0.0:
                seconds -= self._clock() - now  # minus the round so far, by which a linger would be longer
            self._selector.poll(max(0.0, seconds))
            now = self._clock()
            self._counters.end_window_if_due(now)
            selector = self._selector
            if self._written or selector.sent:
                self._note_sent(now)
            if selector.received:
                self._take_answers(now)
                if self._finishing:
                    self.forget_gone()
            if selector.disconnected:
                self._note_lost(now)
            if selector.connected:
                self._greet_connected(now)
            self._look_for_names(now)
            if self._logins is not None:
                self._logins.go_on(self._connections, now)
            self._time_out(now)
            if self._log.active:
                self._log.write(now)
            if self._throttle_log.active:
                self._throttle_log.write(now)
        self._run_completions()
        if self._upkeep.log.active:
            self._upkeep.log.write(now)
        return now

    def flush_unacknowledged(self, now: float) -> bool:
        """Send a request with a response to each broker with unconfirmed requests; True: some have not answered yet.

        Called before a connection with `acks=0` is closed. The kernel discards unsent bytes when a response arrives at
        a closed socket. The response to a later request confirms that the broker has taken everything before it.
        """
        unconfirmed = [connection for connection in self._connections if connection.unconfirmed is not None]
        for connection in unconfirmed:
            if not connection.asked_to_confirm and self.takes(connection, now):
                self._ask_to_confirm(connection, now)
        return bool(unconfirmed)

    def _ask_to_confirm(self, connection: Connection, now: float) -> None:
        connection.asked_to_confirm = True
        self._transmit(connection, api_versions_request(), 0, now)  # a version that every broker supports

    def wakeup(self) -> None:
        """End a waiting `poll`. For any thread."""
        self._selector.wakeup()

    def shutdown(self) -> None:
        """Close every connection; requests in flight complete as lost."""
        now = self._clock()
        for connection in self._connections:
            error = ConnectionFailedError("the producer was closed")
            self._count_end(connection, error)
            for sent in connection.lost():
                self._complete(sent.request, connection.broker.id, now, error=error)
        while self._completions:
            try:
                self._run_completions()
            except Exception:  # every batch has its outcome by now; the sockets must be closed anyway
                logger.exception("%s: completing a request failed while the producer was closing", self._client_id)
        if self._logins is not None:
            self._logins.close()
        self._selector.shutdown()

    def reset(self, error: NetworkError, now: float) -> None:
        """Forget every connection; requests in flight complete with *error*.

        Called after a round that raised: data that it read or wrote without noting it must not be matched with the next
        response. If this method raises, the next call repeats the rest. `close_forgotten` closes the sockets before the
        next request.
        """
        for connection in self._connections:
            self._unclosed.add(connection.broker.id)
        self._written.clear()
        self._upkeep.forget_request()
        for connection in self._connections:
            if connection.stage is not Stage.DISCONNECTED:
                self._abandon(connection, error, now)
        self._run_completions()

    def close_forgotten(self, error: NetworkError) -> None:
        """Close the sockets of connections that `reset` forgot."""
        for node in self._unclosed:
            self._selector.close(node, error)
        self._selector.poll(0.0)
        self._unclosed.clear()

    def _abandon(self, connection: Connection, error: NetworkError, now: float) -> None:
        """End a connection for a reason of our own; does not count as a failure of its broker."""
        if self._logins is not None:
            self._logins.abandon(connection)
        self._count_end(connection, error)
        while connection.in_flight:
            self._complete(connection.in_flight.popleft().request, connection.broker.id, now, error=error)
        connection.lost()
        connection.addresses = ()
        connection.setup_deadline = float("inf")

    # Connections

    def _connect(self, connection: Connection, now: float) -> None:
        connection.stage = Stage.RESOLVING
        connection.setup_deadline = now + self._setup_backoff.delay(connection.failures)
        self._go_on_connecting(connection, now)

    def _go_on_connecting(self, connection: Connection, now: float) -> None:
        """Connect to the next of the broker's addresses, once they are resolved."""
        broker = connection.broker
        try:
            if not connection.addresses:
                canonical = self._canonical_bootstrap and broker.id < 0
                addresses = self._selector.resolve(broker.host, broker.port, canonical=canonical)
                if addresses is None:
                    return
                connection.addresses = addresses
            address, connection.addresses = connection.addresses[0], connection.addresses[1:]
            logger.debug("%s: connecting to %s", self._client_id, broker)
            connection.stage, connection.host = Stage.CONNECTING, address.host
            self._selector.connect(broker.id, address.target, address.host, broker.port)
        except NetworkError as error:
            self._failed(connection, error, now)

    def _failed(self, connection: Connection, error: OttlaError, now: float) -> None:
        """Note a lost connection, complete its requests in flight, and allow the next attempt after a backoff."""
        forget_frames(error)
        if connection.unconfirmed is not None and now < connection.unconfirmed.deadline:
            # After the deadline the peer has had its time to serve or refuse the request: the end says nothing about
            # it.
            logger.warning(
                "%s: records that were sent to %s with acks=0 may be lost: %s",
                self._client_id,
                connection.broker,
                error,
            )
        if self._logins is not None:
            self._logins.abandon(connection)
        self._count_end(connection, error)
        harmless = ended_unused(connection, error, since=now - self._request_timeout)
        unanswered = connection.lost()
        if isinstance(error, ConnectionRetiredError):
            logger.debug("%s: %s", self._client_id, describe(connection, error))
            if connection.short_sessions:
                connection.retry_at = now + self._reconnect_backoff.delay(connection.attempts)
        elif harmless:
            self._log.ended(connection, error, now)
            connection.retry_at = now + self._reconnect_backoff.delay(connection.attempts)
            connection.last_failure = error
            self._metadata.request_update()  # the broker may be shutting down, and its partitions have new leaders
        else:
            logger.debug("%s: %s: %s", self._client_id, connection.broker, error)
            self._log.failed(connection, self._with_remedy(connection, error), now)
            connection.retry_at = now + self._reconnect_backoff.delay(connection.attempts)
            connection.failures += 1
            connection.failed_at = now
            connection.last_failure = error
            self._metadata.note(error)
            self._metadata.request_update()
            self._fail_fatally_if_refused(connection, error)
        for sent in unanswered:
            self._complete(sent.request, connection.broker.id, now, error=error)

    def _count_end(self, connection: Connection, error: OttlaError) -> None:
        counters = self._counters.producer
        if connection.stage not in (Stage.DISCONNECTED, Stage.RESOLVING, Stage.CONNECTING):
            counters.closed.add(1)
        if isinstance(error, SecurityError):
            (counters.lost_renewals if connection.stage is Stage.RENEWING else counters.refusals).add(1)

    def _fail_fatally_if_refused(self, connection: Connection, error: OttlaError) -> None:
        """Report a fatal error to waiting callers if no server ever accepted us and all of them refuse us."""
        if self._accepted:
            return
        final = isinstance(error, ProtocolMismatchError | SecurityError) or (
            isinstance(error, NameResolutionError) and error.final
        )
        connection.refusal = error if final else None
        refusal = self._connections.refusal_of_all(self._metadata.cluster.brokers.values())
        if refusal is not None:
            self._metadata.fail_fatally(refusal)

    def drop(self, connection: Connection, reason: NetworkError) -> None:
        """Close a connection; the next poll reports its end."""
        if connection.stage is Stage.RESOLVING:
            connection.lost()  # there is nothing to close yet
        elif not connection.closing:
            connection.closing, connection.reason = True, reason
            self._selector.close(connection.broker.id, reason)

    def forget_gone(self) -> None:
        """Close the connections of brokers that left the cluster or moved to another address.

        A broker that metadata no longer lists may be in its controlled shutdown, or fenced: it still answers requests
        in flight, which may have written records. Its connection is closed after the last response.
        """
        cluster = self._metadata.cluster
        self._finishing = False
        for connection in self._connections.gone(cluster.brokers.values()):
            if connection.awaits_answers and connection.broker.id not in cluster.brokers and not cluster.bootstrap:
                self._finishing = True
                continue
            if connection.stage is not Stage.DISCONNECTED:
                self.drop(connection, ConnectionRetiredError(f"{connection.broker} is not part of the cluster"))
            # Connections to brokers that may come back keep their backoff.
            if connection.stage is Stage.DISCONNECTED and not cluster.bootstrap:
                self._connections.forget(connection)
                self._log.gone(connection, self._clock())

    # Requests

    def _version(self, connection: Connection, request: Request) -> int:
        message = request.message
        offered = connection.versions.get(message.key)
        if offered is None:
            raise UnsupportedVersionError(f"{connection.broker} does not offer {message.name} requests")
        return choose_version(message, *offered, floor=request.floor, ceiling=request.ceiling)

    def ask(self, connection: Connection, move: Ask | Token, reader: Reader, now: float) -> None:
        """Send a message of a login."""
        match move:
            case Ask(message=message, version=version, body=body):
                request = Request(message=message, body=lambda _version: [body], on_complete=_closed_unanswered)
                self._transmit(connection, request, version, now, reader=reader)
            case Token(message=message, data=data, last=last):
                request = Request(
                    message=message, body=lambda _version: [data], on_complete=_closed_unanswered, answered=not last
                )
                self._transmit(connection, request, 0, now, reader=reader, bare=True)
            case _:
                assert_never(move)

    def takes(self, connection: Connection, now: float) -> bool:
        """Return whether a connection takes a request now; connects if it is disconnected.

        A session that ends soon is renewed first; a short session is replaced by a new connection.
        """
        if connection.may_connect(now):
            self._connect(connection, now)
        if not connection.may_send(now, max_in_flight=self._max_in_flight):
            return False
        if self._logins is None or now < connection.renew_at:
            return True
        if connection.short_sessions:
            self._end_short_session(connection, now)
            return False
        connection.stage = Stage.RENEWING
        if connection.awaits_earlier_answers:
            connection.setup_deadline = float("inf")  # starts with the last of these responses
        else:
            connection.setup_deadline = now + self._setup_backoff.delay(0)
        self._logins.begin(connection, now)
        return False

    def _end_short_session(self, connection: Connection, now: float) -> None:
        """Close the connection once all its requests are answered; the next connection waits for its backoff."""
        if connection.unconfirmed is not None and not connection.asked_to_confirm:
            self._ask_to_confirm(connection, now)
        elif not connection.awaits_answers:
            self.drop(connection, ConnectionRetiredError(f"the short session at {connection.broker} is almost over"))

    def _transmit(
        self,
        connection: Connection,
        request: Request,
        version: int,
        now: float,
        *,
        reader: Reader | None = None,
        bare: bool = False,
    ) -> None:
        body = request.body(version)
        self._requests += 1
        correlation_id = self._requests & 0x7FFFFFFF
        header = b"" if bare else request_header(request.message, version, correlation_id, self._client_id)
        size = len(header) + sum(map(len, body))
        self._counters.node(connection.broker.id).requests.add(size + 4)
        connection.in_flight.append(
            InFlight(
                request=request,
                version=version,
                number=self._requests,
                correlation_id=correlation_id,
                deadline=now + self._request_timeout,
                reader=reader,
                bare=bare,
            )
        )
        connection.writing = True
        if self._selector.send(connection.broker.id, [size.to_bytes(4, "big") + header, *body]):
            if request.answered:
                connection.writing = False
            else:
                self._written.append(connection.broker.id)  # completed by the next poll, not within this call

    def _complete(
        self,
        request: Request,
        node: int,
        now: float,
        *,
        answer: object = None,
        error: OttlaError | None = None,
        written: bool = True,
    ) -> None:
        throttled_until = self._connections[node].throttled_until if answer is not None else float("-inf")
        completion = Completion(
            node=node, answer=answer, error=error, now=now, written=written, throttled_until=throttled_until
        )
        self._completions.append((request, completion))

    def _run_completions(self) -> None:
        """Complete requests. After an exception the others are completed; then the exception fails the round."""
        fault: Exception | None = None
        while self._completions:
            request, completion = self._completions.popleft()
            try:
                request.on_complete(completion)
            except Exception as error:
                if fault is not None:
                    logger.exception("%s: completing a %s request failed", self._client_id, request.message.name)
                fault = fault or error
        if fault is not None:
            raise fault

    # Events of a poll

    def _note_sent(self, now: float) -> None:
        written, self._written = self._written, []
        for node in (*written, *self._selector.sent):
            connection = self._connections[node]
            connection.writing = False
            connection.used_at, connection.idle_at = now, now + self._max_idle
            if connection.in_flight and not connection.in_flight[-1].request.answered:
                sent = connection.in_flight.pop()
                if sent.reader is not None:
                    sent.reader(memoryview(b""), now)
                    continue
                connection.heard = True  # a listener that requires a login would have closed the connection
                self._answered(connection, now)
                connection.unconfirmed = sent
                self._complete(sent.request, node, now)

    def _take_answers(self, now: float) -> None:
        for node, frame in self._selector.received:
            connection = self._connections[node]
            connection.used_at, connection.idle_at = now, now + self._max_idle
            self._counters.node(node).answers.add(len(frame) + 4)
            try:
                self._pair(connection, frame, now)
            except ProtocolError as cause:
                error = ConnectionFailedError(f"{connection.broker} answered something unreadable: {cause}")
                error.__cause__ = cause
                self.drop(connection, error)

    def _pair(self, connection: Connection, frame: Buffer, now: float) -> None:
        if not connection.in_flight:
            raise ProtocolError("an answer that nothing asked for")
        sent = connection.in_flight[0]
        if sent.reader is not None and connection.writing:
            raise ProtocolError("an answer to a request that is not written yet")
        if sent.bare:
            connection.in_flight.popleft()
            assert sent.reader is not None, "only a login speaks without headers"
            sent.reader(memoryview(frame), now)
            return
        message = sent.request.message
        correlation_id, offset = read_response_header(message, sent.version, frame)
        if correlation_id != sent.correlation_id:
            raise ProtocolError(f"answer {correlation_id} came, {sent.correlation_id} ({message.name}) was next")
        body = memoryview(frame)[offset:]
        if sent.reader is not None:
            connection.in_flight.popleft()
            connection.confirm(sent)
            sent.reader(body, now)
            return
        # Bytes after a response are ignored, as in Java: librdkafka's mock cluster adds a byte to Metadata version 13.
        answer = message.response(sent.version).decode(body, exact=False)
        connection.in_flight.popleft()
        connection.heard = True
        self._answered(connection, now)
        connection.confirm(sent)
        self._obey(connection, message, sent.version, getattr(answer, "throttle_time_ms", 0), now)
        if connection.stage is Stage.RENEWING and not connection.awaits_earlier_answers:
            # A broker serves a connection in order: it turns to the login only now, or after the throttle time.
            connection.setup_deadline = max(now, connection.throttled_until) + self._setup_backoff.delay(0)
        self._complete(sent.request, connection.broker.id, now, answer=answer)

    def _obey(
        self, connection: Connection, message: Message[Any, Any], version: int, throttle_ms: int, now: float
    ) -> None:
        """Pause for the throttle time of a response."""
        self._counters.producer.throttles.add(float(throttle_ms))
        if throttle_ms > 0 and (seconds := pause(message, version, throttle_ms)):
            connection.throttle(seconds, now)
            self._throttle_log.paused(connection.broker, seconds, now)

    def _answered(self, connection: Connection, now: float) -> None:
        """Reset the failures of a broker that answers."""
        if connection.failures:
            connection.failures = 0
            self._log.answered(connection, now)

    def _ask_for_versions(self, connection: Connection, version: int, now: float) -> None:
        def read(body: memoryview, at: float) -> None:
            self._learn_versions(connection, version, body, at)

        self._transmit(connection, api_versions_request(), version, now, reader=read)

    def _learn_versions(self, connection: Connection, version: int, body: memoryview, now: float) -> None:
        offer = offered_versions(version, body)
        self._obey(connection, API_VERSIONS, version, offer.throttle_ms, now)
        if offer.ask_again_with is not None:
            self._ask_for_versions(connection, offer.ask_again_with, now)
            return
        connection.versions = dict(offer.versions)
        self.features = self.features.newer(offer.features)
        if self._logins is None:
            self.admit(connection, now)
            return
        connection.stage = Stage.AUTHENTICATING
        self._logins.begin(connection, now)

    def admit(self, connection: Connection, now: float) -> None:
        """Mark a connection as ready after ApiVersions and login."""
        if self._logins is not None:
            counters = self._counters.producer
            (counters.renewals if connection.stage is Stage.RENEWING else counters.logins).add(1)
        connection.stage = Stage.READY
        connection.ready_at = connection.used_at = now
        connection.idle_at = now + self._max_idle
        connection.refusal = None
        connection.heard = False
        self._accepted = connection.reached = True
        self._upkeep.note_ready(connection.broker)
        connection.addresses = ()
        logger.debug("%s: %s is ready", self._client_id, connection.broker)
        self._log.ready(connection, now)
        if connection.short_sessions > 1:  # a single one may be the end of a token's lifetime
            self._log.short_session(connection, now)

    def _note_lost(self, now: float) -> None:
        for node, error in self._selector.disconnected.items():
            connection = self._connections[node]
            self._failed(connection, connection.reason or self._meaning(connection, error, now), now)
        self.forget_gone()

    def _meaning(self, connection: Connection, error: OttlaError, now: float) -> OttlaError:
        """The error for a connection that the peer ended at this stage."""
        if type(error) is not ConnectionFailedError:
            return error
        if connection.stage is Stage.NEGOTIATING:
            return closed_before_api_versions(error)
        if self._logins is not None:
            return self._logins.end_of(connection, error, now)
        return closed_after_api_versions(error) if connection.in_flight and not connection.heard else error

    def _greet_connected(self, now: float) -> None:
        for node in self._selector.connected:
            connection = self._connections[node]
            if connection.stage is Stage.CONNECTING:
                connection.stage = Stage.NEGOTIATING
                self._counters.producer.connected.add(1)
                self._ask_for_versions(connection, API_VERSIONS.max_version, now)

    def _look_for_names(self, now: float) -> None:
        for connection in self._connections:
            if connection.stage is Stage.RESOLVING:
                self._go_on_connecting(connection, now)

    def _time_out(self, now: float) -> None:
        """Close connections that timed out or are idle; responses that have arrived are read first."""
        answered = {node for node, _frame in self._selector.received}
        idle: list[Connection] = []
        for connection in self._connections:
            if connection.next_deadline() > now or connection.closing:
                continue
            if connection.broker.id in answered:
                continue  # more may have arrived after it: a poll returns one response per connection
            if connection.stage is Stage.READY and not connection.in_flight:
                idle.append(connection)
                continue
            if not connection.setting_up or now < connection.setup_deadline:
                waited = self._request_timeout
                name = connection.in_flight[0].request.message.name
                article = "an" if name.startswith(("A", "E", "I", "O")) else "a"
                what = f"did not answer {article} {name} request within request.timeout.ms ({waited:g} s)"
            else:
                what = f"did not get ready within socket.connection.setup.timeout.ms ({connection.doing})"
                what += SILENCE.get(connection.stage, "")
            error = RequestTimeoutError(f"{connection.broker} {what}")
            if connection.stage is Stage.RESOLVING:
                self._failed(connection, error, now)  # there is nothing to close yet
            else:
                self.drop(connection, error)
        for connection in sorted(idle, key=lambda each: each.idle_at):
            self._retire(connection)

    def _retire(self, connection: Connection) -> None:
        """Close a connection that had nothing to do for `connections.max.idle.ms`."""
        # Requests with acks=0 were written that long ago, and the broker kept the connection: nothing is lost.
        connection.unconfirmed = None
        self.drop(connection, ConnectionRetiredError(f"{connection.broker} had no request for connections.max.idle.ms"))

    def _due_at(self, now: float) -> float:
        """The time at which the client itself has work to do."""
        due = min((connection.next_deadline() for connection in self._connections), default=float("inf"))
        if self._log.active:
            due = min(due, self._log.due_at())
        if self._throttle_log.active:
            due = min(due, self._throttle_log.due_at())
        if self._upkeep.log.active:
            due = min(due, self._upkeep.log.due_at())
        return min(due, self._upkeep.due_at(now))


def _closed_unanswered(_completion: Completion) -> None:
    """Do nothing: the client handles its own requests by their `reader`."""
