"""The public surface of `ottla` as text: every public name with its signature, one a line.

`python tools/surface.py` writes it to packages/core/tests/public_surface.txt; a test compares it with the code. So a
change of the surface is seen in review, and nothing public changes by accident (docs/stability.md).
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pluggy

RECORD: Final = Path(__file__).resolve().parents[1] / "packages" / "core" / "tests" / "public_surface.txt"

MODULES: Final = (
    "ottla",
    "ottla.aio",
    "ottla.doctor",
    "ottla.results.stories",
    "ottla.errors",
    "ottla.hookspecs",
    "ottla.interfaces",
    "ottla.config.settings",
    "ottla.tables.sealed",
    "ottla.transactions",
)
"""The modules whose names in `__all__` are public, as the docstring of `ottla` lists them."""


def surface() -> Iterator[str]:
    """Yield the lines, module by module."""
    for name in MODULES:
        module = importlib.import_module(name)
        for public in sorted(_names(module)):
            yield from _lines(f"{name}.{public}", getattr(module, public))


def _names(module: ModuleType) -> Iterable[str]:
    """Return the names in `__all__`; without it, those that the module defines."""
    if hasattr(module, "__all__"):
        named: Iterable[str] = module.__all__
        return named
    return (name for name, thing in vars(module).items() if name[0] != "_" and _is_defined_in(module, thing))


def _is_defined_in(module: ModuleType, thing: object) -> bool:
    markers = (pluggy.HookspecMarker, pluggy.HookimplMarker)
    return isinstance(thing, markers) or getattr(thing, "__module__", None) == module.__name__


def _lines(name: str, thing: object) -> Iterator[str]:
    if isinstance(thing, type):
        yield f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"
        if issubclass(thing, enum.Enum):
            yield from (f"{name}.{member.name}" for member in thing)
        elif not issubclass(thing, BaseException) or "__init__" in vars(thing):
            yield f"{name}{_signature(thing)}"
        for member in sorted(vars(thing)):
            if not member.startswith("_"):
                yield from _member(f"{name}.{member}", vars(thing)[member])
    elif callable(thing):
        yield f"{name}{_signature(thing)}"
    else:
        yield name


def _member(name: str, member: object) -> Iterator[str]:
    if isinstance(member, property) or inspect.isdatadescriptor(member):
        yield name
    elif isinstance(member, classmethod | staticmethod):
        yield f"{name}{_signature(member.__func__)}"
    elif inspect.isfunction(member):
        yield f"{'async ' if inspect.iscoroutinefunction(member) else ''}{name}{_signature(member)}"


def _signature(thing: object) -> str:
    """Return the parameters; interpreters differ in how they print some annotations, so these are left out."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        each.replace(
            annotation=inspect.Parameter.empty,
            default=each.default if each.default in (inspect.Parameter.empty, None, ..., True, False) else _Default(),
        )
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Default:
    """A default value that is not printed, because its text may have an address."""

    def __repr__(self) -> str:
        return "<default>"


def main() -> None:
    """Write the record."""
    RECORD.write_text("".join(f"{line}\n" for line in surface()))


if __name__ == "__main__":
    main()
