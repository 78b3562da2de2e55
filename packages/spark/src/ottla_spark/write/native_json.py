"""JSON encoding of rows by the record encoder, if it has that ability: faster than pyarrow."""

from __future__ import annotations

from functools import cache

from ottla import OttlaError
from ottla.interfaces import SupportsJsonRows, supports
from ottla.plugins.registry import Registry, make_alone
from ottla.plugins.serializers.json_columns import JsonRows


@cache
def json_rows(encoder: str | None) -> JsonRows | None:
    """Return the `json_rows` of the encoder with this name, or of any installed one for None; None: there is none."""
    registry = Registry()
    for info in registry.installed("encoder"):
        if encoder is not None and info.name.lower() != encoder.strip().lower():
            continue
        try:
            made = make_alone(registry.plugin("encoder", info.name), {}, registry=registry)
        except OttlaError:  # the producer reports the error
            continue
        if supports(made, SupportsJsonRows):
            return made.json_rows
    return None
