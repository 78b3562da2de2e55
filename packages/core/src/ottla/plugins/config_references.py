"""References in settings, such as `${file:/run/secrets/kafka:password}`, and their config providers (KIP-297).

Off unless `config.providers` names a provider, and then only for references to the named ones. All are resolved once,
when a producer is made; passwords again at each login.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from ottla.config import ConfigDraft, PluginValues, allow_lists
from ottla.config.plugin_choice import GivenPlugin, is_data
from ottla.config.reference import Reference
from ottla.config.value_types import items
from ottla.errors import ConfigError, ConnectionFailedError, OttlaError, PluginError, printable, with_article
from ottla.errors.plugin_origin import faults, origin_of, text_of
from ottla.errors.robust_logger import robust_logger
from ottla.errors.secret import Secret, revealed
from ottla.interfaces import ConfigProvider
from ottla.plugins.calls import CLOSE_SECONDS
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import EntryInfo, Plugin, Registry, given_plugin

logger = robust_logger(__name__)

PROVIDERS: Final = "config.providers"
ALLOWED: Final = "OTTLA_ALLOWED_CONFIG_PROVIDERS"
"""The environment variable with the allowed plugins, separated by commas.

The user who runs the program sets it. Java has the system property org.apache.kafka.automatic.config.providers for
this.
"""

_REFERENCE: Final = re.compile(r"\$\{([^:{}]+):(?:([^{}]*):)?([^{}:]+)\}")
_JAVAS: Final = {"FileConfigProvider": "file", "DirectoryConfigProvider": "directory", "EnvVarConfigProvider": "env"}
_OURS: Final = frozenset(_JAVAS.values())

_Place: TypeAlias = tuple[str, str]
"""A provider's name in `config.providers`, and a path."""

_Key: TypeAlias = "tuple[_Place, str]"
"""What a reference refers to: a key at a place."""


def read_draft(
    settings: Mapping[str, object],
    keywords: Mapping[str, object] | None = None,
    *,
    registry: Registry,
    objects: PluginObjects | None = None,
) -> ConfigDraft:
    """A draft of the settings, with references replaced by values.

    *objects* makes the config providers, which passwords need at each login, and closes them; without it, they stay
    open.
    """
    made_by = objects or PluginObjects()

    def resolve(merged: dict[str, object], problems: list[str]) -> None:
        _resolve(merged, registry, made_by, problems)

    try:
        return ConfigDraft.read(settings, keywords, resolve=resolve)
    except BaseException:
        made_by.close(CLOSE_SECONDS)
        raise


def _resolve(merged: dict[str, object], registry: Registry, objects: PluginObjects, problems: list[str]) -> None:
    if merged.get(PROVIDERS) is None:
        _warn_of_unresolved(merged, ())
        return
    providers = _providers(merged, registry, objects, problems)
    wanted = {key: text for key, value in merged.items() if (text := _WrittenValue.of(value, providers)) is not None}
    if not problems:
        _warn_of_unresolved(merged, providers)
    values, missing = _ask(providers, wanted.values())
    for key, text in wanted.items():
        problems += [f"{key}: {missing[each]}" for each in text.references if each in missing]
        merged[key] = Secret(text.resolved(key, providers, values))


def _warn_of_unresolved(merged: Mapping[str, object], providers: Collection[str]) -> None:
    """Warn of references that are used as text, because the settings do not name their provider.

    If they name none at all, only a reference to a provider of ours is meant as one; it is named. Other names may be
    a part of a secret.
    """
    for key, value in merged.items():
        written = revealed(value)
        if not isinstance(written, str) or "${" not in written:
            continue
        unnamed = {match[1] for match in _REFERENCE.finditer(written)} - set(providers)
        for name in sorted(unnamed & _OURS):
            logger.warning(
                "%s has a reference ${%s:...}, which is used as text, because %s does not name %r",
                printable(key),
                name,
                PROVIDERS,
                name,
            )
        if providers and unnamed and not unnamed & _OURS:
            logger.warning(
                "%s has a reference to a provider that %s does not name, which is used as text; it names %s",
                printable(key),
                PROVIDERS,
                ", ".join(map(printable, providers)),
            )


@attrs.frozen(repr=False)
class _WrittenValue:
    """A value with references; each one is a place and a key there."""

    written: Secret[str]
    references: tuple[_Key, ...]

    @classmethod
    def of(cls, value: object, providers: Mapping[str, ConfigProvider]) -> _WrittenValue | None:
        """The references in a value; None if it has none to these providers."""
        written = revealed(value)
        if not isinstance(written, str) or "${" not in written:
            return None
        references = map(_read, _REFERENCE.finditer(written))
        found = tuple((place, key) for place, key in references if place[0] in providers)
        return cls(Secret(written), found) if found else None

    def resolved(
        self, key: str, providers: Mapping[str, ConfigProvider], values: Mapping[_Key, Secret[str]]
    ) -> Reference:
        """The text with its values, as a reference that can be read again."""

        def again() -> str:
            newest, missing = _ask(providers, [self])
            if missing:
                raise ConnectionFailedError(f"{key} cannot be read again: {'; '.join(missing.values())}")
            return self._with(newest)

        return Reference(first=Secret(self._with(values)), again=again)

    def _with(self, values: Mapping[_Key, Secret[str]]) -> str:
        def value(match: re.Match[str]) -> str:
            found = values.get(_read(match))
            return match[0] if found is None else found.reveal()

        return _REFERENCE.sub(value, self.written.reveal())


def _read(match: re.Match[str]) -> _Key:
    return (match[1], match[2] or ""), match[3]


def _ask(
    providers: Mapping[str, ConfigProvider], texts: Iterable[_WrittenValue]
) -> tuple[Mapping[_Key, Secret[str]], Mapping[_Key, str]]:
    """Two mappings by reference: the values, and the reasons for missing ones. May block, as providers do.

    A provider is called once for all keys of a path.
    """
    keys: dict[_Place, set[str]] = {}
    for text in texts:
        for place, key in text.references:
            keys.setdefault(place, set()).add(key)
    values: dict[_Key, Secret[str]] = {}
    missing: dict[_Key, str] = {}
    for place, wanted in keys.items():
        found = _ask_for(providers[place[0]], place[1], wanted)
        for key in wanted:
            reference = (place, key)
            if isinstance(found, str):
                missing[reference] = f"{_shown(reference)}: {found}"
            elif key not in found.reveal():
                missing[reference] = f"{_shown(reference)} has no value; is the name right, and may it be read?"
            elif not isinstance(found.reveal()[key], str):
                kind = with_article(type(found.reveal()[key]).__name__)
                missing[reference] = f"{_shown(reference)}: the {_name(providers[place[0]])} returned {kind}, not a str"
            else:
                values[reference] = Secret(found.reveal()[key])
    return values, missing


def _ask_for(provider: ConfigProvider, path: str, keys: set[str]) -> Secret[Mapping[str, Any]] | str:
    """The provider's values by key, without those that are None, or the reason, as text, why they could not be read.

    Blocks as long as the provider does.
    """
    try:
        given = Secret(provider.get(path, frozenset(keys)))
        if not isinstance(given.reveal(), Mapping):
            return f"the {_name(provider)} returned {with_article(type(given.reveal()).__name__)}, not a mapping"
        return Secret({key: value for key in keys if (value := given.reveal().get(key)) is not None})
    except ConfigError as error:
        return "; ".join(error.problems)
    except OttlaError as error:
        return str(error)
    except faults() as error:  # its message may have a secret
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"the {_name(provider)} raised {type(error).__name__} ({place.filename}:{place.lineno})"


def _name(provider: ConfigProvider) -> str:
    return origin_of("config_provider", provider).name


def _shown(reference: _Key) -> str:
    (provider, path), key = reference
    return printable("${" + ":".join(part for part in (provider, path, key) if part) + "}")


# Providers


def _providers(
    merged: dict[str, object], registry: Registry, objects: PluginObjects, problems: list[str]
) -> Mapping[str, ConfigProvider]:
    """Make the providers that `config.providers` names, and return them by name.

    Removes their keys from *merged*, and adds what is wrong with them to *problems*.
    """
    below = {key: merged.pop(key) for key in list(merged) if key.startswith(f"{PROVIDERS}.")}
    names = [str(name) for name in items().parse(revealed(merged[PROVIDERS]))]
    made: dict[str, ConfigProvider] = {}
    for name in names:
        own = f"{PROVIDERS}.{name}."
        mine = {key.removeprefix(own): below.pop(key) for key in list(below) if key.startswith(own)}
        try:
            made[name] = _made(name, mine, registry, objects)
        except ConfigError as error:
            problems += error.problems
        except PluginError as error:
            problems.append(f"{PROVIDERS}.{printable(name)}.class: {error}")
    problems += [f"{printable(key)}: no provider of this name is in {PROVIDERS}" for key in below]
    return made


def _made(name: str, settings: dict[str, Any], registry: Registry, objects: PluginObjects) -> ConfigProvider:
    written = revealed(settings.pop("class", None)) or name
    if isinstance(written, str) or is_data(written):
        info = registry.find("config_provider", _plugin_name(name, written))
        _check_allowed(info, registry)
        plugin = registry.load(info)
    else:  # the program's own object, which no author of settings can choose
        plugin = given_plugin("config_provider", GivenPlugin(written))
    parameters = {key.removeprefix("param."): revealed(value) for key, value in settings.items()}
    unknown_keys = [key for key in settings if not key.startswith("param.")]
    values, problems = _parameters(plugin, parameters, name)
    problems += [
        f"{printable(f'{PROVIDERS}.{name}.{key}')} is not known; there are class and param.PARAMETER"
        for key in unknown_keys
    ]
    if problems:
        raise ConfigError(problems)
    provider: ConfigProvider = objects.create(plugin, values)
    return provider


def _plugin_name(name: str, written: object) -> str:
    """The plugin's name, also for the names of Java's classes."""
    if not isinstance(written, str):
        raise ConfigError(
            [f"{PROVIDERS}.{printable(name)}.class: write the name of a plugin of the group ottla.config_providers"]
        )
    package, _, last = written.strip().rpartition(".")
    if ":" in written:
        return written
    if last in _JAVAS:
        return _JAVAS[last]
    if package:
        raise ConfigError(
            [
                f"{PROVIDERS}.{printable(name)}.class: Java classes cannot be loaded. These names of Java classes have "
                f"a plugin: {', '.join(_JAVAS)}. For any other, write the name of a plugin of the group "
                "ottla.config_providers"
            ]
        )
    return last


def _check_allowed(info: EntryInfo, registry: Registry) -> None:
    """Check what a listed name stands for: another package may have a plugin with the same name."""
    listed = os.environ.get(ALLOWED)
    if listed is None and not allow_lists.from_others():
        return
    if not any(_selects(name, info, registry) for name in (listed or "").split(",")):
        name = registry.chosen_by(info) or info.name
        raise ConfigError(
            [
                f"{PROVIDERS}: {name} may not be used; the user who runs the program can allow it with "
                f"{ALLOWED}={name} in the environment"
            ]
        )


def _selects(name: str, info: EntryInfo, registry: Registry) -> bool:
    try:
        return registry.find("config_provider", name) == info
    except PluginError:
        return False


def _parameters(plugin: Plugin, written: Mapping[str, Any], name: str) -> tuple[PluginValues, list[str]]:
    """The values of the plugin's keys, and the problems with them."""
    keys = {key.name: key for key in plugin.config_keys()}
    values = {key.name: key.default for key in keys.values()}
    problems = [
        f"{printable(f'{PROVIDERS}.{name}.param.{key}')} is not known to {plugin}; it knows {', '.join(keys) or 'none'}"
        for key in written
        if key not in keys
    ]
    for key, raw in written.items():
        if key in keys and raw is not None:
            try:
                values[key] = keys[key].type(raw)
            except faults() as error:
                why = (
                    ""
                    if keys[key].secret or not isinstance(error, ValueError | TypeError)
                    else f": {printable(text_of(error))}"
                )
                problems.append(f"{PROVIDERS}.{printable(name)}.param.{key} is not accepted{why}; {keys[key].meaning}")
    return PluginValues(values, secrets=[key.name for key in keys.values() if key.secret]), problems
