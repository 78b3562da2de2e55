"""Name resolution of a simulated network, in place of the system's resolver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.errors import NameResolutionError
from ottla.interfaces import Target
from ottla.network.selector_interface import Address
from ottla_testkit.simulation.schedule import Schedule


class SimulatedNames:
    """Every name has one address, found immediately unless the test delays it; then *wake* is called."""

    def __init__(self, schedule: Schedule, *, wake: Callable[[], object]) -> None:
        self.unresolvable: set[str] = set()
        """Names without an address."""
        self.slow: set[str] = set()
        """Names that are not resolved while they are in this set."""
        self.seconds: dict[str, float] = {}
        """Seconds that these names take to resolve."""
        self._schedule = schedule
        self._wake = wake
        self._found: dict[str, bool] = {}  # whether it is resolved

    def resolve(self, host: str) -> Sequence[Address] | None:
        """Return the addresses of a name, or None while it is not resolved. Raises NameResolutionError."""
        if host in self.slow or not self._resolved(host):
            return None
        if host in self.unresolvable:
            raise NameResolutionError(f"the name {host!r} has no address", final=True)
        return [Address(host=host, target=Target(0, host))]

    def _resolved(self, host: str) -> bool:
        seconds = self.seconds.get(host, 0.0)
        if not seconds:
            return True
        if host not in self._found:
            self._found[host] = False
            self._schedule.later(seconds, lambda: self._find(host))
        if self._found[host]:
            del self._found[host]  # as with a resolver: the next call asks again
            return True
        return False

    def _find(self, host: str) -> None:
        self._found[host] = True
        self._wake()
