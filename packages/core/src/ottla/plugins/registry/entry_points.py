"""The entry points of a distribution one of whose lines `importlib.metadata` refuses, and with it the whole file."""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint


class UncheckedEntryPoint(EntryPoint):
    """An entry point whose value may be invalid, which is an error when it is used; Python 3.15 refuses to make one."""

    def __init__(self, *, name: str, value: str, group: str, dist: Distribution) -> None:
        vars(self).update(name=name, value=value, group=group, dist=dist)


def read_entry_points(text: str, distribution: Distribution) -> tuple[list[EntryPoint], list[str]]:
    """Return the entry points in the text of an entry_points.txt, and the lines that are none."""
    found: list[EntryPoint] = []
    wrong: list[str] = []
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif group and line and not line.startswith("#"):
            name, equals, value = (part.strip() for part in line.partition("="))
            if equals:
                found.append(UncheckedEntryPoint(name=name, value=value, group=group, dist=distribution))
            else:
                wrong.append(line)
    return found, wrong
