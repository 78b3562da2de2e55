"""Values from the files of a folder, as Kubernetes mounts secrets: `${directory:/path:file}` (KIP-632)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ottla.errors import ConfigError, printable
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, ConfigProvider, PluginConfig
from ottla.plugins.config_providers.allowed_paths import ALLOWED_PATHS, checked_path, read_text


class DirectoryProvider:
    """Reads the files at each call. The content of a file is the value, including a final line break."""

    def __init__(self, allowed: Sequence[Path] | None) -> None:
        self._allowed = allowed

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The contents of the named files, directly in the folder."""
        if not path:
            raise ConfigError(["a folder and the name of a file in it are needed; write ${directory:/path:file}"])
        for key in keys:
            if key in (".", "..") or os.path.basename(key) != key or "\\" in key or "\0" in key:
                raise ConfigError([f"{printable(key)!r} is not the name of a file in {printable(path)}"])
        # Checked first: the existence of a file that may not be read is not revealed.
        found = [key for key in keys if os.path.lexists(checked_path(os.path.join(path, key), self._allowed))]
        return {key: read_text(os.path.join(path, key), self._allowed) for key in found}


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key `allowed.paths`."""
    return (ALLOWED_PATHS,)


@hookimpl
def ottla_config_provider(config: PluginConfig) -> ConfigProvider:
    """The provider named `directory`."""
    return DirectoryProvider(config["allowed.paths"])
