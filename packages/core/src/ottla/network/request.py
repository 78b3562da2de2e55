"""A request as the sender hands it over, and what comes back of it."""

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
    """The end of a request: its decoded *answer*, or an *error*; neither when none was asked for (`acks=0`).

    `written` tells whether the request may have reached the broker; `throttled_until` is when the broker wants to
    hear of us again.
    """

    node: int
    answer: Any
    error: OttlaError | None
    now: float
    written: bool = True
    throttled_until: float = float("-inf")


@attrs.frozen(kw_only=True)
class Request:
    """What to send: `body` encodes it for the highest version that the broker and we share, `floor` to `ceiling`."""

    message: Message[Any, Any]
    body: Callable[[int], Sequence[Buffer]]
    on_complete: Callable[[Completion], object]
    floor: int = 0
    ceiling: int | None = None
    answered: bool = True


@attrs.frozen(kw_only=True)
class InFlight:
    """A request that was handed to its connection; `number` counts all requests of the client.

    The client's own have a `reader` of their answer, given the time too, instead of a completion. A `bare` one goes
    without a header, and so does its answer.
    """

    request: Request
    number: int
    version: int
    correlation_id: int
    deadline: float
    reader: Reader | None = None
    bare: bool = False
