"""Java's `sasl.jaas.config`, read as Java reads it: one login module, its flag, and options as key=value.

It is the same for all mechanisms. Errors name the position, never the content, most of which is secret.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, NamedTuple

import attrs

from ottla.interfaces import Secret

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_BLANK: Final = re.compile(r"(?:\s|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_WORD: Final = re.compile(r"[\w.$-]+")
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@attrs.frozen(kw_only=True)
class LoginModule:
    """A parsed `sasl.jaas.config`. `name` is the class without its package, which differs between vendors."""

    name: str
    options: Mapping[str, str] = attrs.field(repr=False)


class HiddenOptions(Mapping[str, Any]):
    """Options by name, read-only. Iterating over or printing them shows asterisks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def items(self) -> ItemsView[str, Any]:
        """Return the pairs with asterisks instead of the values."""
        return {name: Secret(value) for name, value in self._options.items()}.items()

    def values(self) -> ValuesView[Any]:
        """Return asterisks instead of the values."""
        return dict(self.items()).values()

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class _Token(NamedTuple):
    text: str
    at: int
    quoted: bool = False

    def is_sign(self, sign: str) -> bool:
        return not self.quoted and self.text == sign


def login_module(written: str) -> LoginModule:
    """Parse the one login module of a `sasl.jaas.config`. Raises ValueError with the position of the fault."""
    tokens = _tokens(written)
    name = _word(tokens, "the class of a login module")
    flag = _word(tokens, "the word 'required' after the login module")
    if flag.text.lower() not in _FLAGS:
        raise ValueError(f"expected the word 'required' at {flag.at}, after the login module")
    options = dict(_options(tokens))
    rest = next(tokens)
    if not rest.is_sign(""):
        raise ValueError(f"unexpected text at {rest.at}, after the semicolon: only one login module is allowed")
    return LoginModule(name=name.text.rpartition(".")[2], options=options)


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, str]]:
    """Yield pairs up to the semicolon."""
    while not (key := next(tokens)).is_sign(";"):
        if key.is_sign(""):
            raise ValueError(f"expected a semicolon at the end, at {key.at}")
        if key.is_sign("="):
            raise ValueError(f"expected the name of an option at {key.at}")
        equals = next(tokens)
        if not equals.is_sign("="):
            raise ValueError(f"expected '=' at {equals.at}, after the name of an option")
        yield key.text, _word(tokens, "the option's value").text


def _word(tokens: Iterator[_Token], wanted: str) -> _Token:
    token = next(tokens)
    if not token.quoted and token.text in ("", ";", "="):
        raise ValueError(f"expected {wanted} at {token.at}")
    return token


def _tokens(written: str) -> Iterator[_Token]:
    """Yield words, quoted strings and signs, and after the end an empty sign for each further call."""
    at = 0
    while True:
        at = _after(_BLANK, written, at)
        if at == len(written):
            break
        if written[at] in "\"'":
            end = _end_of_quote(written, at)
            yield _Token(_ESCAPE.sub(_unescaped, written[at + 1 : end - 1]), at, quoted=True)
        elif written[at] in ";=":
            end = at + 1
            yield _Token(written[at], at)
        else:
            end = _after(_WORD, written, at)
            if end == at:
                raise ValueError(f'the character at {at} must be inside quotes: "..."')
            yield _Token(written[at:end], at)
        at = end
    while True:
        yield _Token("", at)


def _after(pattern: re.Pattern[str], written: str, at: int) -> int:
    match = pattern.match(written, at)
    return match.end() if match else at


def _end_of_quote(written: str, start: int) -> int:
    at = start + 1
    while at < len(written) and written[at] not in "\n\r":
        if written[at] == written[start]:
            return at + 1
        at += 2 if written[at] == "\\" else 1
    raise ValueError(f"the quote that begins at {start} is not closed before the end of its line")


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _CONTROLS.get(escaped, escaped)
