"""The refusal of plugins that a program passes to `per_process` as objects.

After a fork, each process would have a copy of the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ottla.config.config_def import OPTIONS
from ottla.config.key_names import key_of
from ottla.config.plugin_choice import GivenPlugin, PluginChoice
from ottla.errors import InvalidPluginError
from ottla.errors.secret import revealed
from ottla.plugins.registry import KindName, given_plugin


def problems_of_shared_objects(settings: Mapping[str, object], keywords: Mapping[str, object]) -> Iterator[str]:
    """Yield a problem for each object that a producer of every process would use; wrong values are no problem here.

    A class, a function or a name is no problem: each process makes its own object.
    """
    if not isinstance(settings, Mapping):  # the first call in a process raises it
        return
    for key, value in {**{key_of(keyword): each for keyword, each in keywords.items()}, **settings}.items():
        for kind, choice in _given(key, value):
            if _is_shared(kind, choice):
                yield (
                    f"{key}: {choice} is an object, of which each process would have a copy, with its locks and "
                    "connections as they are at the fork; give the class, or functools.partial(CLASS, ARGUMENTS), so "
                    "that each process makes an object of its own"
                )


def _given(key: str, value: object) -> Iterator[tuple[KindName, GivenPlugin]]:
    option = OPTIONS.get(key)
    if option is None or not option.type.kind or value is None:
        return
    try:
        parsed: PluginChoice | tuple[PluginChoice, ...] = option.type.parse(revealed(value))
    except ValueError:
        return
    for choice in parsed if isinstance(parsed, tuple) else (parsed,):
        if isinstance(choice, GivenPlugin):
            yield cast(KindName, option.type.kind), choice  # of values that name plugins, it is one


def _is_shared(kind: KindName, choice: GivenPlugin) -> bool:
    try:
        return not given_plugin(kind, choice).makes_objects
    except InvalidPluginError:  # the first call in a process raises it
        return False
