"""Keys that find out what a partitioner does: those that reach its branches, and those with another hash.

A *probe* is a key of a subclass of `bytes`. Its parts, and its text and the parts of that, are probes, too:
`key.decode().partition("-")[0] == "eu"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any, Final

_MAX_CONSTANTS: Final = 32
_MAX_PAIRED: Final = 6
_MAX_SIZE: Final = 200
"""Longer constants are left out: they are no prefixes."""

_COMPARE: Final = ("__eq__", "__ne__", "__contains__", "startswith", "endswith", "find", "index", "rfind", "count")
_SPLIT: Final = ("removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "strip")
_CHANGE: Final = ("lower", "upper", "__getitem__", "decode", "encode")


class _Constants(dict[bytes, None]):
    """Constants that keys were compared with, each once, in order; text is encoded."""

    def note(self, other: Any) -> None:
        if isinstance(other, tuple | list | set | frozenset):
            for one in other:
                self.note(one)
        elif isinstance(other, str):
            self.note(other.encode("utf-8", "surrogatepass"))
        elif isinstance(other, bytes | bytearray) and 0 < len(other) <= _MAX_SIZE and len(self) < _MAX_CONSTANTS:
            self[bytes(other)] = None


def rehashed(key: bytes) -> bytes:
    """Return the same key with another hash, as in a process with another PYTHONHASHSEED."""
    kinds = _kinds({"__hash__": _other_hash})
    return kinds[bytes](key)  # type: ignore[no-any-return]


def keys_for_branches(ask: Callable[[bytes], object]) -> list[bytes]:
    """Return keys that begin with, end with, contain or equal what *ask* compares a key with."""
    constants = _Constants()
    kinds = _kinds({}, constants.note)
    for key in (b"key-1", b"a:b/c-d.e_f", b"1"):
        _answers(ask, kinds[bytes](key))
    found: dict[bytes, None] = {}
    for constant in constants:
        for key in (constant, constant + b"1", constant + b"another", b"1" + constant, b"1" + constant + b"1"):
            found[key] = None
    for first, second in permutations(list(constants)[:_MAX_PAIRED], 2):
        found[first + second + b"1"] = None  # such as "eu" and "-" of `key.split(b"-")[0] == b"eu"`
    return list(found)


def _kinds(members: Mapping[str, Any], note: Callable[[Any], None] | None = None) -> Mapping[type[Any], Any]:
    """Make subclasses of `bytes` and `str` with these members; *note* gets what they are compared with."""
    kinds: dict[type[Any], Any] = {}

    def probed(result: Any) -> Any:
        if type(result) in (list, tuple):
            return type(result)(probed(one) for one in result)
        kind = kinds.get(type(result))
        return result if kind is None else kind(result)

    def method(kind: type[Any], name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            if note is not None and arguments and name not in _CHANGE:
                note(arguments[0])
            return probed(original(self, *arguments, **options))

        return call

    for kind in (bytes, str):
        wrapped = {name: method(kind, name) for name in (*_COMPARE, *_SPLIT, *_CHANGE) if hasattr(kind, name)}
        kinds[kind] = type(f"Probe{kind.__name__.title()}", (kind,), {**wrapped, "__hash__": kind.__hash__, **members})
    return kinds


def _other_hash(self: Any) -> int:
    return ~(bytes if isinstance(self, bytes) else str).__hash__(self)


def _answers(ask: Callable[[bytes], object], key: bytes) -> None:
    try:
        ask(key)
    except Exception:
        return  # the suite's tests ask with plain keys, and report it
