"""From a broker's name to the addresses to try, without keeping the I/O thread.

A name is looked up by a thread of its own kind, one for all names, made when the first name needs it: the system's
resolver may take half a minute, and cannot be interrupted. Addresses in digits need no thread.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ottla.errors import NameResolutionFailed
from ottla.interfaces import Target
from ottla.selectable import Address

_Found: TypeAlias = Sequence[Address] | NameResolutionFailed
_Wanted: TypeAlias = tuple[str, int, bool]
_End: Final = None

_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Resolver:
    """Answers are taken once: the next question for the same name asks the system again. For the I/O thread.

    *wake* is called, by the other thread, whenever an answer has come.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._asked: set[_Wanted] = set()
        self._answers: dict[_Wanted, _Found] = {}
        self._questions: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def resolve(self, host: str, port: int, *, canonical: bool) -> Sequence[Address] | None:
        """Every address of a name, in the order the system prefers; None: not yet, ask again.

        *canonical* gives each address its own name in place of *host* (`resolve_canonical_bootstrap_servers_only`).
        Raises NameResolutionFailed.
        """
        if not canonical and (found := _in_digits(host, port)):
            return found
        wanted = (host, port, canonical)
        answer = self._answers.pop(wanted, None)
        if answer is None:
            self._ask(wanted)
            return None
        self._asked.discard(wanted)
        if isinstance(answer, NameResolutionFailed):
            raise answer
        return answer

    def close(self) -> None:
        """Let the thread end once the system's resolver returns."""
        if self._thread is not None:
            self._questions.put(_End)

    def _ask(self, wanted: _Wanted) -> None:
        if wanted in self._asked:
            return
        self._asked.add(wanted)
        self._questions.put(wanted)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ottla-resolver", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (wanted := self._questions.get()) is not _End:
            self._answers[wanted] = _look_up(*wanted)
            self._wake()


def _in_digits(host: str, port: int) -> Sequence[Address]:
    """The address itself, if that is what *host* is."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return [Address(host=host, target=Target(family, sockaddr)) for family, _type, _protocol, _name, sockaddr in found]


def _look_up(host: str, port: int, canonical: bool) -> _Found:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as cause:
        error = NameResolutionFailed(
            f"the name {host!r} has no address: {cause}; check bootstrap.servers and the brokers' advertised.listeners",
            final=isinstance(cause, UnicodeError) or cause.errno in _NO_SUCH_NAME,
        )
        error.__cause__ = cause
        return error
    targets = [Target(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found]
    return [
        Address(host=_canonical_name(target) if canonical else host, target=target) for target in dict.fromkeys(targets)
    ]


def _canonical_name(target: Target) -> str:
    name, _service = socket.getnameinfo(target.sockaddr, socket.NI_NUMERICSERV)
    return name
