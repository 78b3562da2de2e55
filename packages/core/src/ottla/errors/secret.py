"""Values that no log, error, repr or traceback shows.

Error reporters print the local variables of every frame in a traceback. So a password is wrapped as soon as it is read,
and is plain only where it is used: never in a variable of a function that may raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeVar

from ottla.errors.quoting import STARS
from ottla.errors.setting_sources import source_of

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Secret(Generic[T]):
    """A value that is shown as stars. Deliberately not a string: code that prints, joins or logs it gets the stars."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """The value itself. Call it where the value is used, and keep the result in no variable."""
        return self._value

    def __repr__(self) -> str:
        return STARS

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied: the copy would hold it in plain text")


class SourcedSecret(Secret[T]):
    """A setting, and where it came from; None if that is not known."""

    __slots__ = ("source",)

    def __init__(self, value: T, source: str | None) -> None:
        super().__init__(value)
        self.source = source


def revealed(value: Any) -> Any:
    """The value in a `Secret`, or the value as it is."""
    return value.reveal() if isinstance(value, Secret) else value


def without_frames(error: E) -> E:
    """The same error without its traceback, and without those of its causes and contexts."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += (each.__cause__, each.__context__)
    return error


def hide_settings(settings: Any) -> Any:
    """A copy of a caller's settings in which all values are `Secret`, since it is not known yet which ones are secret.

    Anything but a mapping is wrapped as a whole; `merge` then refuses it.
    """
    if not isinstance(settings, Mapping):
        return settings if isinstance(settings, Secret) else Secret(settings)
    return {
        key: value if value is None or isinstance(value, Secret) else SourcedSecret(value, source_of(settings, key))
        for key, value in settings.items()
    }
