"""Name resolution without blocking the I/O thread.

Each lookup runs on a separate thread. The system's resolver may take half a minute for one name, cannot be
interrupted, and must not delay other names. Numeric addresses need no thread.
"""

from __future__ import annotations

# Else the first `getaddrinfo` imports it. Without file descriptors that fails, and if two threads try at the same time,
# the interpreter may keep that there is no such codec: then no name is ever resolved in this process.
import encodings.idna  # noqa: F401
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.config.hosts import illegal
from ottla.errors import NameResolutionError, printable, quoted
from ottla.errors.plugin_origin import described, faults
from ottla.interfaces import Target
from ottla.network.selector_interface import Address

_Found: TypeAlias = Sequence[Address] | NameResolutionError
_Wanted: TypeAlias = tuple[str, int, bool]

MAX_AGE_SECONDS: Final = 600.0
"""A result that no call has wanted for so long is not returned any more: the broker may have moved.

It counts from the end of the lookup, and is longer than pauses between connections (`reconnect.backoff.max.ms`), so
that a lookup that takes longer than a connection may wait is of use to the next one.
"""

_PORTS: Final = range(1, 65_536)
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Resolver:
    """Name lookups, for the I/O thread. A result is returned once, and soon, or the next call asks the system again.

    The lookup's thread calls *wake* when it has finished.
    """

    def __init__(self, wake: Callable[[], object], environment: Environment = SYSTEM) -> None:
        self._wake = wake
        self._make_thread = environment.thread
        self._asked: set[_Wanted] = set()
        self._clock = environment.clock
        self._answers: dict[_Wanted, tuple[_Found, float]] = {}  # with the time at which the lookup ended

    def resolve(self, host: str, port: int, *, canonical: bool) -> Sequence[Address] | None:
        """Every address of a name, in the system's order, or None while a lookup is running. Never blocks.

        After None, call it again once *wake* was called. *canonical* gives each address its own name instead of *host*
        (`resolve_canonical_bootstrap_servers_only`). Raises NameResolutionError if the name has no address.
        """
        refuse_illegal(host)
        if port not in _PORTS:  # the system would use it modulo 65536
            raise NameResolutionError(f"{_failed(host)}: {port} is not a port", final=True)
        if not canonical and (found := _in_digits(host, port)):
            return found
        wanted = (host, port, canonical)
        answer, ended_at = self._answers.pop(wanted, (None, 0.0))
        if answer is not None:
            self._asked.discard(wanted)
        if answer is None or self._clock() - ended_at > MAX_AGE_SECONDS:
            self._ask(wanted)
            return None
        if isinstance(answer, NameResolutionError):
            raise answer
        return answer

    def _ask(self, wanted: _Wanted) -> None:
        if wanted in self._asked:
            return
        try:
            self._make_thread(partial(self._answer, wanted), "ottla-resolver").start()
        except RuntimeError as cause:  # the system has no more threads
            raise _unresolved(wanted[0], cause) from cause
        self._asked.add(wanted)

    def _answer(self, wanted: _Wanted) -> None:
        self._answers[wanted] = _look_up(*wanted), self._clock()
        self._wake()


def refuse_illegal(host: str) -> None:
    """Raise NameResolutionError for a name that no host can have, from a broker or from a name server."""
    if reason := illegal(host):
        raise _unresolved(host, ValueError(reason))


def _in_digits(host: str, port: int) -> Sequence[Address]:
    """The address itself if *host* is a numeric address; else empty."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except faults():  # ValueError: not even valid characters; others: of a library that replaces getaddrinfo
        return ()
    return [Address(host=host, target=Target(family, sockaddr)) for family, _type, _protocol, _name, sockaddr in found]


def _look_up(host: str, port: int, canonical: bool) -> _Found:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if not found:  # of a library that replaces getaddrinfo; the system raises an error instead
            raise socket.gaierror(socket.EAI_AGAIN, "the resolver returned no address")
        targets = dict.fromkeys(Target(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found)
        return [Address(host=_canonical_name(target) if canonical else host, target=target) for target in targets]
    except BaseException as cause:  # also of a library that replaces getaddrinfo: without a result this never ends
        return _unresolved(host, cause)


def _canonical_name(target: Target) -> str:
    name, _service = socket.getnameinfo(target.sockaddr, socket.NI_NUMERICSERV)
    if reason := illegal(name):
        raise ValueError(f"its canonical name is {quoted(name)}: {reason}")
    return name


def _failed(host: str) -> str:
    return f"the name {quoted(host)} could not be resolved"


def _unresolved(host: str, cause: BaseException) -> NameResolutionError:
    reason = printable(str(cause)) if isinstance(cause, OSError | ValueError) else described(cause)
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN:
        text = f"{_failed(host)}: {reason}; check this machine's name servers, and the name"
    elif isinstance(cause, socket.gaierror | ValueError):
        text = (
            f"the name {quoted(host)} has no address: {reason}; check bootstrap.servers and the brokers' "
            "advertised.listeners"
        )
    else:  # not about the name, such as a system without threads or file descriptors
        text = f"{_failed(host)}: {reason}"
    error = NameResolutionError(
        text,
        final=isinstance(cause, ValueError) or getattr(cause, "errno", None) in _NO_SUCH_NAME,
    )
    error.__cause__ = cause
    return error
