"""The keys of a plugin, and the values that its hook gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConfigKey(ValueMethods):
    """One configuration key that a plugin understands, declared so that the core can check it.

    `type` converts the user's setting into the value that the plugin reads; it raises ValueError or TypeError.
    The value of a `secret` key never reaches a log, an error or a repr; a type that returns a `Secret` keeps it out of
    tracebacks with local variables, too.
    The value of a key that `rotates` may be a function without arguments, which the plugin calls whenever it needs the
    value. `type` gets such a function, too, for a value with references of `config.providers`.
    """

    name: str
    type: Callable[[Any], Any]
    default: Any
    meaning: str
    secret: bool = False
    rotates: bool = False


def boolean(written: Any) -> bool:
    """The type of keys that are true or false: Python's values, or these words in any case. Raises ValueError."""
    word = str(written).strip().lower()
    if word not in ("true", "false"):
        raise ValueError("it must be true or false")
    return word == "true"


PluginConfig: TypeAlias = Mapping[str, Any]
"""The `config` argument of a hook: the keys that its plugin declared, checked, defaults filled in."""
