"""A value that refers to a config provider, such as `${file:/run/secrets/kafka:password}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ottla.errors.secret import Secret, revealed


@attrs.frozen(kw_only=True, repr=False)
class Reference:
    """A value of a config provider. `first` is the value when the producer was built.

    A call of the object reads the value again; it may block, and may raise NetworkError.
    """

    first: Secret[str]
    again: Callable[[], str]

    def __call__(self) -> str:
        return self.again()


def plain_value(value: Any) -> Any:
    """The value out of its `Secret`; for a reference, its first value."""
    plain = revealed(value)
    return plain.first.reveal() if isinstance(plain, Reference) else plain
