"""A value of the configuration that names where it is to be had, such as `${file:/run/secrets/kafka:password}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ottla.errors.secret import Secret, revealed


@attrs.frozen(kw_only=True, repr=False)
class Reference:
    """`first` is the value when the producer was made. A call reads it again; it may wait, and raises NetworkError."""

    first: Secret[str]
    again: Callable[[], str]

    def __call__(self) -> str:
        return self.again()


def settled(value: Any) -> Any:
    """The value in plain; of a reference the one that it had first."""
    plain = revealed(value)
    return plain.first.reveal() if isinstance(plain, Reference) else plain
