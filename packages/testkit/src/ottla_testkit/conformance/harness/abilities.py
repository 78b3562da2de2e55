"""Optional abilities whose names are misspelt, which the core does not find, and methods that it refuses."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.interfaces import Authenticator, SupportsClose, SupportsRefused
from ottla.plugins.registry import KINDS
from ottla.plugins.registry.signatures import wrong_signatures
from ottla_testkit.conformance.harness.checked_layer import check, fail

_ABILITIES: Final[Mapping[type, Sequence[type]]] = {
    **{kind.protocol: kind.abilities for kind in KINDS.values()},
    Authenticator: (SupportsRefused,),  # a mechanism makes these, one for each connection
}
"""The optional abilities by protocol."""
_NEAR: Final = 0.85


def check_spelling(plugin: object, contract: type) -> None:
    """Fail for a public attribute that is nearly the name of an optional ability which the plugin lacks."""
    abilities = (*_ABILITIES.get(contract, ()), SupportsClose)
    methods, values = _names(abilities)
    known = methods | values | set(vars(contract))
    for name in dir(plugin):
        if name.startswith("_") or name in known:
            continue
        is_method = callable(inspect.getattr_static(plugin, name)) or _is_wrapped(plugin, name)
        right = _nearest(name, methods if is_method else values)
        if right is not None and not _defines(plugin, right, abilities):
            fail(
                f"{type(plugin).__name__} has `{name}`, which the core does not use; is it meant to be `{right}`? A "
                "name that begins with an underscore is the plugin's own"
            )


def check_methods(plugin: object, contract: type) -> None:
    """Fail for a method, required or optional, that the core refuses because of its arguments, `async` or `yield`."""
    for kind in KINDS.values():
        if kind.protocol is contract:
            wrong = wrong_signatures(plugin, kind, contract)
            check(not wrong, f"the core refuses {type(plugin).__name__}: {'; '.join(wrong)}")


def _defines(plugin: object, name: str, abilities: Iterable[type]) -> bool:
    """Return whether the plugin has the attribute itself, and does not only inherit it from the ability's protocol."""
    of_class = getattr(type(plugin), name, None)
    inherited = of_class is not None and any(of_class is vars(ability).get(name) for ability in abilities)
    return hasattr(plugin, name) and not inherited


def _names(abilities: Iterable[type]) -> tuple[set[str], set[str]]:
    """Return the methods and the other attributes of these abilities."""
    methods: set[str] = set()
    values: set[str] = set()
    for ability in abilities:
        methods |= {name for name, one in vars(ability).items() if inspect.isfunction(one) and name[0] != "_"}
        values |= set(vars(ability).get("__annotations__", ()))
    return methods, values


def _is_wrapped(plugin: object, name: str) -> bool:
    return isinstance(inspect.getattr_static(plugin, name), staticmethod | classmethod)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs least, case and underscores apart."""
    plain = {_plain(one): one for one in known}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_NEAR)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
