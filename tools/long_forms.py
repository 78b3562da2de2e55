"""The forms of tests: short in `tox`, more of them in `tox run -e thorough`, and long in `tox run -e full`.

`thorough` is a marker, so a test that is chosen by its name runs with and without it; `OTTLA_SOAK=1` chooses the long
forms.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet

LONG: Final = os.environ.get("OTTLA_SOAK", "") not in ("", "0")


def only_long(why: str) -> pytest.MarkDecorator:
    """Skip a test in the short form, because of *why*: the time or the parts that it takes."""
    return pytest.mark.skipif(not LONG, reason=f"{why}: only with OTTLA_SOAK=1")


def share(values: Iterable[object], *, gate: int, why: str) -> list[ParameterSet]:
    """Return the *values* as parameters: *gate* of them, evenly spread, for `tox`, the rest for `tox run -e thorough`.

    *why* says what the others repeat. A ParameterSet among the values keeps its marks and its name.
    """
    parameters = [value if isinstance(value, ParameterSet) else pytest.param(value) for value in values]
    kept = {round((number + 0.5) * len(parameters) / gate - 0.5) for number in range(gate)}
    return [
        parameter if number in kept else parameter._replace(marks=[*parameter.marks, pytest.mark.thorough(why)])
        for number, parameter in enumerate(parameters)
    ]
