"""A configuration under construction: the core reads its keys, plugins claim theirs, then everything is checked.

The configuration determines which plugins are used, so their keys are checked after the core's. Problems are collected
here; `finish` raises one error with all of them, or logs the unused keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ottla.config.config_def import OPTIONS, build
from ottla.config.core_settings import HARMLESS, CoreSettings, not_quoted, read_core
from ottla.config.in_force import DEFAULT, GIVEN, SettingInForce, SettingsInForce, hidden, shown
from ottla.config.java_keys import JAVA_KEYS
from ottla.config.key_names import add_misnamed, merge, of_another_client, sources_of, unknown
from ottla.config.option import Option
from ottla.config.producer_config import ProducerConfig
from ottla.config.reference import plain_value
from ottla.config.rotating_values import problem_of_function
from ottla.config.rules import reconcile
from ottla.config.values import HIDDEN, PluginValues, brief, is_secret
from ottla.errors import ConfigError, OttlaError
from ottla.errors.plugin_origin import faults, text_of
from ottla.errors.robust_logger import robust_logger
from ottla.errors.secret import hide_settings, revealed

if TYPE_CHECKING:
    from ottla.interfaces import ConfigKey

_log = robust_logger(__name__)

_HIDDEN_FROM: Final = 4
"""The fewest characters of a value that is hidden everywhere: a shorter one is a part of other words."""

LikelyOwner: TypeAlias = Callable[[str, Collection[str]], str | None]
"""The plugin that a key seems to belong to, given the known keys; None if there is none."""


@attrs.define(kw_only=True, repr=False)
class ConfigDraft:
    """The user's settings while they are read. Not thread-safe, and not usable after `finish`.

    `config` can be read immediately, to choose plugins; it holds the default in place of an invalid value.
    """

    config: ProducerConfig
    _core: CoreSettings
    _secrets: set[str] = attrs.Factory(set)
    _claimed: dict[str, object] = attrs.Factory(dict)
    _sources: dict[str, str] = attrs.Factory(dict)
    _keys_of_plugins: dict[str, SettingInForce] = attrs.Factory(dict)

    @classmethod
    def read(
        cls,
        settings: Mapping[str, object],
        keywords: Mapping[str, object] | None = None,
        *,
        resolve: Callable[[dict[str, object], list[str]], None] | None = None,
    ) -> ConfigDraft:
        """Read the core's keys. In *keywords* an underscore stands for a dot: `linger_ms` is `linger.ms`.

        *resolve* replaces references in the hidden settings by values, and adds problems to the list.
        """
        problems: list[str] = []
        settings, keywords = hide_settings(settings), hide_settings(keywords or {})
        merged = merge(settings, keywords, problems=problems)
        sources = sources_of(settings, keywords)
        before = dict(merged)
        if resolve is not None:
            resolve(merged, problems)
        resolved = {key: value for key, value in merged.items() if value is not before.get(key)}
        # Others have references without a value, which a problem names.
        provided = {key for key, value in resolved.items() if plain_value(value) != plain_value(before.get(key))}
        sources |= {key: f"{sources[key]}, read by a config provider" for key in provided & sources.keys()}
        provided |= {name for key, name in add_misnamed(merged).items() if key in provided}
        plain = {key: plain_value(raw) if key in HARMLESS else raw for key, raw in merged.items()}
        core = read_core(plain, provided=provided)
        reconcile(core)
        core.problems[:0] = problems
        rest = {key: raw for key, raw in core.raw.items() if key not in core.read}
        # All are secret until a plugin declares which of its keys are.
        plugin_values = PluginValues(rest, secrets=rest, certain=False)
        config = build(core.values, plugin_values=plugin_values)
        return cls(config=config, core=core, sources=sources)

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems so far, without duplicates."""
        return tuple(dict.fromkeys(self._core.problems))

    def given(self, key: str) -> bool:
        """Return whether the user set this key."""
        return self._core.given(key)

    def object_to(self, problem: str) -> None:
        """Add a problem that the caller found; `finish` raises it with the others."""
        self._core.problems.append(problem)

    def claim(self, keys: Sequence[ConfigKey], *, plugin: str) -> PluginValues:
        """The values of a plugin's keys, with defaults for missing and wrong ones; wrong ones are noted as problems.

        If the core has the same key, the plugin's `type` gets the user's value. It gets the core's value if the user
        set none, or if the user's value is invalid or was adjusted.
        """
        values = {key.name: self._value(key, plugin) for key in keys}
        for key in keys:
            secret = key.secret or is_secret(key.name)
            raw = self._raw(key.name)
            self._keys_of_plugins[key.name] = SettingInForce(
                key=key.name,
                value=hidden(raw) if secret else values[key.name] if raw is None else plain_value(raw),
                source=DEFAULT if raw is None else self._sources.get(key.name, GIVEN),
                default=None if secret else key.default,
                meaning=key.meaning,
            )
        return PluginValues(values, secrets=[key.name for key in keys if key.secret])

    def finish(
        self,
        *,
        other_keys: Callable[[], Iterable[str]] = tuple,
        table_keys: Callable[[], Collection[str]] = tuple,
        likely_owner: LikelyOwner = lambda key, known: None,
        excused: Collection[str] = (),
        name_client: Callable[[str | None], str | None] = lambda configured: configured,
    ) -> ProducerConfig:
        """Raise ConfigError with all problems, or log once which keys are unused or adjusted.

        *other_keys* returns the keys of plugins that were not chosen; it is called only if a key was set that no plugin
        claimed. A key that is none of these either is unused if it has a *likely_owner*, else unknown. *excused* keys
        are not reported. *table_keys* returns those that `send_table` may need later. *name_client* is called with the
        configured client id, once there is no problem, and returns the one of the log lines.
        """
        unclaimed = [
            key
            for key in self.config.plugin_values
            if key not in self._claimed and (key not in excused or of_another_client(key) is not None)
        ]
        others = [key for key in unclaimed if key not in JAVA_KEYS]
        known = self._core.read | JAVA_KEYS | self._claimed.keys() | (set(other_keys()) if others else set())
        owners = {key: owner for key in others if key not in known and (owner := likely_owner(key, known)) is not None}
        self._core.problems += [
            unknown(key, known=known, source=self._sources.get(key))
            for key in others
            if key not in known and key not in owners
        ]
        if self.problems:
            raise ConfigError(self.problems)
        unused = [key for key in unclaimed if self._core.given(key)]
        self._report_notes(name_client(self.config.connection.client_id))
        self._report_unused(unused, owners, later=table_keys() if unused else ())
        used = {key: plain_value(raw) for key, raw in self._claimed.items() if key in self.config.plugin_values}
        return attrs.evolve(
            self.config, plugin_values=PluginValues(used, secrets=self._secrets), in_force=self._in_force()
        )

    def without_provided(self, error: OttlaError) -> OttlaError:
        """The same error, or a ConfigError in its place if it quotes what a config provider read."""
        texts = sorted(
            (str(plain_value(self._core.raw.get(key))) for key in self._core.provided), key=len, reverse=True
        )
        problems = error.problems if isinstance(error, ConfigError) else [str(error)]
        redacted = list(problems)
        for text in texts:
            if len(text) >= _HIDDEN_FROM:
                redacted = [problem.replace(text, HIDDEN) for problem in redacted]
        return error if redacted == list(problems) else ConfigError(redacted)

    def _in_force(self) -> SettingsInForce:
        settings = {each.key: self._core_setting(each) for each in OPTIONS.values()}
        plugins = {key: each for key, each in sorted(self._keys_of_plugins.items()) if key not in settings}
        return SettingsInForce((*settings.values(), *plugins.values()))

    def _core_setting(self, option: Option) -> SettingInForce:
        core, key = self._core, option.key
        if key in core.reasons:
            source = f"adjusted: {core.reasons[key]}"
        else:
            source = self._sources.get(key, GIVEN) if core.given(key) else DEFAULT
        return SettingInForce(
            key=key,
            value=shown(core.values[key], core.raw.get(key)),
            source=source,
            default=shown(option.default, option.default),
            meaning=option.meaning,
        )

    def _value(self, key: ConfigKey, plugin: str) -> Any:
        wrapped = self._raw(key.name)
        self._claimed[key.name] = wrapped
        if key.secret:
            self._secrets.add(key.name)
        raw = revealed(wrapped) if key.rotates else plain_value(wrapped)
        if raw is None:
            return key.default
        try:
            if key.rotates and callable(raw) and (wrong := problem_of_function(raw)):
                raise ValueError(wrong)
            return key.type(raw)
        except (TypeError, ValueError) as error:
            self._refuse(key, raw, text_of(error) or "it is not accepted", plugin=plugin)
            return key.default
        except faults() as error:
            fault = f"the key's type raised {type(error).__name__} instead of ValueError or TypeError"
            self._refuse(key, raw, fault, plugin=plugin)
            return key.default

    def _refuse(self, key: ConfigKey, raw: object, why: str, *, plugin: str) -> None:
        # The error of a secret's type may quote the secret, as may a function's repr.
        secret = key.name in self._secrets or is_secret(key.name)
        if (secret or key.rotates) and callable(raw) and (wrong := problem_of_function(raw)):
            problem = f"{key.name}: {wrong} ({plugin}: {key.meaning})"
        elif secret:
            problem = f"{key.name}={HIDDEN}: not accepted by {plugin}; {key.meaning}"
        elif key.name in self._core.provided:
            problem = f"{key.name}: {not_quoted('not accepted')} ({plugin}: {key.meaning})"
        else:
            problem = f"{key.name}={brief(raw)}: {why} ({plugin}: {key.meaning})"
        self._core.problems.append(problem)

    def _raw(self, name: str) -> object:
        core = self._core
        if name in core.values and (not core.given(name) or name in core.adjusted | core.wrong):
            return core.values[name]
        return core.raw.get(name)

    def _report_notes(self, client_id: str | None) -> None:
        for note in self._core.notes:
            if client_id:
                _log.info("%s: %s", client_id, note)
            else:
                _log.info("%s", note)

    def _report_unused(self, unused: Sequence[str], owners: Mapping[str, str], *, later: Collection[str]) -> None:
        if for_tables := sorted(key for key in unused if key in later):
            _log.info(
                "these configuration keys are read only by send_table with value_format or key_format, because no "
                "serializer in use reads them: %s",
                ", ".join(for_tables),
            )
        if unused := [key for key in unused if key not in later]:
            _log.warning(
                "these configuration keys have no effect, because no part or plugin in use reads them: %s",
                ", ".join(f"{key} (not chosen: {owners[key]})" if key in owners else key for key in sorted(unused))
                + self._hint_of_protocol(unused),
            )

    def _hint_of_protocol(self, unused: Collection[str]) -> str:
        """The usual mistake behind unused keys of a login or of TLS: security.protocol was left out."""
        protocol = self.config.connection.security_protocol
        if not protocol.sasl and any(key.startswith("sasl.") for key in unused):
            return f"; security.protocol is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT if brokers want a login"
        if protocol.transport != "ssl" and any(key.startswith("ssl.") for key in unused):
            return f"; security.protocol is {protocol}: set it to SSL or SASL_SSL if brokers use TLS"
        return ""
