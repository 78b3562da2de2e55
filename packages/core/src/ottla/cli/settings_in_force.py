"""The settings of a producer that `ottla config show` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.padding import Padding
from rich.text import Text

from ottla.cli.standard_output import console
from ottla.config.in_force import DEFAULT, SettingInForce, replaced, written
from ottla.producer.config_check import check_config

_SERVERS: Final = "bootstrap.servers"
_ANY_SERVER: Final = "127.0.0.1:9092"
"""Without a server no configuration is complete; the others are shown nevertheless."""


def in_force(settings: dict[str, Any]) -> Sequence[SettingInForce]:
    """The settings that a producer with these would have. Raises ConfigError or PluginError if it would refuse them."""
    if settings.get(_SERVERS):
        return check_config(settings).all()
    found = check_config(settings | {_SERVERS: _ANY_SERVER})
    return replaced(found, _SERVERS, None, source="missing: a producer needs it").all()


def show_settings(settings: Iterable[SettingInForce]) -> None:
    """Print each setting as in a properties file, then its source, default and importance, and its meaning below."""
    out = console()
    for setting in settings:
        changed = setting.source != DEFAULT
        line = Text(f"{setting.key}={written(setting.value)}", style="bold" if changed else "")
        origin = f"  {setting.source}" + (f", default {written(setting.default) or 'none'}" if changed else "")
        origin += f", importance {setting.importance}" if setting.importance else ""
        out.print(line.append(origin, style="not bold green" if changed else "dim"))
        out.print(Padding(Text(setting.meaning, style="dim"), (0, 0, 0, 4), expand=False))
