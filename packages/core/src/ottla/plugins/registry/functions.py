"""Plain functions in place of a plugin's object, for the kinds whose work is one call: partitioners and serializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ottla.errors.signatures import signature_of
from ottla.interfaces import Header, TopicView
from ottla.plugins.serializers.bytes import instead_of_bytes


@attrs.frozen(eq=False, repr=False)
class FunctionPartitioner:
    """A partitioner whose `partition` is the function itself."""

    partition: Callable[[str, bytes | None, TopicView], int]

    @staticmethod
    def problem(function: Callable[..., Any]) -> str | None:
        """The reason why a function is none of our partitioners, or None if its arguments are compared elsewhere."""
        names = _names(function)
        if names and names[0].startswith("key"):
            return (
                f"its arguments are those of a partitioner of kafka-python or aiokafka ({', '.join(names)}); it is "
                "called as partition(topic, key, view), and returns a number in range(view.partitions)"
            )
        return None


@attrs.frozen(eq=False, repr=False)
class FunctionSerializer:
    """A serializer that calls a function of one argument, the key or the value."""

    function: Callable[[Any], bytes | None]

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The function's result, which must be bytes or None."""
        result = self.function(data)
        if result is not None and not isinstance(result, bytes):
            raise TypeError(f"the serializer function {instead_of_bytes(result)}")
        return result

    @staticmethod
    def problem(function: Callable[..., Any]) -> str | None:
        """The reason why a function cannot be called with a value only, or None if it can, or Python does not know."""
        try:
            signature_of(function).bind(None)
        except TypeError:
            return (
                "it cannot be called with one argument, the key or the value; a serializer that also gets the topic "
                "and the headers is an object with serialize(topic, data, headers)"
            )
        except ValueError:  # Python does not know the signature of some functions of C
            pass
        return None


def _names(function: Callable[..., Any]) -> Sequence[str]:
    try:
        return list(signature_of(function).parameters)
    except (TypeError, ValueError):
        return ()
