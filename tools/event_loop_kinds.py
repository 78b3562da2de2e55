"""The kinds of event loops that tests of asynchronous code run on: asyncio's, and uvloop's where it is installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final


def _kinds() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    kinds: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if importlib.util.find_spec("uvloop") is not None:
        kinds["uvloop"] = importlib.import_module("uvloop").new_event_loop
    return kinds


KINDS: Final = _kinds()


def run_on(kind: str, main: Coroutine[Any, Any, Any], *, within: float) -> Any:
    """Return the result of a coroutine on a new loop of this kind; raises TimeoutError after so many seconds."""

    async def limited() -> Any:
        return await asyncio.wait_for(main, within)

    with asyncio.Runner(loop_factory=KINDS[kind]) as runner:
        return runner.run(limited())
