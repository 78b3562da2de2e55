"""Skips tests that need a library which a Python cannot have, with the reason.

Not every library has wheels for PyPy, for a Python without the GIL, or for one that is not released yet. With
`OTTLA_MISSING=NAME,NAME` in its environment, pytest skips a module or test whose error is that one of these is not
installed, or that a plugin is not there which one of these would offer.

One that is installed because a package requires it cannot be imported either: a library that is built for the GIL would
switch the GIL on for all tests, at its first import.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Generator, Iterator
from typing import Final

import pytest

NAMES: Final = "OTTLA_MISSING"
_MISSING: Final = frozenset(filter(None, os.environ.get(NAMES, "").split(",")))
for _library in _MISSING - sys.modules.keys():
    if importlib.util.find_spec(_library) is not None:
        sys.modules[_library] = None  # type: ignore[assignment]  # its import raises ModuleNotFoundError
_REMEDY: Final = re.compile(r"pip install ([\w-]+)|needs the library ([\w-]+)")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module that cannot be imported without a missing library."""
    report = yield
    call: pytest.CallInfo[object] | None = report.__dict__.get("call")
    if report.outcome == "failed" and call is not None and call.excinfo is not None:
        reason = _reason(call.excinfo.value)
        if reason:
            report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {reason}")
            del report.__dict__["call"]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that fails because of a missing library."""
    report = yield
    if report.outcome == "failed" and call.excinfo is not None:
        reason = _reason(call.excinfo.value)
        if reason:
            report.outcome, report.longrepr = (
                "skipped",
                (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {reason}"),
            )
    return report


def _reason(error: BaseException) -> str:
    """Why a library is missing, according to an error or its causes; empty: none of the missing ones is."""
    for each in _chain(error):
        if isinstance(each, ModuleNotFoundError):
            name = (each.name or "").partition(".")[0]
            if name in _MISSING:
                return f"there is no {name} for this Python"
        if type(each).__name__ == "PluginNotFoundError":  # by its name, because this file imports nothing of ours
            for match in _REMEDY.finditer(str(each)):
                if (name := (match[1] or match[2]).replace("-", "_")) in _MISSING:
                    return f"there is no {name} for this Python"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and the errors during whose handling they were raised."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
