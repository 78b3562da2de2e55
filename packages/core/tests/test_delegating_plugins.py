"""Objects of plugins that pass most calls on with `__getattr__`, as wrappers do, are as good as others.

Since Python 3.12, `isinstance` with a protocol does not see such attributes.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import pytest

from ottla.errors import InvalidPluginError
from ottla.interfaces import ColumnsKind
from ottla.network.selector.transport_plugin_faults import WrongResultError, check_layer
from ottla.plugins.attribute_checks import first_columns
from ottla.plugins.transports import SocketLayer
from ottla.recordbatch.objects import ObjectEncoder

LACKING: Final = "close"


class Wrapper:
    """Passes every attribute on, except those that it *lacks*."""

    def __init__(self, inner: object, *, lacks: str = "") -> None:
        self._inner = inner
        self._lacks = lacks

    def __getattr__(self, name: str) -> Any:
        if name == self._lacks:
            raise AttributeError(name)
        return getattr(self._inner, name)


class WrappedColumns(ObjectEncoder):
    """An encoder whose columns are wrapped."""

    lacks = ""

    def columns(self, kind: ColumnsKind, limit: int) -> Any:
        return Wrapper(super().columns(kind, limit), lacks=self.lacks)


def test_a_layer_may_be_a_wrapper() -> None:
    with socket.socket() as sock:
        check_layer(Wrapper(SocketLayer(sock)))
        with pytest.raises(WrongResultError, match="open returned"):
            check_layer(Wrapper(SocketLayer(sock), lacks=LACKING))


def test_columns_may_be_a_wrapper() -> None:
    encoder = WrappedColumns()

    assert isinstance(first_columns(encoder), Wrapper)
    encoder.lacks = LACKING
    with pytest.raises(InvalidPluginError, match="which is no"):
        first_columns(encoder)
