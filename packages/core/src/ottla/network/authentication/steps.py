"""The steps of an authentication exchange: what its caller has to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from ottla.interfaces import Step
from ottla.protocol import Message


@attrs.frozen(kw_only=True)
class Ask:
    """Send a request; `Exchange.answered` takes the body of its response."""

    message: Message[Any, Any]
    version: int
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Token:
    """Send bytes without any header, instead of *message*. `answered` takes the whole next frame.

    The `last` one has no response: the connection is logged in as soon as it is written.
    """

    message: Message[Any, Any]
    data: bytes = attrs.field(repr=False)
    last: bool


@attrs.frozen(kw_only=True)
class Compute:
    """Have the mechanism compute its next message, on any thread, and pass the result to `Exchange.computed`."""

    work: Callable[[], Step] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class LoggedIn:
    """The login succeeded on both sides. A session of 0 seconds does not expire."""

    session: float = 0.0


LoginStep: TypeAlias = Ask | Token | Compute | LoggedIn
