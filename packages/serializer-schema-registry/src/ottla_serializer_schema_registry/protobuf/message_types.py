"""The message types that a type can hold."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


def message_types(descriptor: Descriptor) -> Mapping[str, Descriptor]:
    """Return a type and all that it can hold at any depth, by their full names."""
    types: dict[str, Descriptor] = {}
    waiting = [descriptor]
    while waiting:
        each = waiting.pop()
        if each.full_name not in types:
            types[each.full_name] = each
            waiting += [field.message_type for field in each.fields if field.message_type is not None]
    return types


def held_by(descriptor: Descriptor) -> Set[str]:
    """Return the full names of the types that fields of a type have."""
    return {field.message_type.full_name for field in descriptor.fields if field.message_type is not None}
