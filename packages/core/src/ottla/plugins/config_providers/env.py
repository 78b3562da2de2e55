"""Values from environment variables: `${env:NAME}` (KIP-887)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ottla.errors import ConfigError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, ConfigProvider, PluginConfig


class EnvironmentProvider:
    """Reads the environment at each call. As in Java, the pattern needs to match only a part of a name."""

    def __init__(self, allowed: re.Pattern[str] | None) -> None:
        self._allowed = allowed

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The named variables."""
        if path:
            raise ConfigError(["an environment variable has no path; write ${env:NAME}"])
        return {key: value for key, value in os.environ.items() if key in keys and self._may(key)}

    def _may(self, name: str) -> bool:
        return self._allowed is None or self._allowed.search(name) is not None


def _pattern(raw: Any) -> re.Pattern[str]:
    try:
        return re.compile(raw)
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the pattern of allowed variables."""
    return (
        ConfigKey(
            name="allowlist.pattern",
            type=_pattern,
            default=None,
            meaning="config.providers.NAME.param.allowlist.pattern: a regular expression, found in the names that may "
            "be read; none: all",
        ),
    )


@hookimpl
def ottla_config_provider(config: PluginConfig) -> ConfigProvider:
    """The provider named `env`."""
    return EnvironmentProvider(config["allowlist.pattern"])
