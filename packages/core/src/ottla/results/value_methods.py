"""Comparison, hash and repr of values by their fields, without code for each class.

attrs compiles these methods for each class while its module is imported. For all classes of values that was a tenth of
the time of `import ottla`, though a producer seldom calls one of the methods.
"""

from __future__ import annotations

from reprlib import recursive_repr
from typing import Any

import attrs


class ValueMethods:
    """The base of frozen attrs classes with `eq=False, repr=False`: the methods return what those of attrs would.

    They take longer than those. A class whose values are compared or hashed for each record lets attrs make them.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other is self:  # as a rule, where batches compare their producer ids
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash((self.__class__, *_compared(self)))

    @recursive_repr("...")
    def __repr__(self) -> str:
        cls: Any = type(self)
        shown = (field.name for field in attrs.fields(cls) if field.repr)
        return f"{cls.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, field.name) for field in attrs.fields(type(value)) if field.eq)
