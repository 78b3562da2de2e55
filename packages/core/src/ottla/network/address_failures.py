"""Why the addresses of one name failed: if the broker refuses us at the end, the error names all of them."""

from __future__ import annotations

import copy

from ottla.errors import OttlaError, printable
from ottla.errors.outages import SHOWN
from ottla.network.selector_interface import Address


class AddressFailures:
    """The failures of one round through the addresses of a name. For the I/O thread."""

    def __init__(self) -> None:
        self._addresses: dict[str, list[str]] = {}  # by the text of their error

    def note(self, address: Address | None, error: OttlaError) -> None:
        """Note the failure of an address; None: the name was not resolved."""
        if address is not None:
            self._addresses.setdefault(str(error), []).append(shown(address))

    def clear(self) -> None:
        """Begin another round."""
        self._addresses.clear()

    def named(self, error: OttlaError) -> OttlaError:
        """The error of one address, with the other addresses and their errors, if there are others."""
        text = str(error)
        alike = self._addresses.get(text, [])
        others = [(found, addresses) for found, addresses in self._addresses.items() if found != text]
        if len(alike) + len(others) < 2:
            return error
        text += f"; so at {_some(alike)}" if alike else ""
        for found, addresses in others[:SHOWN]:
            text += f"; at {_some(addresses)}: {found}"
        if len(others) > SHOWN:
            text += f"; and {len(others) - SHOWN} more errors at other addresses"
        complete = copy.copy(error)
        complete.args = (text,)
        complete.__cause__ = error
        return complete


def _some(addresses: list[str]) -> str:
    return ", ".join(addresses[:SHOWN]) + (", ..." if len(addresses) > SHOWN else "")


def shown(address: Address) -> str:
    """The address itself, or a path, for errors."""
    where = address.target.sockaddr
    return printable(str(where[0] if isinstance(where, tuple) else where))
