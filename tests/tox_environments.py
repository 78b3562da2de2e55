"""The names of the environments in tox.ini."""

from __future__ import annotations

import configparser

from documents import ROOT


def tox_environments() -> set[str]:
    """Return the names of all environments."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    sections = (section.removeprefix("testenv:") for section in parser.sections())
    return {name for section in sections for name in _expanded(section)}


def _expanded(section: str) -> list[str]:
    """Return the environments of a section such as `full-{brokers,spark}`."""
    before, _, rest = section.partition("{")
    names, _, after = rest.partition("}")
    return [before + name + after for name in names.split(",")]
