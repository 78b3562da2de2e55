"""A request from the sender, and its completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from ottla.errors import OttlaError
from ottla.interfaces import Buffer
from ottla.protocol import Message

Reader: TypeAlias = Callable[[memoryview, float], None]


@attrs.frozen(kw_only=True)
class Completion:
    """The end of a request: its decoded *answer*, or an *error*; neither if it expects no response (`acks=0`).

    `written`: the request may have reached the broker. `throttled_until`: the end of the broker's throttling.
    """

    node: int
    answer: Any
    error: OttlaError | None
    now: float
    written: bool = True
    throttled_until: float = float("-inf")


@attrs.frozen(kw_only=True)
class Request:
    """The request: `body` encodes it for the highest version that the broker and we share, `floor` to `ceiling`."""

    message: Message[Any, Any]
    body: Callable[[int], Sequence[Buffer]]
    on_complete: Callable[[Completion], object]
    floor: int = 0
    ceiling: int | None = None
    answered: bool = True


@attrs.frozen(kw_only=True)
class InFlight:
    """A request that was passed to its connection; `number` counts all requests of the client.

    The client's own requests have a `reader`, called with the response and the time, instead of a completion. A `bare`
    request and its response have no header.
    """

    request: Request
    number: int
    version: int
    correlation_id: int
    deadline: float
    reader: Reader | None = None
    bare: bool = False
