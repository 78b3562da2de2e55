"""One key of the core: its type, default and meaning."""

from __future__ import annotations

from typing import Any, Final

import attrs

from ottla.config.value_types import ValueType

_METADATA: Final = "ottla.option"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Option:
    """A key with Kafka's name. `default` is in Kafka's units, as a user would write it."""

    key: str
    type: ValueType
    default: Any
    meaning: str


def option(key: str, value_type: ValueType, *, default: Any, meaning: str) -> Any:
    """The attrs field of a section that holds this key's value, in the units of the code (seconds, not ms)."""
    declared = Option(key=key, type=value_type, default=default, meaning=meaning)
    inside = None if default is None else value_type.inside(default)
    return attrs.field(default=inside, metadata={_METADATA: declared})


def option_of(field: attrs.Attribute[Any]) -> Option | None:
    """The option of a field; None for a field without its own key."""
    found: Option | None = field.metadata.get(_METADATA)
    return found
