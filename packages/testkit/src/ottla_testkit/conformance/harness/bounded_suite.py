"""The time that a suite takes, whatever its plugin does, and the errors that a plugin's wrong results cause in it.

Each test runs on a separate thread, which is left behind when the time of the whole suite is over.
"""

from __future__ import annotations

import functools
import inspect
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import attrs
import pytest

from ottla.interfaces import SupportsClose
from ottla_testkit.conformance.harness.abilities import check_methods, check_spelling
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability, needed
from ottla_testkit.conformance.harness.closing import close_plugin
from ottla_testkit.conformance.harness.concurrent_calls import NotBackError, within
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads, no_thread_errors

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
        """Return, as text for a message, which method's calls took the most time; empty if no calls were counted."""
        measured = list(self.calls.items())
        if not measured:
            return ""
        call, calls = max(measured, key=lambda each: each[1].seconds)
        return f"; {call} took {calls.seconds / calls.number * 1000:.3g} ms on average in {calls.number} calls"


class BoundedSuite:
    """Run each test of the suites for a limited time; report a plugin without a part of its contract in each."""

    time_limit: ClassVar[float] = 30.0
    """Seconds that all tests together may take; more for a plugin that is slow on purpose."""
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call fails as stuck."""
    subject: ClassVar[str] = ""
    """The fixture that returns the plugin under test."""
    contract: ClassVar[type] = object
    """The plugin's protocol."""
    seed: ClassVar[int | None] = None
    """What the random inputs are made from; None takes a new number for each test, which a failed test prints."""
    usage: ClassVar[Usage]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.usage = Usage()
        if not cls.__module__.startswith(_PACKAGE):
            return
        if "subject" in vars(cls):
            _add_common_tests(cls)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.isfunction(test):
                setattr(cls, name, _bounded(test))

    @pytest.fixture
    def chance(self) -> random.Random:
        """Random numbers; what makes them the same again is printed."""
        seed = random.randrange(1 << 32) if self.seed is None else self.seed
        print(f"random inputs; `seed = {seed}` in {type(self).__name__} makes the same again")
        return random.Random(seed)

    @pytest.fixture
    def started_threads(self) -> StartedThreads:
        """The threads of the plugin. A test requests it before the plugin, which may start some when it is made."""
        return StartedThreads()

    def _close(self, plugin: object, *, used: bool = True) -> None:
        close_plugin(plugin, self.timeout, used=used)

    @contextmanager
    def _closed_after(self, plugin: object, threads: StartedThreads) -> Iterator[None]:
        """Close the plugin after the block, which uses it; fail for a thread that fails, or that remains."""
        with no_thread_errors():
            yield
            threads.check_daemons("it")
            self._close(plugin)
        threads.check_gone("close()" if has_ability(plugin, SupportsClose) else "it has no close(), and", self.timeout)

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


def _add_common_tests(suite: type[BoundedSuite]) -> None:
    """Add the tests that the suites of all kinds have. They request the plugin by the name of the suite's fixture."""
    subject = suite.subject

    def test_no_optional_ability_is_misspelt(self: BoundedSuite, **fixtures: Any) -> None:
        check_spelling(fixtures[subject], self.contract)

    def test_the_core_can_call_all_methods(self: BoundedSuite, **fixtures: Any) -> None:
        check_methods(fixtures[subject], self.contract)

    def test_close_is_possible_without_any_use(self: BoundedSuite, **fixtures: Any) -> None:
        plugin = needed(fixtures[subject], SupportsClose)
        self._close(plugin, used=False)
        fixtures["started_threads"].check_gone("close()", self.timeout)

    _add_test(suite, test_no_optional_ability_is_misspelt, subject)
    _add_test(suite, test_the_core_can_call_all_methods, subject)
    if "close" not in vars(suite.contract):  # a reporter is closed only after its start
        _add_test(suite, test_close_is_possible_without_any_use, "started_threads", subject)


def _add_test(suite: type[BoundedSuite], test: Callable[..., None], *fixtures: str) -> None:
    """Add a test with these fixtures as its parameters, which pytest reads from its signature."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *fixtures)]
    test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    setattr(suite, test.__name__, test)


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
                f"{usage.slowest()}; calls that wait are a fault; a plugin that computes for longer states `time_limit`"
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
            fail(f"the plugin raised {type(error).__name__}{place}; it would end its thread", error, with_suite=True)
        fail(
            f"{type(error).__name__}{place} in {test.__name__}: the plugin raised it, or it gave something that the "
            "contract does not allow",
            error,
            with_suite=True,  # the error may be about a value that the plugin gave earlier
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
