"""Resolution of all names at the same time: to the transport's own targets, else to addresses by the system's resolver.

This module makes no findings: the caller reports names without an address.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.config.hosts import illegal, with_port
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Problem
from ottla.errors import NameResolutionError, printable, quoted
from ottla.interfaces import HostTarget, Target, Transport
from ottla.network.selector.resolver import Resolver
from ottla.network.selector.targets import Targets
from ottla.network.selector_interface import Address

TRANSPORT_SETTINGS: Final = "the transport's own settings"


@attrs.frozen
class Server:
    """A host and a port as they were written."""

    host: str
    port: int

    def __str__(self) -> str:
        return with_port(printable(self.host), self.port)


@attrs.frozen(kw_only=True)
class Resolved:
    """The addresses of a server. `own`: they are the transport's, and no name was resolved."""

    server: Server
    addresses: Sequence[Address]
    own: bool
    seconds: float


@attrs.frozen(kw_only=True)
class Unresolved:
    """A server without an address."""

    server: Server
    problem: Problem
    seconds: float


Lookup: TypeAlias = Resolved | Unresolved


def look_up(
    servers: Iterable[Server], *, transport: Transport, canonical: bool, setting: str, bounds: Bounds
) -> Sequence[Lookup]:
    """One lookup for each server, in order. *setting* is where a wrong name would be configured."""
    wanted = list(dict.fromkeys(servers))
    found: dict[Server, Lookup] = {}
    own: dict[Server, Targets] = {}
    for server in wanted:
        if illegal(server.host):
            continue  # the resolver has the error message
        try:
            targets = transport.targets(server.host, server.port)
        except Exception as cause:  # of a plugin, which may be third-party code
            problem = Problem.of(
                f"the transport's `targets` failed: {printable(repr(cause))}",
                remedy="report this to the transport plugin's authors",
            )
            found[server] = Unresolved(server=server, problem=problem, seconds=0.0)
            continue
        if targets:
            own[server] = targets
    names = [server for server in wanted if server not in found and server not in own]
    found |= _by_resolver(names, canonical=canonical, setting=setting, bounds=bounds)
    found |= _by_transport(own, bounds=bounds)
    return [found[server] for server in wanted]


def _by_transport(own: Mapping[Server, Targets], *, bounds: Bounds) -> Mapping[Server, Lookup]:
    """The addresses of the transport's targets; those that are names are looked up, each once."""
    names = {each for targets in own.values() for each in targets if isinstance(each, HostTarget)}
    servers = {each: Server(each.host, each.port) for each in names}
    lookups = _by_resolver(list(servers.values()), canonical=False, setting=TRANSPORT_SETTINGS, bounds=bounds)
    found: dict[Server, Lookup] = {}
    for server, targets in own.items():
        addresses: list[Address] = []
        for each in targets:
            if isinstance(each, Target):
                addresses.append(Address(host=server.host, target=each))
                continue
            lookup = lookups[servers[each]]
            if isinstance(lookup, Resolved):
                addresses += [Address(host=server.host, target=address.target) for address in lookup.addresses]
            else:
                found[server] = attrs.evolve(lookup, server=server)
        if addresses:
            found[server] = Resolved(server=server, addresses=addresses, own=True, seconds=0.0)
    return found


def _by_resolver(
    servers: Sequence[Server], *, canonical: bool, setting: str, bounds: Bounds
) -> Mapping[Server, Lookup]:
    started, deadline = bounds.clock(), bounds.deadline()
    answered = threading.Event()
    resolver = Resolver(answered.set)
    found: dict[Server, Lookup] = {}
    while len(found) < len(servers):
        answered.clear()
        for server in servers:
            if server not in found:
                answer = _answer(resolver, server, canonical=canonical, setting=setting)
                seconds = bounds.clock() - started
                if isinstance(answer, Problem):
                    found[server] = Unresolved(server=server, problem=answer, seconds=seconds)
                elif answer is not None:
                    found[server] = Resolved(server=server, addresses=answer, own=False, seconds=seconds)
        remaining = deadline - bounds.clock()
        if len(found) < len(servers) and (remaining <= 0 or not answered.wait(remaining)):
            break
    seconds = bounds.clock() - started
    late = Problem(
        f"the name could not be looked up within {seconds:.1f} s",
        f"check this machine's name servers, and the name in {setting}",
    )
    return {server: Unresolved(server=server, problem=late, seconds=seconds) for server in servers} | found


def _answer(resolver: Resolver, server: Server, *, canonical: bool, setting: str) -> Sequence[Address] | Problem | None:
    try:
        return resolver.resolve(server.host, server.port, canonical=canonical)
    except NameResolutionError as error:
        reason = getattr(error.__cause__, "strerror", None) or error.__cause__
        if getattr(error.__cause__, "errno", None) == socket.EAI_AGAIN:  # of name servers, also of those out of reach
            return Problem(
                f"the name {quoted(server.host)} could not be looked up ({printable(str(reason))})",
                f"check this machine's name servers, and the name in {setting}",
            )
        return Problem(
            f"the name {quoted(server.host)} has no address here ({printable(str(reason))})",
            f"correct the name in {setting}, or make it known to this machine's DNS",
        )
