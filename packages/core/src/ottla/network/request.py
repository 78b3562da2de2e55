"""A request to a broker, and its completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ottla.errors import OttlaError
from ottla.interfaces import Buffer
from ottla.protocol import Message


@attrs.define(kw_only=True, eq=False, repr=False)  # frozen takes more than twice as long to make, for each request
class Completion:
    """The end of a request: a decoded *response* or an *error*; neither if it expects no response (`acks=0`).

    `written`: the request may have reached the broker. `throttled_until`: the end of the broker's throttling.
    """

    node: int
    response: Any
    error: OttlaError | None
    now: float
    written: bool = True
    throttled_until: float = float("-inf")


@attrs.define(kw_only=True)  # frozen takes more than twice as long to make, for each request
class Request:
    """A request to a broker. Its version is the highest from `floor` to `ceiling` that both sides support.

    `body` encodes the request in that version. `shortcut` reads the response that is expected, given the version and
    the body; it returns None for any other one, which the message's decoder reads.
    """

    message: Message[Any, Any]
    body: Callable[[int], Sequence[Buffer]]
    on_complete: Callable[[Completion], object]
    floor: int = 0
    ceiling: int | None = None
    expects_response: bool = True
    shortcut: Callable[[int, Buffer], Any] | None = None
