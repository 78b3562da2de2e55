"""The steps of an authentication exchange: what its caller has to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from ottla.interfaces import Step
from ottla.protocol import Message
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Ask(ValueMethods):
    """A step: send a request, and pass the body of its response to `Exchange.answered`."""

    message: Message[Any, Any]
    version: int
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Token(ValueMethods):
    """A step: send bytes without any header, and pass the whole next frame to `Exchange.answered`.

    *message* is the request that newer brokers get instead. The `last` token has no response: the connection is logged
    in as soon as it is written.
    """

    message: Message[Any, Any]
    data: bytes = attrs.field(repr=False)
    last: bool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Compute:
    """A step: call *work*, a computation of the mechanism, on any thread; pass its result to `Exchange.computed`.

    *first*: it makes the first message, for which a mechanism may have to wait.
    """

    work: Callable[[], Step] = attrs.field(repr=False)
    first: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoggedIn(ValueMethods):
    """The last step: the login has succeeded on both sides. A session of 0 seconds does not expire."""

    session: float = 0.0


LoginStep: TypeAlias = Ask | Token | Compute | LoggedIn
