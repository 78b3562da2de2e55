"""The time-outs of the lease's and the tasks' transactions: the longest that all brokers allow, or less."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Final

import attrs

from ottla.errors import ErrorCode, TransactionTimeoutError
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla.transactions.admin.connect import ClientAndMetadata
from ottla_spark.exactly_once.broker_limits import longest_timeout_ms
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.settings import TWO_PHASE, Settings
from ottla_spark.options.known_defaults import BROKERS_MAX_TIMEOUT_MS, TRANSACTION_TIMEOUT

_log = logging.getLogger(__name__)

LIMITS_VALID: Final = 30.0
"""Seconds after which brokers are asked for their limits again: they may be restarted with others."""

LEDGER_TIMEOUT_MS: Final = 150_000
"""Time-out of the lease's transactions: longer than `RESPONSE_TIMEOUT`, for which the driver tries to write an entry.

It limits how long a driver that dies while it writes one keeps the partition from being compacted.
"""

FIRST_WITH_TWO_PHASE: Final = 6
"""The first version of InitProducerId that can enable two-phase commit."""


@attrs.frozen(kw_only=True)
class TimeoutLimit:
    """The longest time-out of a transaction that all brokers allow; after *valid_until* they are asked again.

    Unless it is *known*, brokers have not said it, and their default is assumed.
    """

    longest_ms: int = BROKERS_MAX_TIMEOUT_MS
    known: bool = False
    valid_until: float = float("-inf")


class TimeoutLimits:
    """Asks brokers for their limits, and keeps these for a while. Not thread-safe.

    *brokers* returns the node ids of all brokers, and *briefly* a client for requests to each, which may be down.
    """

    def __init__(
        self,
        settings: Settings,
        connections: ClientAndMetadata,
        *,
        brokers: Callable[[], list[int]],
        briefly: Callable[[], BlockingClient],
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._brokers = brokers
        self._briefly = briefly
        self._limit = TimeoutLimit()

    def task_ms(self) -> int:
        """Return the time-out of a task's transaction. Raises LedgerMismatchError if brokers do not allow it."""
        longest_ms = self._current().longest_ms
        wanted = self._settings.timeout_ms
        if wanted is None:
            return longest_ms
        if wanted > longest_ms:
            raise LedgerMismatchError(
                f"kafka.{TRANSACTION_TIMEOUT}={wanted} is more than the brokers allow: transaction.max.timeout.ms is "
                f"{longest_ms}. Leave the option out to use all of it"
            )
        return wanted

    def lease_ms(self) -> int:
        """Return the time-out of the lease's transactions.

        If brokers do not say their limit, it is that of the tasks: brokers have to refuse that before any task begins.
        """
        limit = self._current()
        return min(LEDGER_TIMEOUT_MS, limit.longest_ms) if limit.known else self.task_ms()

    def remedy(self, code: ErrorCode, timeout_ms: int) -> str:
        """Return the end of an error message about a refused lease."""
        if code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT or self._limit.known:
            return ""
        return (
            f" A time-out of {timeout_ms} ms was assumed, because the user may not read the limit of the brokers, "
            f"which needs DescribeConfigs for the cluster: set kafka.{TRANSACTION_TIMEOUT} to at most that limit"
        )

    def _current(self) -> TimeoutLimit:
        """Return the limit that brokers said in the last `LIMITS_VALID` seconds.

        If they do not say it, the same is assumed for as long as this object lives.
        """
        now = self._connections.clock()
        if now >= self._limit.valid_until:
            if self._settings.two_phase:
                self._check_two_phase()
            maximums = [self._allowed_by(node) for node in self._brokers()]
            known = [each for each in maximums if each is not None]
            self._limit = TimeoutLimit(
                longest_ms=min(known, default=BROKERS_MAX_TIMEOUT_MS),
                known=bool(known),
                valid_until=now + LIMITS_VALID if known else float("inf"),
            )
        return self._limit

    def _allowed_by(self, node: int) -> int | None:
        """Return one broker's transaction.max.timeout.ms, or None if it does not return it or is down."""
        try:
            return longest_timeout_ms(self._briefly(), node)
        except TransactionTimeoutError as error:
            _log.warning("transaction.max.timeout.ms of broker %d cannot be read: %s", node, error)
            return None

    def _check_two_phase(self) -> None:
        """Raise LedgerMismatchError for a broker that cannot keep prepared transactions without a time-out."""
        for node in self._brokers():
            with contextlib.suppress(TransactionTimeoutError):  # the broker is down
                self._briefly().supports(node, INIT_PRODUCER_ID)
            versions = self._connections.client.supported_versions(node, INIT_PRODUCER_ID)
            if versions is not None and versions[1] < FIRST_WITH_TWO_PHASE:
                raise LedgerMismatchError(
                    f"{TWO_PHASE}=true needs brokers that support InitProducerId version {FIRST_WITH_TWO_PHASE} "
                    f"(KIP-939), but broker {node} supports at most version {versions[1]}; leave the option out"
                )
