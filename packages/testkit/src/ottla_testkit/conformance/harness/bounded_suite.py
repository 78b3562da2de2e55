"""The time that a suite takes, whatever its plugin does, and the errors that a plugin's wrong results cause in it.

Each test runs on a thread of its own, which is left behind when the time of the whole suite is over.
"""

from __future__ import annotations

import functools
import inspect
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import attrs
import pytest

from ottla_testkit.conformance.harness.abilities import check_spelling
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import NotBackError, within

_Result = TypeVar("_Result")

_PACKAGE: Final = "ottla_testkit.conformance"
_FOLDER: Final = str(Path(__file__).parent.parent)
_OUTCOMES: Final = (pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)


@attrs.define
class _Calls:
    number: int = 0
    seconds: float = 0.0


@attrs.define
class Usage:
    """The time that the tests of one class have taken, and the calls of the plugin that were counted."""

    seconds: float = 0.0
    stopped_by: str = ""
    calls: dict[str, _Calls] = attrs.field(factory=dict)

    def slowest(self) -> str:
        """Return the calls that took most of the time, for a message."""
        measured = list(self.calls.items())
        if not measured:
            return ""
        call, calls = max(measured, key=lambda each: each[1].seconds)
        return f"; {call} took {calls.seconds / calls.number * 1000:.3g} ms on average in {calls.number} calls"


class BoundedSuite:
    """Run each test of the suites for a limited time; report a plugin without a part of its contract in each."""

    time_limit: ClassVar[float] = 30.0
    """Seconds that all tests together may take; more for a plugin that is slow on purpose."""
    subject: ClassVar[str] = ""
    """The fixture that returns the plugin under test."""
    contract: ClassVar[type] = object
    """The plugin's protocol."""
    usage: ClassVar[Usage]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.usage = Usage()
        if not cls.__module__.startswith(_PACKAGE):
            return
        if "subject" in vars(cls):
            cls.test_no_optional_ability_is_misspelt = _spelling_test(cls.subject)  # type: ignore[attr-defined]
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.isfunction(test):
                setattr(cls, name, _bounded(test))

    def timed(self, call: str, work: Callable[[], _Result]) -> _Result:
        """Return the result of *work*, a call of the plugin that is named when the suite takes too long."""
        started_at = time.monotonic()
        try:
            return work()
        finally:
            calls = self.usage.calls.setdefault(call, _Calls())
            calls.number += 1
            calls.seconds += time.monotonic() - started_at


def check_contract(plugin: object, contract: type, *, made_by: str = "") -> None:
    """Fail if the object lacks an attribute of its protocol, or if one of the methods cannot be called."""
    kind, name = type(plugin).__name__, f"ottla.interfaces.{contract.__name__}"
    shown = f"{made_by} returned an object of type {kind}, which" if made_by else kind
    declared = vars(contract)
    methods = [one for one, value in declared.items() if inspect.isfunction(value) and not one.startswith("_")]
    names = [*declared.get("__annotations__", ()), *methods]
    lacking = [each for each in names if not hasattr(plugin, each)]
    check(not lacking, f"{shown} lacks `{'`, `'.join(lacking)}` of {name}")
    for method in methods:
        value = getattr(plugin, method)
        check(callable(value), f"{method} is of type {type(value).__name__}, and must be a method of {name}")


def _spelling_test(subject: str) -> Callable[..., None]:
    """Return a test that requests the fixture *subject* by name, as pytest's own parametrization needs it."""

    def test_no_optional_ability_is_misspelt(self: BoundedSuite, **fixtures: Any) -> None:
        check_spelling(fixtures[subject], self.contract)

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", subject)]
    test_no_optional_ability_is_misspelt.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return test_no_optional_ability_is_misspelt


def _bounded(test: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(test)
    def bounded(self: BoundedSuite, *arguments: Any, **fixtures: Any) -> None:
        usage = self.usage
        if usage.stopped_by:
            pytest.skip(f"not run, after {usage.stopped_by}")
        if self.subject in fixtures:
            check_contract(fixtures[self.subject], self.contract)
        started_at = time.monotonic()
        try:
            within(
                max(self.time_limit - usage.seconds, 0.0),
                test.__name__,
                lambda: _run(test, self, *arguments, **fixtures),
                remedy="",
            )
        except NotBackError as error:
            usage.stopped_by = str(error)
            if usage.seconds + time.monotonic() - started_at < self.time_limit:
                raise
            usage.stopped_by = f"the suite had taken {self.time_limit:g} s"
            fail(
                f"the suite has taken {self.time_limit:g} s, and ends in {test.__name__}{_place(error.stack)}"
                f"{usage.slowest()}; a plugin that may take longer states `time_limit`"
            )
        finally:
            usage.seconds += time.monotonic() - started_at

    return bounded


def _run(test: Callable[..., None], *arguments: Any, **fixtures: Any) -> None:
    try:
        test(*arguments, **fixtures)
    except _OUTCOMES:
        raise
    except BaseException as error:
        place = _place(traceback.extract_tb(error.__traceback__))
        if not isinstance(error, Exception):
            fail(f"the plugin raised {type(error).__name__}{place}; it would end its thread", error)
        fail(
            f"{type(error).__name__}{place} in {test.__name__}: the plugin raised it, or it gave something that the "
            "contract does not allow",
            error,
        )


def _place(stack: traceback.StackSummary | None) -> str:
    """Return the suite's line that called the plugin, and the plugin's function, for a message."""
    frames = list(stack or ())
    ours = [index for index, frame in enumerate(frames) if frame.filename.startswith(_FOLDER)]
    if not ours:
        return ""
    last, beyond = frames[ours[-1]], frames[ours[-1] + 1 :]
    called = f", in {beyond[0].name} ({beyond[0].filename}:{beyond[0].lineno})" if beyond else ""
    return f" at `{last.line}`{called}"
