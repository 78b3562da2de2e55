"""Values from a properties file: `${file:/path:key}` (KIP-297)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ottla.config.properties import read_properties
from ottla.errors import ConfigError, printable
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, ConfigProvider, PluginConfig, Secret
from ottla.plugins.config_providers.allowed_paths import ALLOWED_PATHS, read_text


class FileProvider:
    """Reads the file at each call."""

    def __init__(self, allowed: Sequence[Path] | None) -> None:
        self._allowed = allowed

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The named properties."""
        text = Secret(read_text(path, self._allowed))
        try:
            found = read_properties(text.reveal())
        except ValueError as error:
            problem = f"{printable(path)}: {error}"
        else:
            return {key: found[key] for key in keys if key in found}
        raise ConfigError([problem])


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key `allowed.paths`."""
    return (ALLOWED_PATHS,)


@hookimpl
def ottla_config_provider(config: PluginConfig) -> ConfigProvider:
    """The provider named `file`."""
    return FileProvider(config["allowed.paths"])
