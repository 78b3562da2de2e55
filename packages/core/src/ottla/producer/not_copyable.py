"""Refusal of copies and pickles of a producer, which says what to do instead."""

from __future__ import annotations

from typing import NoReturn


def refuse_copy(_producer: object) -> NoReturn:
    """Raise TypeError; as the `__reduce__` of a class, for `copy` and `pickle`."""
    raise TypeError(
        "a producer cannot be copied or pickled, because it has a thread and connections; create one where it is "
        "used, for instance one in each process"
    )
