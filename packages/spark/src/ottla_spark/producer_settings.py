"""The producer's settings: what a write sets when nobody else does, and whether the core would take them.

Nothing is started or connected here: a wrong setting is told on the driver, before a task exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from ottla import ConfigError, PluginError, check_config
from ottla.config import PluginValues
from ottla_spark.shipped_files import with_shipped_files


@attrs.frozen(kw_only=True)
class Default:
    """A value for a key that nobody set; left out when one of `beside` was set, which it might not fit."""

    key: str
    value: str
    beside: tuple[str, ...]


DEFAULTS: Final = (
    # A task sends as fast as it can and flushes at its end, so waiting for fuller batches delays nothing.
    # 64 partitions: 120 -> 164 thousand rows/s (two tasks on two cores shared with the broker, 116-byte rows).
    Default(key="linger.ms", value="50", beside=("delivery.timeout.ms", "request.timeout.ms")),
    # 4 partitions: 304 -> 362 thousand rows/s.
    Default(key="batch.size", value="131072", beside=("buffer.memory", "max.request.size")),
)


def with_defaults(settings: Mapping[str, str]) -> PluginValues:
    """The user's settings, and the defaults that do not touch them."""
    added = {default.key: default.value for default in DEFAULTS if not settings.keys() & {default.key, *default.beside}}
    return PluginValues({**added, **settings})


def problems_of(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Everything that would keep a producer with these settings from being made, plugins included."""
    try:
        check_config(with_shipped_files(settings))
    except ConfigError as error:
        return error.problems
    except PluginError as error:
        return (str(error),)
    return ()
