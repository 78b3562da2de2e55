"""TCP connections to many addresses at the same time; the system's error determines the problem."""

from __future__ import annotations

import errno
import selectors
import socket
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.config.hosts import with_port
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Problem
from ottla.doctor.names import TRANSPORT_SETTINGS, Server
from ottla.network.selector_interface import Address

_PENDING: Final = (errno.EINPROGRESS, errno.EWOULDBLOCK)

_UNREACHABLE: Final[Mapping[int, str]] = {
    errno.ENETUNREACH: "this machine has no route to that network",
    errno.EHOSTUNREACH: "no route leads to that host",
    errno.EADDRNOTAVAIL: "this machine has no address from which that host can be reached",
    errno.EAFNOSUPPORT: "this machine does not support that kind of address",
}


@attrs.frozen(kw_only=True)
class Endpoint:
    """One address of a server to connect to. `own`: it is the transport's, such as a proxy's."""

    server: Server
    address: Address
    own: bool = False

    def __str__(self) -> str:
        """The server, with the address in brackets if the name is not the address, and with the port of a proxy."""
        sockaddr = self.address.target.sockaddr
        if not isinstance(sockaddr, tuple):
            return f"{self.server} ({sockaddr})"
        if self.own and sockaddr[1] != self.server.port:
            return f"{self.server} ({with_port(*sockaddr[:2])})"
        return str(self.server) if sockaddr[0] == self.server.host else f"{self.server} ({sockaddr[0]})"


@attrs.frozen(kw_only=True)
class Connected:
    """A connected, non-blocking socket; the caller closes it."""

    endpoint: Endpoint
    sock: socket.socket
    seconds: float


@attrs.frozen(kw_only=True)
class NotConnected:
    """An address to which no connection could be made."""

    endpoint: Endpoint
    problem: Problem
    seconds: float


Attempt: TypeAlias = Connected | NotConnected


def connect(endpoints: Sequence[Endpoint], *, setting: str, bounds: Bounds) -> Sequence[Attempt]:
    """One result for each endpoint, in order. *setting* is where a wrong address would be configured."""
    return _Connecting(setting, bounds).at(endpoints)


class _Connecting:
    def __init__(self, setting: str, bounds: Bounds) -> None:
        self._setting = setting
        self._bounds = bounds
        self._started = bounds.clock()
        self._results: dict[Endpoint, Attempt] = {}

    def at(self, endpoints: Sequence[Endpoint]) -> Sequence[Attempt]:
        deadline = self._bounds.deadline()
        with selectors.DefaultSelector() as watch:
            for endpoint in dict.fromkeys(endpoints):
                self._begin(endpoint, watch)
            while watch.get_map() and (remaining := deadline - self._bounds.clock()) > 0:
                for key, _events in watch.select(remaining):
                    endpoint, sock = key.data
                    watch.unregister(sock)
                    self._end(endpoint, sock, sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            for key in list(watch.get_map().values()):
                endpoint, sock = key.data
                self._end(endpoint, sock, errno.ETIMEDOUT)
        return [self._results[endpoint] for endpoint in endpoints]

    def _begin(self, endpoint: Endpoint, watch: selectors.BaseSelector) -> None:
        target = endpoint.address.target
        try:
            sock = socket.socket(target.family, socket.SOCK_STREAM)
        except OSError as error:
            self._failed(endpoint, error.errno or errno.EIO)
            return
        sock.setblocking(False)
        try:
            number = sock.connect_ex(target.sockaddr)
        except OSError as error:
            number = error.errno or errno.EIO
        if number in _PENDING:
            watch.register(sock, selectors.EVENT_WRITE, (endpoint, sock))
        else:
            self._end(endpoint, sock, number)

    def _end(self, endpoint: Endpoint, sock: socket.socket, number: int) -> None:
        if number:
            sock.close()
            self._failed(endpoint, number)
        else:
            self._results[endpoint] = Connected(endpoint=endpoint, sock=sock, seconds=self._seconds())

    def _failed(self, endpoint: Endpoint, number: int) -> None:
        seconds = self._seconds()
        setting = TRANSPORT_SETTINGS if endpoint.own else self._setting
        problem = _problem(number, seconds=seconds, what="proxy" if endpoint.own else "broker", setting=setting)
        self._results[endpoint] = NotConnected(endpoint=endpoint, problem=problem, seconds=seconds)

    def _seconds(self) -> float:
        return self._bounds.clock() - self._started


def _problem(number: int, *, seconds: float, what: str, setting: str) -> Problem:
    name = errno.errorcode.get(number, str(number))
    if number == errno.ECONNREFUSED:
        return Problem(
            "nothing listens there: the connection was refused",
            f"check that the {what} is running, and host and port in {setting}",
        )
    if number == errno.ETIMEDOUT:
        return Problem(
            f"the connection was neither accepted nor refused within {seconds:.1f} s",
            f"let firewalls and security groups pass this port, or correct the address in {setting}",
        )
    if number in _UNREACHABLE:
        return Problem(
            f"{_UNREACHABLE[number]} ({name})", f"check this machine's network and VPN, or the address in {setting}"
        )
    return Problem(f"could not connect: {name}", f"check the address in {setting}")
