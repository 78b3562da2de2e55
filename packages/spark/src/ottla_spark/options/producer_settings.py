"""Check of the producer's settings on the driver.

It starts and connects nothing. A wrong setting is reported on the driver, before a task exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla import ConfigError, PluginError, check_config
from ottla.config.allow_lists import options_of_others
from ottla_spark.options.named_files import PLACE, problems_of_names
from ottla_spark.options.shipped_files import with_shipped_files

MAX_VALID: Final = 64

_TLS: Final = "ssl."

_valid: set[frozenset[tuple[str, object]]] = set()


def problems_of(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return every problem for which a producer with these settings is not created, including those of plugins.

    Valid settings are not checked again in this process: Spark asks twice for each micro-batch.
    """
    known = frozenset(settings.items())
    if known in _valid:
        return ()
    with options_of_others(PLACE):
        forbidden = problems_of_names(settings)
        problems = [*forbidden.values()]
        # A forbidden file is not opened to find more problems: they would reveal its contents. But the other settings
        # do not depend on those of TLS, so a missing package is reported together with a file that is not allowed.
        if all(key.startswith(_TLS) for key in forbidden):
            problems += _problems({key: settings[key] for key in settings if not (forbidden and key.startswith(_TLS))})
    if problems:
        return tuple(problems)
    if len(_valid) >= MAX_VALID:
        _valid.clear()
    _valid.add(known)
    return ()


def _problems(settings: Mapping[str, object]) -> Sequence[str]:
    try:
        check_config(with_shipped_files(settings))
    except ConfigError as error:
        return error.problems
    except PluginError as error:
        return (str(error),)
    return ()
