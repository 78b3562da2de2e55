"""The record encoder, for what it can do with columns faster than pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from ottla import OttlaError
from ottla.interfaces import RecordEncoder, SupportsJsonRows, supports
from ottla.plugins.registry import Plugin, Registry, make_alone
from ottla.plugins.serializers.json_columns import JsonRows


@cache
def json_rows(encoder: str | None) -> JsonRows | None:
    """Return the method `json_rows` of the encoder with this name, or None if it has no such method.

    Without a name, return that of the first installed encoder that has one.
    """
    return next((made.json_rows for made in _encoders(encoder) if supports(made, SupportsJsonRows)), None)


@cache
def first_encoder(encoder: str | None) -> RecordEncoder | None:
    """Return the encoder with this name or, without a name, the one that producers use.

    Return None if there is none.
    """
    return max(_encoders(encoder), key=lambda made: made.priority, default=None)


def _encoders(encoder: str | None) -> Iterator[RecordEncoder]:
    registry = Registry()
    for plugin in _plugins(encoder, registry):
        try:
            yield make_alone(plugin, {}, registry=registry)
        except OttlaError:  # the producer reports the error
            continue


def _plugins(encoder: str | None, registry: Registry) -> Sequence[Plugin]:
    try:
        return registry.encoders() if encoder is None else [registry.plugin("encoder", encoder)]
    except OttlaError:  # the producer reports the error
        return ()
