"""The addresses of a transport's targets: those that are names are resolved again for each attempt.

Names are resolved on threads, like the names of brokers; one result serves all brokers that wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from ottla.config.hosts import with_port
from ottla.errors import NameResolutionError, printable, quoted
from ottla.interfaces import HostTarget, Target
from ottla.network.selector.resolver import Resolver

Targets: TypeAlias = Sequence[Target | HostTarget]

_Found: TypeAlias = Sequence[Target] | NameResolutionError


class TargetResolver:
    """Resolves the targets of each broker for one connection attempt at a time. For the I/O thread."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._attempts: dict[tuple[str, int], _Attempt] = {}

    def pending(self, host: str, port: int) -> Targets | None:
        """The targets of this broker that are being resolved, or None if there are none."""
        attempt = self._attempts.get((host, port))
        return None if attempt is None else attempt.targets

    def resolve(self, host: str, port: int, targets: Targets) -> Sequence[Target] | None:
        """The addresses to connect to for this broker, in the targets' order, or None while a lookup is running.

        Names that cannot be resolved are left out. Raises NameResolutionError if no target has an address.
        """
        attempt = self._attempts.setdefault((host, port), _Attempt(targets))
        for name in attempt.missing():
            if (found := self._look_up(name)) is not None:
                for each in self._attempts.values():
                    each.found[name] = found
        if attempt.missing():
            return None
        del self._attempts[host, port]
        return attempt.addresses()

    def _look_up(self, name: HostTarget) -> _Found | None:
        try:
            found = self._resolver.resolve(name.host, name.port, canonical=False)
        except NameResolutionError as error:
            return _unresolved(name, error)
        return None if found is None else [address.target for address in found]


@attrs.define(eq=False, repr=False)
class _Attempt:
    """The targets of one broker, and the results of the lookups so far."""

    targets: Targets
    found: dict[HostTarget, _Found] = attrs.Factory(dict)

    def missing(self) -> Sequence[HostTarget]:
        return [each for each in self.targets if isinstance(each, HostTarget) and each not in self.found]

    def addresses(self) -> Sequence[Target]:
        addresses: list[Target] = []
        errors: list[NameResolutionError] = []
        for each in self.targets:
            match each if isinstance(each, Target) else self.found[each]:
                case Target() as target:
                    addresses.append(target)
                case NameResolutionError() as error:
                    errors.append(error)
                case found:
                    addresses += found
        if errors and not addresses:
            raise errors[0]
        return addresses


def _unresolved(name: HostTarget, error: NameResolutionError) -> NameResolutionError:
    """Replace the error of the resolver, whose remedy is about the names of brokers."""
    reason = printable(str(error.__cause__ or error))
    found = NameResolutionError(
        f"the transport connects to {quoted(with_port(name.host, name.port))}, and that name has no address: {reason}; "
        "check the transport's own settings",
        final=error.final,
    )
    found.__cause__ = error.__cause__
    return found
