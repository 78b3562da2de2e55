"""Optional abilities of plugins: how the core finds them, and the one that every kind may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, TypeGuard, TypeVar

from ottla.errors import InvalidPluginError
from ottla.errors.quoting import class_name

_Ability = TypeVar("_Ability")


# A Callable, because mypy refuses a protocol for type[...].
def supports(plugin: object, ability: Callable[..., _Ability]) -> TypeGuard[_Ability]:
    """Return whether a plugin's object has an optional ability, one of the protocols `Supports...`.

    An attribute that is None counts as missing, and so does the protocol's own method, which a subclass of the protocol
    inherits if it defines none. Raises InvalidPluginError for a method that cannot be called.
    """
    for name, is_method in _attributes(ability).items():
        value = getattr(plugin, name, None)
        if value is None or (is_method and getattr(type(plugin), name, None) is vars(ability)[name]):
            return False
        if is_method and not callable(value):
            raise InvalidPluginError(
                f"{name} of {class_name(plugin)} is of type {type(value).__name__}, and cannot be called; it must be "
                "a method or None"
            )
    return True


@cache
def _attributes(protocol: Any) -> Mapping[str, bool]:
    """The attributes of a protocol, and whether each is a method."""
    declared = vars(protocol).copy()  # another thread may add to a class's dictionary what Python keeps there
    methods = [name for name, value in declared.items() if callable(value) and not name.startswith("_")]
    return {**dict.fromkeys(protocol.__annotations__, False), **dict.fromkeys(methods, True)}


class SupportsClose(Protocol):
    """An optional ability of plugins of every kind: background work, files or connections that end with the producer.

    Reporters have it always. Layers of transports have a `close` of another meaning, for their connection.
    """

    def close(self) -> None:
        """End background work immediately. Called once, after the last use; its exceptions are logged.

        Plugins are closed in the reverse order of their creation: reporters, interceptors, key serializer, compressor,
        partitioner, mechanism, the transport of `connection.via`, value serializer, encoder, the transport of
        `security.protocol`, config providers. If a producer cannot be made, the plugins that were made are closed.
        """
