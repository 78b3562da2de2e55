"""Who writes rows as JSON faster than pyarrow does: the record encoder, where it has that ability."""

from __future__ import annotations

from functools import cache

from ottla import OttlaError
from ottla.plugins.registry import Registry, make_alone
from ottla.plugins.serializers.json_columns import JsonRows


@cache
def json_rows(encoder: str | None) -> JsonRows | None:
    """What the encoder of this name offers; None for a name: any that is installed."""
    registry = Registry()
    for info in registry.installed("encoder"):
        if encoder is not None and info.name.lower() != encoder.strip().lower():
            continue
        try:
            made = make_alone(registry.plugin("encoder", info.name), {}, registry=registry)
        except OttlaError:  # the producer says what is wrong with it
            continue
        if (found := getattr(made, "json_rows", None)) is not None:
            return found  # type: ignore[no-any-return]  # an ability of somebody's plugin
    return None
