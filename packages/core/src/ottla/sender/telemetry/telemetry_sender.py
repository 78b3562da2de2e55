"""Telemetry requests of a producer: the subscription, pushes at its interval, and a last push when the producer closes.

The requests follow those for records in a round, and failures are only logged. If no broker supports telemetry, there
are neither requests nor rounds for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch
from ottla.errors import BrokerError, ErrorCode, OttlaError, UnsupportedVersionError, counted, error_code
from ottla.errors.robust_logger import robust_logger
from ottla.network import Completion, NetworkClient, Request
from ottla.protocol.notation import ZERO_UUID
from ottla.sender.telemetry.error_actions import TelemetryErrorAction, telemetry_error_action
from ottla.sender.telemetry.states import NEXT_STATES, TelemetryState
from ottla.sender.telemetry.subscription import DEFAULT_INTERVAL, Subscription, read_subscription, uuid_text

if TYPE_CHECKING:
    from ottla.sender.telemetry.payload import PayloadBuilder, PayloadInProgress

logger = robust_logger(__name__)

FIRST_PUSH: Final = (0.5, 1.5)
"""The first push after a subscription comes after this part of the interval: not all clients push together."""

LAST_PUSH_SECONDS: Final = 1.0
"""The longest that a producer's close waits for its last push."""


@attrs.frozen(eq=False, repr=False)
class _Api:
    """The API of a request: its name, and the key under which brokers offer it."""

    name: str
    key: int


_SUBSCRIPTION: Final = _Api("GetTelemetrySubscriptions", 71)
_PUSH: Final = _Api("PushTelemetry", 72)

_ALWAYS: Final = float("-inf")
_NEVER: Final = float("inf")


class TelemetrySender:
    """The telemetry requests of one producer. For the I/O thread, except `client_instance_id` and `id_decided`.

    *payloads* returns the builder of payloads; the first push calls it.

    `check_at`: from this time on, each round has to call `run`. `wake_at`: at this time a round has to begin for it.
    """

    def __init__(
        self, *, client: NetworkClient, payloads: Callable[[], PayloadBuilder], client_id: str, environment: Environment
    ) -> None:
        self._client = client
        self._payloads = payloads
        self._client_id = client_id
        self._uniform = environment.random.uniform
        self._state = TelemetryState.SUBSCRIPTION_NEEDED
        self._subscription: Subscription | None = None
        self._payload: PayloadInProgress | None = None
        self._outdated = False  # the payload was begun before the producer's last records
        self._node: int | None = None  # KIP-714: use the same broker as long as possible
        self._due_at = _ALWAYS
        self._announced = False
        self.id_decided = Latch(environment)
        """Whether there is a client instance id, or a reason not to wait for one. For any thread."""
        self.check_at, self.wake_at = _ALWAYS, _NEVER

    def client_instance_id(self, timeout: float) -> str | None:
        """The id that a broker has assigned; waits for it, unless no broker supports telemetry. For any thread."""
        self.id_decided.wait(timeout)
        subscription = self._subscription
        return None if subscription is None else uuid_text(subscription.client_instance_id)

    def run(self, now: float) -> None:
        """Send the request that is due, if a broker takes it. Never raises."""
        try:
            self._advance(now)
        except Exception as error:
            self._fail(error)

    def recover(self, now: float) -> None:
        """Forget a request that a failed round has lost."""
        if self._state in (TelemetryState.SUBSCRIPTION_IN_PROGRESS, TelemetryState.PUSH_IN_PROGRESS):
            self._enter(TelemetryState.SUBSCRIPTION_NEEDED)
            self._wait_until(now + self._interval)

    def push_last(self, now: float, deadline: float) -> None:
        """Push once more, unless no metrics are wanted; waits for the response until the deadline."""
        subscription = self._subscription
        if (
            subscription is not None
            and not subscription.empty
            and self._may_enter(TelemetryState.TERMINATING_PUSH_NEEDED)
        ):
            self._enter(TelemetryState.TERMINATING_PUSH_NEEDED)
            self._outdated = self._payload is not None
            deadline = min(deadline, now + LAST_PUSH_SECONDS)
            while now < deadline:
                self.run(now)
                if self._state is TelemetryState.TERMINATED:
                    break
                now = self._client.poll(min(deadline, max(self.wake_at, now)) - now, now)
        self.end()

    def end(self) -> None:
        """Send no more requests."""
        self._state = TelemetryState.TERMINATED
        self.check_at = self.wake_at = _NEVER
        self.id_decided.set()

    @property
    def _interval(self) -> float:
        return DEFAULT_INTERVAL if self._subscription is None else self._subscription.push_interval

    def _advance(self, now: float) -> None:
        match self._state:
            case TelemetryState.SUBSCRIPTION_NEEDED if now >= self._due_at:
                self._request_subscription(now)
            case TelemetryState.PUSH_NEEDED if now >= self._due_at:
                self._push(now, terminating=False)
            case TelemetryState.TERMINATING_PUSH_NEEDED:
                self._push(now, terminating=True)
            case _:  # a response is awaited, or the time has not come
                pass

    def _request_subscription(self, now: float) -> None:
        node = self._choose_node(_SUBSCRIPTION, now)
        if node is None:
            return
        from ottla.sender.telemetry.requests import subscription_request

        subscription = self._subscription
        known = ZERO_UUID if subscription is None else subscription.client_instance_id
        self._enter(TelemetryState.SUBSCRIPTION_IN_PROGRESS)
        self._send(node, subscription_request(known, self._guarded(self._subscribed)), now)

    def _push(self, now: float, *, terminating: bool) -> None:
        node = self._choose_node(_PUSH, now)
        subscription = self._subscription
        if node is None or subscription is None:
            return
        if self._payload is None:
            self._payload = self._payloads().begin(subscription)
        if not self._payload.finished:
            self._wait_for_event()  # the thread that makes it wakes this one
            return
        payload, self._payload = self._payload.payload, None
        if self._outdated:
            self._outdated = False
            if payload is not None:
                self._payloads().take_back()
            self._push(now, terminating=terminating)
            return
        if payload is None:
            self._skip_push(now, terminating=terminating)
            return
        from ottla.sender.telemetry.requests import push_request

        on_complete = self._guarded(self._pushed_last if terminating else self._pushed)
        self._enter(TelemetryState.TERMINATING_PUSH_IN_PROGRESS if terminating else TelemetryState.PUSH_IN_PROGRESS)
        self._send(node, push_request(subscription, payload, terminating=terminating, on_complete=on_complete), now)

    def _skip_push(self, now: float, *, terminating: bool) -> None:
        if terminating:
            self.end()
        else:
            self._wait_until(now + self._interval)

    def _choose_node(self, api: _Api, now: float) -> int | None:
        """A broker that takes such a request now, or None: the next event, or a time that is set here, may bring one.

        A connection is made only if a broker has offered such requests, perhaps a bootstrap server.
        """
        client = self._client
        offering = client.offering(api.key, now)
        if offering:
            if self._node not in offering:
                self._node = offering[0]
            return self._node
        if offering is None:
            self._wait_for_event()
            if api.key in client.offered:
                client.least_loaded(now)  # begins to connect
                self.wake_at = client.next_try(now)
        else:
            self._rest_unsupported(now)
        return None

    def _send(self, node: int, request: Request, now: float) -> None:
        self.check_at = self.wake_at = _NEVER
        logger.debug("%s: %s to broker %d", self._client_id, request.message.name, node)
        self._client.send(node, request, now)

    def _guarded(self, on_complete: Callable[[Completion], object]) -> Callable[[Completion], object]:
        """The function, but an exception of it ends telemetry, and not the round."""

        def complete(completion: Completion) -> None:
            try:
                on_complete(completion)
            except Exception as error:
                self._fail(error)

        return complete

    # Responses

    def _subscribed(self, completion: Completion) -> None:
        if self._state is not TelemetryState.SUBSCRIPTION_IN_PROGRESS:
            return  # the producer closes, or has given up this request
        if self._failed(completion, api=_SUBSCRIPTION):
            return
        now = completion.now
        subscription = self._subscription = read_subscription(completion.response)
        self.id_decided.set()
        logger.debug(
            "%s: brokers want the metrics of %s", self._client_id, counted(len(subscription.prefixes), "prefix")
        )
        if subscription.empty:
            self._enter(TelemetryState.SUBSCRIPTION_NEEDED)
            self._wait_until(now + subscription.push_interval)
            return
        if not self._announced:
            self._announced = True
            logger.info(
                "%s: brokers collect metrics of this producer every %g s, as client instance %s; "
                "enable.metrics.push=false switches that off",
                self._client_id,
                subscription.push_interval,
                uuid_text(subscription.client_instance_id),
            )
        self._enter(TelemetryState.PUSH_NEEDED)
        self._wait_until(now + subscription.push_interval * self._uniform(*FIRST_PUSH))

    def _pushed(self, completion: Completion) -> None:
        if self._state is not TelemetryState.PUSH_IN_PROGRESS:
            return
        if not self._failed(completion, api=_PUSH):
            self._enter(TelemetryState.PUSH_NEEDED)
            self._wait_until(completion.now + self._interval)

    def _pushed_last(self, completion: Completion) -> None:
        error = _error_of(completion)
        if error is not None:
            logger.debug("%s: the last push of metrics failed: %s", self._client_id, error)
        self.end()

    def _failed(self, completion: Completion, *, api: _Api) -> bool:
        """Handle the error of a request, if it has one; the subscription is requested next."""
        error = _error_of(completion)
        if error is None:
            return False
        logger.debug("%s: %s failed: %s", self._client_id, api.name, error)
        if api is _PUSH and isinstance(error, BrokerError):
            self._payloads().take_back()
        self._enter(TelemetryState.SUBSCRIPTION_NEEDED)
        if isinstance(error, UnsupportedVersionError):
            self._rest_unsupported(completion.now)
            return True
        action = (
            telemetry_error_action(error.code) if isinstance(error, BrokerError) else TelemetryErrorAction.ASK_LATER
        )
        if action is TelemetryErrorAction.STOP:
            logger.warning("%s: no more metrics are pushed: a broker refused %s: %s", self._client_id, api.name, error)
            self.end()
        # A subscription that cannot be had now is not requested again and again.
        elif action is TelemetryErrorAction.ASK_NOW and api is _PUSH:
            self._wait_until(completion.now)
        else:
            self._wait_until(completion.now + self._interval)
        return True

    # States

    def _enter(self, state: TelemetryState) -> None:
        assert self._may_enter(state), f"{state} does not follow {self._state}"
        self._state = state

    def _may_enter(self, state: TelemetryState) -> bool:
        return state in NEXT_STATES[self._state]

    def _wait_until(self, at: float) -> None:
        """Have `run` called at this time."""
        self._due_at = self.check_at = self.wake_at = at

    def _wait_for_event(self) -> None:
        """Have `run` called in every round, without a round for it alone."""
        self.check_at, self.wake_at = _ALWAYS, _NEVER

    def _rest_unsupported(self, now: float) -> None:
        """Ask again later, in a round that begins for another reason: the brokers do not support telemetry."""
        if self._state is TelemetryState.TERMINATING_PUSH_NEEDED:
            self.end()
            return
        if self._state is not TelemetryState.SUBSCRIPTION_NEEDED:
            self._enter(TelemetryState.SUBSCRIPTION_NEEDED)
        self._due_at = self.check_at = now + DEFAULT_INTERVAL
        self.wake_at = _NEVER
        self.id_decided.set()

    def _fail(self, error: Exception) -> None:
        """Stop because of an error of Ottla or of a broker's response: records must not suffer from it."""
        logger.error("%s: no more metrics are pushed to brokers", self._client_id, exc_info=error)
        self.end()


def _error_of(completion: Completion) -> OttlaError | None:
    """The error of a request: that of its connection, or the code in its response."""
    if completion.error is not None:
        return completion.error
    code = error_code(completion.response.error_code)
    return None if code is ErrorCode.NONE else BrokerError(code)
