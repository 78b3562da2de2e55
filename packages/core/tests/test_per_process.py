"""The function that returns the producer of a process says so if a program takes it for the producer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import ottla
import ottla.aio


@pytest.mark.parametrize(
    ("made", "kind", "method"),
    [
        (ottla.per_process(bootstrap_servers="kafka:9092"), "PerProcess", "send"),
        (ottla.aio.per_process(bootstrap_servers="kafka:9092"), "AsyncPerProcess", "send_and_wait"),
    ],
    ids=["threads", "asyncio"],
)
def test_a_method_of_the_producer_has_the_hint_to_call_the_function(made: Any, kind: str, method: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(made, method)("orders", b"three apples")

    assert str(caught.value) == f"'{kind}' object has no attribute {method!r}; call it first, as in producer().{method}"


def test_any_other_missing_attribute_of_the_function_has_the_usual_error() -> None:
    made: Any = ottla.per_process(bootstrap_servers="kafka:9092")

    with pytest.raises(AttributeError, match=r"^'PerProcess' object has no attribute 'sned'$"):
        made.sned("orders", b"three apples")
    assert not hasattr(object.__new__(type(made)), "_kind")


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("of", [ottla.per_process, ottla.aio.per_process], ids=["threads", "asyncio"])
def test_a_copy_of_the_function_is_refused_with_what_to_do_instead(
    of: Callable[..., object], copied: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=r"^a function of per_process cannot .*; make it in a module, which each"):
        copied(of(bootstrap_servers="kafka:9092"))
