"""JSON encoding of rows by the record encoder, if it has that ability: faster than pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ottla import OttlaError
from ottla.interfaces import SupportsJsonRows, supports
from ottla.plugins.registry import Plugin, Registry, make_alone
from ottla.plugins.serializers.json_columns import JsonRows


@cache
def json_rows(encoder: str | None) -> JsonRows | None:
    """Return the method `json_rows` of the encoder with this name, or None if it has no such method.

    Without a name, return that of the first installed encoder that has one.
    """
    registry = Registry()
    for plugin in _plugins(encoder, registry):
        try:
            made = make_alone(plugin, {}, registry=registry)
        except OttlaError:  # the producer reports the error
            continue
        if supports(made, SupportsJsonRows):
            return made.json_rows
    return None


def _plugins(encoder: str | None, registry: Registry) -> Sequence[Plugin]:
    try:
        return registry.encoders() if encoder is None else [registry.plugin("encoder", encoder)]
    except OttlaError:  # the producer reports the error
        return ()
