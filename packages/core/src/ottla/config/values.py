"""Display of values: short, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Final

from ottla.errors import Secrets
from ottla.errors.secret import Secret, revealed
from ottla.errors.similar_names import most_similar

HIDDEN: Final = "[hidden]"

_LONGEST: Final = 80
_SECRET: Final = re.compile(r"passw|passphrase|secret|jaas|token|credential|(?:^|[._-])key(?:[._-]|$)", re.IGNORECASE)
_USER_OF_URL: Final = re.compile(r"://[^/@\s]*@")
_SWITCHES: Final = frozenset(
    {
        "basic.auth.credentials.source",
        "bearer.auth.credentials.source",
        "key.serializer",
        "sasl.allow.cleartext.credentials",
    }
)
"""Keys whose values are not secret, although their names match."""


def is_secret(key: str) -> bool:
    """Return whether a key's name suggests that its value is secret."""
    return _SECRET.search(key) is not None and key.lower() not in _SWITCHES


def brief(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # also of an int with more digits than Python writes
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


class UndeclaredKeyError(KeyError):
    """A plugin has read a key that it does not declare. The text is made when it is shown: `get` catches the error."""

    def __init__(self, key: str, declared: Iterable[str]) -> None:
        super().__init__(key)
        self._declared = tuple(declared)

    def __str__(self) -> str:
        key = self.args[0]
        close = most_similar(str(key), self._declared)
        meant = f"did you mean {close!r}? " if close else ""
        return f"{key!r} is not declared by ottla_config_keys; {meant}(declared: {', '.join(self._declared) or 'none'})"


class PluginValues(Mapping[str, Any]):
    """Values by key, read-only. The repr hides the keys in `secrets`, those that look secret, and users of addresses.

    While this object lives, text from outside shows stars instead of these secrets, if it is *certain* that they are
    secrets.
    """

    __slots__ = ("_hidden", "_secrets", "_values")

    def __init__(self, values: Mapping[str, Any], *, secrets: Collection[str] = (), certain: bool = True) -> None:
        self._values = dict(values)
        self._secrets = frozenset(secrets)
        self._hidden = Secrets(*self._texts()) if certain else None

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise UndeclaredKeyError(key, self._values) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> ItemsView[str, Any]:
        """The items as they may be shown: a value that the repr hides is a `Secret`.

        Error reporters iterate over mappings that they find in frames.
        """
        return self._visible().items()

    def values(self) -> ValuesView[Any]:
        """The values as they may be shown."""
        return self._visible().values()

    def _texts(self) -> Iterator[str | bytes]:
        """The secrets that text from outside may contain."""
        for key in self._secrets:
            if isinstance(revealed(self._values.get(key)), str | bytes):
                yield revealed(self._values[key])

    def _visible(self) -> Mapping[str, Any]:
        return {key: self._may_show(key, value) for key, value in self._values.items()}

    def _may_show(self, key: str, value: Any) -> Any:
        hidden = self._hides(key, value)
        return Secret(value) if hidden and value is not None and not isinstance(value, Secret) else value

    def _hides(self, key: str, value: Any) -> bool:
        has_user = isinstance(value, str) and _USER_OF_URL.search(value) is not None  # with a password, probably
        return has_user or key in self._secrets or is_secret(key)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {self._shown(key)}" for key in self._values) + "}"

    def without_secrets(self, text: str) -> str:
        """Text from other code about these values, with stars in place of the secret ones."""
        for secret in (str(revealed(self._values[key])) for key in self._secrets if self._values.get(key) is not None):
            for form in (secret, repr(secret)[1:-1]):
                text = text.replace(form, HIDDEN) if form else text
        return text

    def _shown(self, key: str) -> str:
        return HIDDEN if self._hides(key, self._values[key]) else brief(self._values[key])
