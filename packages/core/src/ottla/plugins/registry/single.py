"""A single plugin, made as a producer makes it, and the reason if it cannot be made.

For tools that inspect plugins: `ottla plugins`, and the checks of the testkit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, PluginError, PluginNotFoundError
from ottla.errors.plugin_origin import described
from ottla.interfaces import PluginContext
from ottla.plugins.attribute_checks import checked_compressor, checked_encoder, checked_mechanism, first_columns
from ottla.plugins.calls import CLOSE_SECONDS, PluginCloser
from ottla.plugins.registry.installed import EntryInfo
from ottla.plugins.registry.lookup import Registry, check_released_together
from ottla.plugins.registry.plugin import Plugin

_NO_CLUSTER: Final = {"bootstrap.servers": "localhost:9092"}
_PLAIN: Final = "plaintext"
_PICKED: Final = frozenset({_PLAIN, "ssl"})
"""The transports for `security.protocol`; every other one is for `connection.via`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginCondition:
    """An installed plugin, and whether it can be used.

    `problem` is the reason why it cannot be used, None if it can; required settings that are missing are no problem.
    `chosen_by` is the name that selects it in a setting, or None if no name does. `priority` is None, except for
    encoders that a producer may use by default.
    """

    info: EntryInfo
    chosen_by: str | None
    problem: str | None = None
    priority: int | None = None


def default_encoder(conditions: Iterable[PluginCondition]) -> PluginCondition | None:
    """The encoder of producers without `record.encoder`: of those that can be used, the one of highest priority."""
    return max(
        (each for each in conditions if each.problem is None and each.priority is not None),
        key=lambda each: each.priority or 0,
        default=None,
    )


def make_alone(
    plugin: Plugin,
    settings: Mapping[str, object],
    *,
    registry: Registry,
    context: PluginContext | None = None,
    is_key: bool = False,
) -> Any:
    """The result of the plugin's hook for these settings; makes no other part of a producer, and closes nothing.

    A transport for `connection.via` gets the plaintext one as its inner one, if that is installed. Without a *context*
    there is no client id. *is_key*: a serializer is for keys. Raises ConfigError or PluginError, like `Producer`.
    """
    draft = ConfigDraft.read({**_NO_CLUSTER, **settings})
    config = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish(other_keys=registry.built_in_keys, likely_owner=registry.likely_owner)
    return plugin.create(config, context=context, **_extra(plugin, registry, is_key=is_key))


def plugin_condition(info: EntryInfo, *, registry: Registry, timeout: float) -> PluginCondition:
    """Load this plugin, and try to make it without settings.

    Another thread does this, and this function waits for it at most *timeout* seconds. So a KeyboardInterrupt here
    comes from the user, never from the plugin.
    """
    chosen_by = registry.chosen_by(info)
    tried: list[tuple[str | None, int | None]] = []
    thread = threading.Thread(
        target=lambda: tried.append(_try(info, registry)), name="ottla-plugin-condition", daemon=True
    )
    thread.start()
    thread.join(timeout)
    if not tried:
        tried = [(f"{info} cannot be used: its import or its hook has not ended after {timeout:g} s", None)]
    [(problem, priority)] = tried
    if chosen_by is None and problem is None:
        problem = f"{info} cannot be chosen: another plugin of {info.distribution} has this name"
    return PluginCondition(info=info, chosen_by=chosen_by, problem=problem, priority=priority)


def _try(info: EntryInfo, registry: Registry) -> tuple[str | None, int | None]:
    """The problem and the priority of a `PluginCondition`."""
    released_with_core = info.kind.name == "encoder" and info.built_in
    try:
        if released_with_core:
            check_released_together(info)
        made = make_alone(registry.load(info), {}, registry=registry)
        _check(made, info)
        if info.kind.name != "reporter":  # it was not started
            closer = PluginCloser()
            closer.add(str(info), made)
            closer.close(CLOSE_SECONDS)
    except PluginError as error:
        return str(error), None
    except ConfigError:
        # It reports missing settings, so it works.
        return None, None
    except BaseException as error:
        return f"{info} cannot be used: {described(error)}", None
    return None, made.priority if released_with_core else None


def _check(made: Any, info: EntryInfo) -> None:
    """Raise the InvalidPluginError that a producer would raise for values that the object has."""
    match info.kind.name:
        case "compressor":
            checked_compressor(made, name=info.name)
        case "authenticator":
            checked_mechanism(made)
        case "encoder":
            first_columns(checked_encoder(made))
        case _:
            pass


def _extra(plugin: Plugin, registry: Registry, *, is_key: bool) -> Mapping[str, Any]:
    """The other arguments of the plugin's hook."""
    match plugin.info.kind.name:
        case "transport":
            info = plugin.info
            picked = isinstance(info, EntryInfo) and (registry.chosen_by(info) or "").lower() in _PICKED
            return {"inner": None if picked else _plain_transport(registry)}
        case "serializer":
            return {"is_key": is_key}
        case _:
            return {}


def _plain_transport(registry: Registry) -> Any:
    try:
        return registry.plugin("transport", _PLAIN).create({}, inner=None)
    except PluginNotFoundError:
        return None
