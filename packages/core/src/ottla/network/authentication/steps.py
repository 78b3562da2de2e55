"""What an exchange wants to be done next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from ottla.interfaces import Step
from ottla.protocol import Message


@attrs.frozen(kw_only=True)
class Ask:
    """Send a request; `Exchange.answered` takes the body of its answer."""

    message: Message[Any, Any]
    version: int
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Token:
    """Send bytes without any header, in place of *message*. `answered` takes the whole next frame.

    The `last` one has no answer: the connection is logged in as soon as it is written.
    """

    message: Message[Any, Any]
    data: bytes = attrs.field(repr=False)
    last: bool


@attrs.frozen(kw_only=True)
class Compute:
    """Have the mechanism compute its next message, wherever that may block, and hand the result to `thought`."""

    work: Callable[[], Step] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class LoggedIn:
    """The end: both sides are satisfied. A session of 0 seconds has no end."""

    session: float = 0.0


Move: TypeAlias = Ask | Token | Compute | LoggedIn
