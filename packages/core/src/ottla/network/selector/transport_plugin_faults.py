"""Faults of a transport plugin: wrong results of its methods, and errors that name the plugin and its package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.errors import ConnectionFailedError
from ottla.errors.plugin_origin import PluginOrigin
from ottla.interfaces import HostTarget, Interest, Target, TransportLayer, supports


class WrongResultError(Exception):
    """A method of a transport or of its layer returned what its protocol does not allow."""


class TransportPluginFaultError(ConnectionFailedError):
    """A fault of the transport ended the connection; neither the network nor the broker is the cause."""

    @classmethod
    def on(cls, peer: str, origin: PluginOrigin, reason: str) -> TransportPluginFaultError:
        """The error for a fault on the connection to *peer*."""
        return cls(f"the {origin.name} failed on the connection to {peer}: {reason}; {origin.remedy}")


def wrong_count(method: str, count: object, max_bytes: int) -> WrongResultError:
    """The error for a number of bytes that `write` or `read_into` cannot have moved."""
    return WrongResultError(f"{method} returned {_shown(count)}, which is not a number of bytes from 0 to {max_bytes}")


def check_interest(interest: object) -> None:
    """Raise WrongResultError if a layer's `interest` did not return an Interest."""
    if type(interest) is not Interest:
        raise WrongResultError(f"interest returned {_shown(interest)}, which is not an ottla.interfaces.Interest")


def check_layer(layer: object) -> None:
    """Raise WrongResultError if a transport's `open` returned no layer."""
    # Not `isinstance`: since Python 3.12 it does not see what a layer passes on with `__getattr__`.
    if not supports(layer, TransportLayer):
        raise WrongResultError(f"open returned {_shown(layer)}, which is not an ottla.interfaces.TransportLayer")


def check_finished(method: str, finished: object) -> bool:
    """Return whether `handshake` or `flush` has finished. Raises WrongResultError for neither True nor False.

    None is neither: a method that forgets its `return True` would wait for ever, and the broker would be blamed.
    """
    if isinstance(finished, int):
        return bool(finished)
    shown = "None" if finished is None else _shown(finished)
    raise WrongResultError(f"{method} returned {shown}, which is neither True nor False")


def check_cipher(cipher: Any) -> tuple[str, str] | None:
    """Return what a layer's `cipher` returned. Raises WrongResultError for anything but two names or None."""
    if cipher is None or (type(cipher) is tuple and [type(name) for name in cipher] == [str, str]):
        return cipher
    raise WrongResultError(f"cipher returned {_shown(cipher)}, which is not a tuple of two names or None")


def check_targets(targets: Any) -> None:
    """Raise WrongResultError if a transport's `targets` returned no targets."""
    if targets is None:
        return
    if not isinstance(targets, Sequence) or isinstance(targets, str | bytes):
        raise WrongResultError(f"targets returned {_shown(targets)}, which is not a sequence of targets")
    for each in targets:
        if not isinstance(each, Target | HostTarget):
            raise WrongResultError(
                f"targets returned a sequence with an item of type {type(each).__name__}; each item must be a Target "
                "or a HostTarget"
            )
        if isinstance(each, HostTarget) and not (type(each.host) is str and isinstance(each.port, int)):
            raise WrongResultError(
                f"targets returned a HostTarget of {type(each.host).__name__} and {type(each.port).__name__}; it takes "
                "a host as str and a port as int"
            )
        if isinstance(each, Target) and not isinstance(each.family, int):
            raise WrongResultError(
                f"targets returned a Target whose family is of type {type(each.family).__name__}; it is one of "
                "socket.AF_INET and its like"
            )


def _shown(value: object) -> str:
    return f"{value} ({type(value).__name__})" if isinstance(value, int) else type(value).__name__
