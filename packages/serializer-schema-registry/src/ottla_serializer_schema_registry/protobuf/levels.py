"""How deep messages are nested, for types that can hold themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import Message

from ottla_serializer_schema_registry.nesting import MOST_LEVELS, levels_of
from ottla_serializer_schema_registry.protobuf.message_types import held_by, message_types

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_PER_CONTAINER: Final = 3
"""Messages that a dict or a list stands for, at most: a `Struct`, an entry of its map, and a `Value`."""


class MessageLevels:
    """Refuses messages with more levels than readers accept. *endless* are the types that can have any number."""

    def __init__(self, endless: frozenset[str]) -> None:
        self._endless = endless

    def are_few(self, fields: dict[str, Any]) -> bool:
        """Return whether fields certainly make a message with few levels.

        Raises RecursionError for fields of which none can be made.
        """
        containers = levels_of(fields, maximum=2 * MOST_LEVELS)  # each message may be in a list
        return 1 + _PER_CONTAINER * containers <= MOST_LEVELS

    def check(self, message: Message) -> None:
        """Raise RecursionError for a message with too many levels."""
        waiting = [(message, 1)]
        while waiting:
            each, level = waiting.pop()
            if level > MOST_LEVELS:
                raise RecursionError
            for field, found in each.ListFields():
                if field.message_type is None or field.message_type.full_name not in self._endless:
                    continue
                if isinstance(found, Message):
                    waiting.append((found, level + 1))
                elif hasattr(found, "values"):  # a map, whose entries are messages, too
                    waiting += [(item, level + 2) for item in found.values()]
                else:
                    waiting += [(item, level + 1) for item in found]


def message_levels(descriptor: Descriptor) -> MessageLevels | None:
    """Return the check for messages of a type; None for one that cannot hold itself."""
    held = {name: held_by(each) for name, each in message_types(descriptor).items()}
    endless = set(held)
    while finite := {name for name in endless if not held[name] & endless}:
        endless -= finite
    return MessageLevels(frozenset(endless)) if endless else None
