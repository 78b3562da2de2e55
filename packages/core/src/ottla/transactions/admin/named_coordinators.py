"""The coordinator as a broker names it that is not the coordinator itself.

A broker that was frozen, or that controllers cannot reach, still calls itself the coordinator after another one has
taken its place. It answers from what it knew, unless it has to write: that a transaction is empty which was written
since, or an offset of before. So what a broker says of itself is asked of others, too. Only one that another broker
names has what was written before it was asked for; without another broker, its own word is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from ottla.concurrency.environment import SYSTEM
from ottla.errors import ErrorCode, OttlaError, TransactionTimeoutError, UnsupportedVersionError, error_code
from ottla.protocol import Message
from ottla.protocol.messages.find_coordinator import (
    FIND_COORDINATOR,
    TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.transaction_requests import FindCoordinator, coordinator_in, invalid_node

OTHERS: Final = 3
"""Brokers that are asked at once whether another one is the coordinator; the first answer counts."""

WITHIN: Final = 10.0
"""Seconds for that answer, or half of those of the call; then the word of the broker itself counts.

Brokers that cannot be reached take no time. If all others are silent, the coordinator cannot write either.
"""

_FIRST_WITH_MANY_KEYS = 4


class AskingClient(Protocol):
    """What a look-up needs of the client that sends its requests: see `BlockingClient`."""

    answered_by: int

    def brokers(self) -> list[int]: ...

    def within(self, seconds: float, *, half: bool = False) -> AbstractContextManager[None]: ...

    def send(self, node: int | None, request: CoordinatorRequest) -> Any: ...

    def ask(
        self, node: int | None, message: Message[Any, Any], content: Callable[[int], Any], *, floor: int = 0
    ) -> Any: ...

    def ask_each(
        self,
        message: Message[Any, Any],
        contents: Mapping[int, Callable[[int], Any]],
        code_of: Callable[[Any], int],
        *,
        first: bool = False,
    ) -> tuple[Mapping[int, Any], Mapping[int, OttlaError]]: ...


class NamedCoordinators:
    """Finds coordinators with the requests of a *client*."""

    def __init__(self, client: AskingClient) -> None:
        self._client = client
        self._claimed_twice: set[str] = set()
        """The transactional ids and groups of which two brokers each have called themselves the coordinator."""

    def find(self, request: FindCoordinator) -> Any:
        """Return the part of a FindCoordinator response for the key of a request.

        If two brokers each call themselves the coordinator, it has the code COORDINATOR_NOT_AVAILABLE, until another
        one names it.
        """
        client, key = self._client, request.key
        client.brokers()  # then a bootstrap server is known as the broker that it is
        found = coordinator_in(client.send(None, request), key)
        if found.error_code or not _may_name_itself(client.answered_by, found.node_id):
            return found
        other = self._ask_another(found.node_id, request.build)
        if other is not None:
            node, response = other
            found = coordinator_in(response, key)
            if found.error_code:
                return found
            if found.node_id != node:
                self._claimed_twice.discard(key)
                return found
            self._claimed_twice.add(key)
        if key in self._claimed_twice:
            return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return found

    def find_together(self, transactional_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the coordinators of many ids, with two requests at most; those that are not certain are left out.

        Raises UnsupportedVersionError.
        """
        client = self._client
        client.brokers()
        request = _request(transactional_ids)
        found = _nodes(client.ask(None, FIND_COORDINATOR, request, floor=_FIRST_WITH_MANY_KEYS))
        doubtful = [key for key, node in found.items() if _may_name_itself(client.answered_by, node)]
        if not doubtful:
            return found
        other = self._ask_another(client.answered_by, _request(doubtful))
        if other is None:
            return {key: each for key, each in found.items() if key not in self._claimed_twice}
        node, response = other
        again = _nodes(response)
        self._claimed_twice.update(key for key, each in again.items() if each == node)
        certain = {key: each for key, each in found.items() if key not in doubtful}
        return certain | {key: each for key, each in again.items() if each != node}

    def _ask_another(self, node: int, content: Callable[[int], FindCoordinatorRequest]) -> tuple[int, Any] | None:
        """Return the first response of another broker than *node*, and who sent it; None if none comes in time."""
        client = self._client
        others = [each for each in client.brokers() if each != node]
        asked = dict.fromkeys(SYSTEM.random.sample(others, min(OTHERS, len(others))), content)
        if not asked:
            return None
        try:
            with client.within(WITHIN, half=True):  # of all the time: the rest of it may be too short for an answer
                answers, _silent = client.ask_each(FIND_COORDINATOR, asked, lambda _response: 0, first=True)
        except (TransactionTimeoutError, UnsupportedVersionError):
            return None
        return next(iter(answers.items()), None)


def _may_name_itself(asked: int, node: int) -> bool:
    """Return whether the broker that was asked is the one that it names; a bootstrap server may be any broker."""
    return asked < 0 or asked == node


def _request(transactional_ids: Sequence[str]) -> Callable[[int], FindCoordinatorRequest]:
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[*transactional_ids])
    return lambda _version: request


def _nodes(response: FindCoordinatorResponse) -> dict[str, int]:
    """The coordinator of each id for which a response names one."""
    return {
        each.key: each.node_id
        for each in response.coordinators
        if error_code(each.error_code) is ErrorCode.NONE and invalid_node(each) is None
    }
