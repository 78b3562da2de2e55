"""Plugins with one broken method, made from plugins that keep all promises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import wrong_compressors
import wrong_encoders
import wrong_interceptors
import wrong_mechanisms
import wrong_partitioners
import wrong_providers
import wrong_reporters
import wrong_serializers

import wrong_transports


def _returns(result: object) -> Callable[..., object]:
    return lambda *_arguments, **_more: result


def _raises(kind: type[BaseException], content: object) -> Callable[..., object]:
    def raises(*_arguments: object, **_more: object) -> object:
        raise kind(content)  # a new one each time: its traceback grows where it is raised

    return raises


FAULTS: Final[Mapping[str, Any]] = {
    "returns None": _returns(None),
    "returns an object": _returns(SimpleNamespace()),
    "returns a number": _returns(-7.5),
    "raises KeyError": _raises(KeyError, "boom"),
    "raises SystemExit": _raises(SystemExit, 3),
    "takes no argument": lambda: None,
    "never returns": lambda *_arguments, **_more: threading.Event().wait(),
    "is a number": 5,
}
RESULTS: Final = frozenset(fault for fault in FAULTS if fault.startswith("returns "))
"""Faults that are none for a method whose result is not read."""


def broken(right: type[Any], method: str, fault: str) -> Any:
    """Return a class like *right* with one broken method."""
    found = FAULTS[fault]
    return type("Broken", (right,), {method: staticmethod(found) if callable(found) else found})


def plugin(kind: str, method: str, fault: str) -> Any:
    """Return a plugin of this kind whose *method*, or that of what it makes, is broken."""
    match kind:
        case "partitioner":
            return broken(wrong_partitioners.Right, method, fault)()
        case "compressor":
            return broken(wrong_compressors.Right, method, fault)()
        case "serializer":
            return broken(wrong_serializers.Right, method, fault)()
        case "interceptor":
            return broken(wrong_interceptors.RightForTables, method, fault)()
        case "reporter":
            return broken(wrong_reporters.Right, method, fault)()
        case "config_provider":
            return broken(wrong_providers.Right, method, fault)()
        case "authenticator" if method in ("authenticator", "close"):
            return broken(wrong_mechanisms.Right, method, fault)()
        case "authenticator":
            exchange = broken(wrong_mechanisms.Exchange, method, fault)
            return type("Mechanism", (wrong_mechanisms.Right,), {"exchange": exchange})()
        case "encoder" if method in ("columns", "close"):
            return broken(wrong_encoders.WrongEncoder, method, fault)(wrong_encoders.Right)
        case "encoder":
            return wrong_encoders.WrongEncoder(broken(wrong_encoders.Right, method, fault))
        case "transport" if method in ("open", "targets", "close"):
            return broken(wrong_transports.WrongTransport, method, fault)(wrong_transports.Right)
        case _:
            return wrong_transports.WrongTransport(broken(wrong_transports.Right, method, fault))
