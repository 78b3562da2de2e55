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
    """Return the `json_rows` of this encoder, or for None of one that a producer uses unasked; None: it has none."""
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
