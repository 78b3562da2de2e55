"""The core's keys, each checked by itself; `rules` checks their combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import attrs

from ottla.config.config_def import OPTIONS
from ottla.config.refused_keys import REFUSED
from ottla.config.value_types import ValueType
from ottla.config.values import PluginValues

HARMLESS: Final = frozenset((*OPTIONS, *REFUSED))
"""The keys of the core: their values are not secret."""


def as_written(settings: Mapping[str, Any]) -> PluginValues:
    """Settings before they are checked; all keys but the core's may be secrets, even misspelt ones."""
    return PluginValues(settings, secrets=[key for key in settings if key not in HARMLESS], certain=False)


@attrs.define(kw_only=True, repr=False)
class CoreSettings:
    """The values of the core's keys; no repr shows them.

    `raw` hides the values of all other keys. `values` are in Kafka's units, with the default for an invalid value.
    `provided` keys have values that a config provider read: perhaps secrets of others, so that no problem quotes them.
    """

    raw: Mapping[str, object]
    provided: Set[str] = frozenset()
    values: dict[str, Any] = attrs.Factory(dict)
    read: set[str] = attrs.Factory(set)
    wrong: set[str] = attrs.Factory(set)
    adjusted: set[str] = attrs.Factory(set)
    problems: list[str] = attrs.Factory(list)
    notes: list[str] = attrs.Factory(list)
    reasons: dict[str, str] = attrs.Factory(dict)
    """Why keys that the user did not set have another value than their default."""

    def given(self, key: str) -> bool:
        """Return whether the user set this key."""
        return self.raw.get(key) is not None

    def adjust(self, key: str, value: Any, *, because: str) -> None:
        """Change the value of a key that the user did not set, because another key requires it."""
        self.notes.append(f"{key} is {value} instead of {self.values[key]}, because {because}")
        self.values[key] = value
        self.reasons[key] = because
        self.adjusted.add(key)


def read_core(raw: Mapping[str, object], *, provided: Set[str] = frozenset()) -> CoreSettings:
    """Read every key of the core, and collect the problems of each."""
    core = CoreSettings(raw=raw, provided=provided)
    for option in OPTIONS.values():
        core.values[option.key] = _value(core, option.key, option.type, default=option.default)
    _require(core, "bootstrap.servers", "required; name at least one server as host:port")
    _refuse(core)
    return core


def _value(core: CoreSettings, key: str, value_type: ValueType, *, default: Any) -> Any:
    core.read.add(key)
    if not core.given(key):
        return default
    try:
        return value_type.parse(core.raw[key])
    except ValueError as error:
        core.problems += [f"{key}: {reason}" for reason in _reasons(core, key, value_type, error)]
        core.wrong.add(key)
        return default


def _reasons(core: CoreSettings, key: str, value_type: ValueType, error: ValueError) -> Sequence[str]:
    return [not_quoted(f"not {value_type.allowed}{value_type.limits}")] if key in core.provided else error.args


def not_quoted(why: str) -> str:
    """The problem with a value that a config provider read."""
    return f"the value that a config provider read (not shown) is {why}"


def _require(core: CoreSettings, key: str, reason: str) -> None:
    if not core.given(key):
        core.problems.append(f"{key}: {reason}")


def _refuse(core: CoreSettings) -> None:
    for key, refusal in REFUSED.items():
        core.read.add(key)
        problem = refusal.problem(core.raw[key]) if core.given(key) else None
        if problem is not None:
            core.problems.append(f"{key}: {not_quoted('refused')}" if key in core.provided else problem)
