"""Places in the source where text of other parties could get into an error or a log line unchanged.

Every exception that is not one of ours may have such text: a transport's, of what the peer sent; the system's, with the
name that a broker advertised. Modules that meet other parties show it by `printable` or `quoted` only.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest

import ottla.errors

pytestmark = pytest.mark.unmeasured

PACKAGES: Final = (
    "ottla",
    "ottla_transport_plaintext",
    "ottla_transport_ssl",
    "ottla_authenticator_sasl",
    "ottla_serializer_schema_registry",
)

MEETING_OTHERS: Final = {
    "AuthenticationError",
    "BrokerError",
    "ConnectionFailedError",
    "InvalidSchemaError",
    "NameResolutionError",
    "NetworkError",
    "ProducerFailedError",
    "ProtocolError",
    "RegistryAnswerError",
    "RegistryUnavailableError",
    "SchemaRegistryError",
    "SecurityError",
    "TlsHandshakeError",
    "TransactionError",
}
"""A module that names one of these errors talks to other parties, or handles what comes of it."""

QUOTING: Final = {"printable", "quoted", "described", "one_line", "type_and_place"}

OURS: Final = {"NotAllowedError"}
"""An exception whose text is ours, and that `ottla.errors` does not have."""

LOCAL: Final = (
    # The system has no thread, no socket, no memory: no other process is asked.
    "could not start a thread for the login: ",
    "the producer has no socket to be woken by: ",
    "the producer cannot watch its sockets: ",
    "could not connect to : no socket: ",
    # What struct and codecs say names places and single bytes.
    " of  bytes cannot be read: ",
    "a header's name is not UTF-8: ",
    # Our own checks of options, files and URLs quote what they show, with the remedy last: not to be cut.
    "the file of  cannot be used: ",
    "the token in  cannot be used: ",
    ': ; write: org.apache.kafka...LoginModule required option="value" ... ;',
)
"""Texts into which an exception goes that has no text from outside; without the exception."""


@attrs.frozen
class Shown:
    """A text of ours with an exception in it, without the exception; and where it is."""

    text: str
    place: str


@functools.cache
def sources() -> Sequence[tuple[str, ast.AST]]:
    """The modules that meet others."""
    found = []
    for package in PACKAGES:
        for file in sorted(Path(str(importlib.import_module(package).__file__)).parent.rglob("*.py")):
            tree = ast.parse(file.read_text("utf-8"))
            if any(isinstance(node, ast.Name) and node.id in MEETING_OTHERS for node in ast.walk(tree)):
                found.append((file.name, tree))
    return found


def shown(file: str, tree: ast.AST) -> Iterator[Shown]:
    """Places where a handler or a function shows an exception's text, unless it is always one of our own errors."""
    for part in ast.walk(tree):
        for name in _exceptions(part):
            for node in (each for statement in part.body for each in ast.walk(statement)):  # type: ignore[attr-defined]
                if any(_names(value, name) for value in _shown_by(node)):
                    yield Shown(_text(node), f"{file}:{getattr(node, 'lineno', 0)}")


def _exceptions(part: ast.AST) -> list[str]:
    """The names of exceptions in a handler, or in a function that gets them."""
    if isinstance(part, ast.ExceptHandler):
        return [part.name] if part.name and not _ours(part.type) else []
    if isinstance(part, ast.FunctionDef):
        return [
            each.arg
            for each in [*part.args.args, *part.args.kwonlyargs]
            if each.annotation and _foreign(each.annotation)
        ]
    return []


def _foreign(annotation: ast.expr) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in {"BaseException", "Exception", "OSError"}


def _ours(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return all(isinstance(name, ast.Name) and (hasattr(ottla.errors, name.id) or name.id in OURS) for name in names)


def _shown_by(node: ast.AST) -> list[ast.expr]:
    """The parts of a text or a log line."""
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    logs = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    return node.args if logs and node.func.value.id == "logger" else []  # type: ignore[attr-defined]  # it is a Call


def _text(node: ast.AST) -> str:
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return "".join(each for each in constants if isinstance(each, str))


def _names(value: ast.expr, name: str) -> bool:
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in QUOTING | {"type", "remedy"}
    ):
        return False
    if isinstance(value, ast.Name):
        return value.id == name
    return any(_names(child, name) for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr))


@pytest.mark.rule("security.foreign-text")
def test_text_of_foreign_exceptions_is_quoted_where_it_is_shown() -> None:
    found = [each for name, tree in sources() for each in shown(name, tree)]
    assert [each for each in found if each.text not in LOCAL] == []


@pytest.mark.rule("security.foreign-text")
@pytest.mark.parametrize(
    "name", ["client.py", "exchange.py", "selector.py", "resolver.py", "blocking_client.py", "token_endpoint.py"]
)
def test_modules_that_talk_to_brokers_are_checked(name: str) -> None:
    assert name in dict(sources())


SHOWS: Final = {
    "raise Lost(f'{host} failed: {error}')": True,
    "raise Lost(f'{host} failed: {error!r}')": True,
    "raise Lost(f'{error.reason}')": True,
    "raise Lost(f'{str(error)}')": True,
    "raise Lost(f'{type(error).__name__}: {error}')": True,
    "logger.warning('%s', error)": True,
    "raise Lost(f'{printable(str(error))}') from error": False,
    "raise Lost(f'{quoted(str(error))}')": False,
    "raise Lost('it failed') from error": False,
}
"""Statements, and whether they show what is called `error`."""


@pytest.mark.parametrize(("statement", "seen"), SHOWS.items())
def test_the_text_of_an_exception_is_detected_in_each_form(statement: str, seen: bool) -> None:
    source = f"def connect():\n try:\n  go()\n except OSError as error:\n  {statement}"
    assert bool(list(shown("m", ast.parse(source)))) == seen
    assert not list(shown("m", ast.parse(source.replace("OSError", "OttlaError"))))
    function = f"def lost(error: Exception):\n {statement}"
    assert bool(list(shown("m", ast.parse(function)))) == seen
